"""A caller's trace is carried on whether or not spans are exported, and no error's text is part of one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from broker.errors import Unavailable
from broker.telemetry.spans import (
    TRACEPARENT,
    Tracing,
    caller_context,
    carried,
    failed,
    note,
    sampled_trace_id,
    trace_id,
    traceparent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEPT, DROPPED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


def exporting() -> tuple[Tracing, InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return Tracing(provider.get_tracer("test")), kept


def test_without_an_exporter_the_caller_s_own_span_goes_on() -> None:
    with Tracing().call("Compose", [(TRACEPARENT, KEPT)]), Tracing().part("collect"):
        assert traceparent() == KEPT
        assert traceparent(Tracing().begin("lane")) == KEPT
        assert carried() == ((TRACEPARENT, KEPT),)
        assert (trace_id(), sampled_trace_id()) == (TRACE, TRACE)
    with Tracing().call("Compose", [(TRACEPARENT, DROPPED)]):
        assert (trace_id(), sampled_trace_id()) == (TRACE, "")


def test_a_call_of_no_trace_is_not_a_part_of_whatever_else_runs() -> None:
    tracing, kept = exporting()
    with tracing.call("Attach", [(TRACEPARENT, KEPT)]), tracing.call("Compose", []):
        pass
    with Tracing().call("Compose", []):
        assert (traceparent(), trace_id(), sampled_trace_id(), carried()) == ("", "", "", ())
    compose, attach = kept.get_finished_spans()
    assert compose.parent is None
    assert attach.parent.span_id == int(SPAN, 16)


def test_a_call_of_no_trace_is_of_none_where_the_process_has_one_of_its_own() -> None:
    outer, _ = exporting()
    with outer.call("Outer", []):
        with Tracing().call("Compose", []) as span:
            assert not span.is_recording()
            assert (traceparent(), trace_id()) == ("", "")
        assert trace_id()


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_a_span_is_named_as_the_standard_s_own_library_names_it(trace: int, span: int, flags: int) -> None:
    named = NonRecordingSpan(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(named, Context()))
    assert traceparent(named) == carrier.get(TRACEPARENT, "")


def test_what_is_not_kept_is_not_noted() -> None:
    tracing, kept = exporting()
    dropped = NonRecordingSpan(SpanContext(1, 1, is_remote=False))
    for span in (dropped, tracing.begin("lane", provider="a")):
        note(span, end="COMPLETE")
        failed(span, "CANCELLED")
        span.end()
    (span,) = kept.get_finished_spans()
    assert span.attributes == {"contextbroker.provider": "a", "contextbroker.end": "COMPLETE"}
    assert span.status.description == "CANCELLED"


@given(st.text() | st.binary())
def test_no_metadata_breaks_a_call(value: str | bytes) -> None:
    with Tracing().call("Compose", [(TRACEPARENT, value)]):
        assert traceparent() in ("", value)
    assert not get_current_span(caller_context([("Traceparent", KEPT)])).get_span_context().is_valid


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (Unavailable("AUDIT_UNAVAILABLE", "THE-TEXT"), "AUDIT_UNAVAILABLE"),
        (asyncio.CancelledError(), "CANCELLED"),
        (RuntimeError("THE-TEXT"), "RuntimeError"),
    ],
)
def test_a_part_that_fails_says_why_and_nothing_else(error: BaseException, described: str) -> None:
    tracing, kept = exporting()
    with pytest.raises(type(error)), tracing.call("Compose", []), tracing.part("record", tries=1):
        raise error
    part, whole = kept.get_finished_spans()
    assert part.status.description == described
    assert part.attributes == {"contextbroker.tries": 1}
    assert part.parent.span_id == whole.get_span_context().span_id
    # Whoever watches the call says how that ended.
    assert whole.status.is_unset
    assert "THE-TEXT" not in part.to_json() + whole.to_json()


async def test_closing_hands_over_from_a_thread() -> None:
    closed: list[bool] = []
    await Tracing(close=lambda: closed.append(True)).close()
    assert closed == [True]
