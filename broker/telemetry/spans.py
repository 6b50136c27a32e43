"""Traces: what each call and its parts did, as spans that other systems' spans hang together with.

A caller's trace is carried on whether or not spans are exported. Of what crosses between systems only ``traceparent``
is used (W3C Trace Context); a span holds names, counts and reasons, and never what was asked or found, or a score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
"""The metadata's key of the caller's span."""

_PROPAGATOR = TraceContextTextMapPropagator()

Value = str | int | float | bool


class Tracing:
    """Makes the spans of one broker."""

    def __init__(self, tracer: Tracer | None = None, close: Callable[[], None] = lambda: None) -> None:
        """Makes spans.

        Args:
            tracer: What makes them; None: a caller's trace is carried on, and nothing is added to it.
            close: Hands over what was not exported yet; it may take seconds, and is called in a thread.
        """
        self._tracer = tracer
        self._close = close

    @contextmanager
    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Span]:
        """The span of a call, current inside the block; it is a child of the caller's, where ``metadata`` names one."""
        if self._tracer is None:
            callers = get_current_span(caller_context(metadata))
            if callers is get_current_span():
                yield callers
            else:
                with use_span(callers, record_exception=False, set_status_on_exception=False):
                    yield callers
            return
        span = self._tracer.start_span(
            method,
            context=caller_context(metadata),
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.method": method},
            record_exception=False,
            set_status_on_exception=False,
        )
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield span

    @contextmanager
    def part(self, name: str, **attributes: Value) -> Iterator[Span]:
        """The span of a part of what is current, current inside the block. An error that leaves it marks it."""
        if self._tracer is None:
            yield get_current_span()
            return
        span = self._tracer.start_span(name, attributes=named(**attributes))
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except asyncio.CancelledError:
                failed(span, "CANCELLED")
                raise
            except Exception as error:
                # Its text may hold what was asked; its reason, where it has one, does not.
                failed(span, str(getattr(error, "reason", type(error).__name__)))
                raise

    def begin(self, name: str, **attributes: Value) -> Span:
        """A span of what is current, to be ended by whoever began it."""
        if self._tracer is None:
            return get_current_span()
        return self._tracer.start_span(name, attributes=named(**attributes))

    async def close(self) -> None:
        """Hands over what was not exported yet."""
        await asyncio.to_thread(self._close)


def note(span: Span, **attributes: Value) -> None:
    """Adds attributes to a span, :func:`named`, where it is one that is kept."""
    if span.is_recording():
        span.set_attributes(named(**attributes))


def named(**attributes: Value) -> dict[str, Value]:
    """Attributes under names that no other system gives to its own."""
    return {f"contextbroker.{name}": value for name, value in attributes.items()}


def failed(span: Span, reason: str) -> None:
    """Marks a span as failed, for a stable reason, where it is one that is kept."""
    if span.is_recording():
        span.set_status(Status(StatusCode.ERROR, reason))


def caller_context(metadata: Iterable[tuple[str, str | bytes]]) -> Context:
    """Where a caller's span is; empty where it names none. Of several the core hands on the last."""
    value = next((value for key, value in metadata if key == TRACEPARENT), None)
    return _PROPAGATOR.extract({TRACEPARENT: value}, Context()) if isinstance(value, str) else Context()


def traceparent(span: Span | None = None) -> str:
    """What names a span to another system; None: the current one. Empty: there is none."""
    context = (get_current_span() if span is None else span).get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def carried() -> tuple[tuple[str, str], ...]:
    """What a call to another system carries, so that its spans are parts of the current one."""
    value = traceparent()
    return ((TRACEPARENT, value),) if value else ()


def trace_id() -> str:
    """The current trace, in hex; empty: there is none."""
    context = get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def sampled_trace_id() -> str:
    """The current trace, where it is one that is kept; empty: there is none."""
    context = get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid and context.trace_flags.sampled else ""
