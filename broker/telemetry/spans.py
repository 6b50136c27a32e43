"""Traces: what each call and its parts did, as spans that other systems' spans hang together with.

A caller's trace is carried on whether or not spans are exported. Of what crosses between systems only ``traceparent``
is used (W3C Trace Context); a span holds names, counts and reasons, and never what was asked or found, or a score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
"""The metadata's key of the caller's span."""

_PROPAGATOR = TraceContextTextMapPropagator()

Value = str | int | float | bool


class Trace(NamedTuple):
    """The trace of a call.

    Attributes:
        id: In hex; empty: it is of none.
        kept_id: The same, where the trace is one that is kept; empty: it is not.
    """

    id: str
    kept_id: str


NO_TRACE = Trace("", "")
"""Of a call that is of none."""

_TRACE: ContextVar[Trace] = ContextVar("trace", default=NO_TRACE)

current_trace: Callable[[], Trace] = _TRACE.get
"""The trace of the call that runs. OpenTelemetry need not be asked for anything where it is none, or is not kept."""

_NO_PART = nullcontext()


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

    @property
    def keeps(self) -> bool:
        """Whether there are spans of what runs now."""
        return self._tracer is not None and current_trace().kept_id != ""

    def concerns(self, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        """Whether a call with such metadata is of a trace, or would stand in one that it has no part in."""
        if self._tracer is not None or current_trace() is not NO_TRACE:
            return True
        for key, _ in metadata:  # noqa: SIM110 - a generator takes longer than the loop, and this is asked of each call
            if key == TRACEPARENT:
                return True
        return False

    @contextmanager
    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Span]:
        """The span of a call, current inside the block; it is a child of the caller's, where ``metadata`` names one.

        Of a call that this does not :meth:`concern <concerns>` the block is as well run without.
        """
        callers = caller_context(metadata)
        if self._tracer is None:
            span = get_current_span(callers)
        else:
            span = self._tracer.start_span(
                method,
                context=callers,
                kind=SpanKind.SERVER,
                attributes={"rpc.system": "grpc", "rpc.method": method},
                record_exception=False,
                set_status_on_exception=False,
            )
        token = _TRACE.set(_trace_of(span))
        try:
            with use_span(
                span, end_on_exit=self._tracer is not None, record_exception=False, set_status_on_exception=False
            ):
                yield span
        finally:
            _TRACE.reset(token)

    def part(self, name: str, **attributes: Value) -> AbstractContextManager[object]:
        """The span of a part of what is current, current inside the block. An error that leaves it marks it."""
        return self._part(self._tracer, name, attributes) if self._tracer is not None and self.keeps else _NO_PART

    @contextmanager
    def _part(self, tracer: Tracer, name: str, attributes: dict[str, Value]) -> Iterator[None]:
        span = tracer.start_span(name, attributes=named(**attributes))
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except asyncio.CancelledError:
                failed(span, "CANCELLED")
                raise
            except Exception as error:
                # Its text may hold what was asked; its reason, where it has one, does not.
                failed(span, str(getattr(error, "reason", type(error).__name__)))
                raise

    def begin(self, name: str, **attributes: Value) -> Span | None:
        """A span of what is current, to be ended by whoever began it; None: there are none, see :attr:`keeps`."""
        if self._tracer is None or not self.keeps:
            return None
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
    if span is None:
        if current_trace() is NO_TRACE:
            return ""
        span = get_current_span()
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def carried() -> tuple[tuple[str, str], ...]:
    """What a call to another system carries, so that its spans are parts of the current one."""
    value = traceparent()
    return ((TRACEPARENT, value),) if value else ()


def _trace_of(span: Span) -> Trace:
    context = span.get_span_context()
    if not context.is_valid:
        return NO_TRACE
    trace_id = f"{context.trace_id:032x}"
    return Trace(trace_id, trace_id if context.trace_flags.sampled else "")
