"""Traces across the client: where a process uses OpenTelemetry, its spans hang together with the broker's.

A question that is asked inside a span is part of that trace, and so is every provider's answer to it. Nothing here
imports OpenTelemetry on its own: a process that uses it has done so, and in any other there are no spans to speak of.
Spans hold names, counts and codes; never what was asked or found.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.errors import BrokerError

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Metadata = Sequence[tuple[str, str]]

_API = "opentelemetry.trace"
_NAME = "broker.client"
_TRACEPARENT = "traceparent"


def carried(metadata: Metadata) -> Metadata:
    """A call's metadata, with the span that is current, so that the broker's is a part of it."""
    if _API not in sys.modules:
        return metadata
    return (*metadata, *_named(None))


@contextmanager
def calling(method: str, metadata: Metadata) -> Iterator[Metadata]:
    """The span of a call to the broker, which lasts as long as the block.

    It is never the current one: what is done between two messages of an answer is not part of the call.

    Args:
        method: The method's path.
        metadata: What the call carries otherwise.

    Yields:
        What it carries now.
    """
    if _API not in sys.modules:
        yield metadata
        return
    from opentelemetry import trace

    name = method.strip("/")
    service, _, short = name.partition("/")
    span = trace.get_tracer(_NAME).start_span(
        name,
        kind=trace.SpanKind.CLIENT,
        attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": short},
        record_exception=False,
        set_status_on_exception=False,
    )
    with _ending(span):
        yield (*metadata, *_named(span))


@contextmanager
def answering(provider: str, traceparent: str) -> Iterator[None]:
    """The span of an answer, current while the block runs: the user's own spans are parts of it.

    Args:
        provider: Who answers.
        traceparent: Of the lane that is answered; empty: there is none.
    """
    if _API not in sys.modules:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    span = trace.get_tracer(_NAME).start_span(
        "answer",
        context=TraceContextTextMapPropagator().extract({_TRACEPARENT: traceparent}, Context()),
        kind=trace.SpanKind.SERVER,
        attributes={"contextbroker.provider": provider},
        record_exception=False,
        set_status_on_exception=False,
    )
    with (
        _ending(span),
        trace.use_span(span, record_exception=False, set_status_on_exception=False),
    ):
        yield


def _failed(span: Span, reason: str) -> None:
    """Marks a span as failed, for a stable reason."""
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, reason))


@contextmanager
def _ending(span: Span) -> Iterator[None]:
    """Ends a span with the block, and marks it where that is left by an error, or before its end."""
    try:
        yield
    except BrokerError as error:
        span.set_attribute("contextbroker.reason", error.reason)
        _failed(span, error.code)
        raise
    except (asyncio.CancelledError, GeneratorExit):
        _failed(span, "CANCELLED")
        raise
    except BaseException as error:
        # Its text may hold what was asked.
        _failed(span, type(error).__name__)
        raise
    finally:
        span.end()


def _named(span: Span | None) -> Metadata:
    """What names a span to another system; None: the current one."""
    from opentelemetry.context import Context
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    context = None if span is None else set_span_in_context(span, Context())
    TraceContextTextMapPropagator().inject(carrier, context)
    value = carrier.get(_TRACEPARENT)
    return () if value is None else ((_TRACEPARENT, value),)
