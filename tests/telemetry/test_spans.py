"""A caller's trace is carried on whether or not spans are exported, and no error's text is part of one."""

from __future__ import annotations

import asyncio
from typing import Any

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
    NO_TRACE,
    TRACEPARENT,
    Trace,
    Tracing,
    caller_context,
    carried,
    current_trace,
    failed,
    note,
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
        assert Tracing().begin("lane") is None
        assert carried() == ((TRACEPARENT, KEPT),)
        assert current_trace() == Trace(TRACE, TRACE)
    with Tracing().call("Compose", [(TRACEPARENT, DROPPED)]):
        assert traceparent() == DROPPED
        assert current_trace() == Trace(TRACE, "")


def test_a_call_of_no_trace_is_not_a_part_of_whatever_else_runs() -> None:
    tracing, kept = exporting()
    with tracing.call("Attach", [(TRACEPARENT, KEPT)]), tracing.call("Compose", []):
        pass
    with Tracing().call("Compose", []):
        assert (traceparent(), current_trace(), carried()) == ("", NO_TRACE, ())
    compose, attach = kept.get_finished_spans()
    assert compose.parent is None
    assert attach.parent.span_id == int(SPAN, 16)


def test_a_call_of_no_trace_is_of_none_where_the_process_has_one_of_its_own() -> None:
    outer, _ = exporting()
    with outer.call("Outer", []):
        with Tracing().call("Compose", []) as span:
            assert not span.is_recording()
            assert (traceparent(), current_trace()) == ("", NO_TRACE)
        assert current_trace().id


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_a_span_is_named_as_the_standard_s_own_library_names_it(trace: int, span: int, flags: int) -> None:
    named = NonRecordingSpan(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(named, Context()))
    assert traceparent(named) == carrier.get(TRACEPARENT, "")


def test_what_is_not_kept_is_not_noted() -> None:
    tracing, kept = exporting()
    dropped = NonRecordingSpan(SpanContext(1, 1, is_remote=False))
    with tracing.call("Compose", []):
        for span in (dropped, tracing.begin("lane", provider="a")):
            note(span, end="COMPLETE")
            failed(span, "CANCELLED")
            span.end()
    span, _ = kept.get_finished_spans()
    assert span.attributes == {"contextbroker.provider": "a", "contextbroker.end": "COMPLETE"}
    assert span.status.description == "CANCELLED"


def test_a_call_that_is_not_kept_has_no_parts() -> None:
    tracing, kept = exporting()
    with tracing.call("Compose", [(TRACEPARENT, DROPPED)]) as span, tracing.part("collect"):
        assert not tracing.keeps
        assert tracing.begin("lane") is None
        assert traceparent() == traceparent(span) != DROPPED
        assert current_trace() == Trace(TRACE, "")
    with tracing.part("of no call"):
        assert tracing.begin("lane") is None
    assert kept.get_finished_spans() == ()


@pytest.mark.parametrize("metadata", [[], [("user-agent", "x")], [("Traceparent", KEPT)]])
def test_a_call_of_no_trace_concerns_only_who_makes_spans_or_stands_in_another_s(metadata: list[Any]) -> None:
    assert not Tracing().concerns(metadata)
    assert Tracing().concerns([*metadata, (TRACEPARENT, DROPPED)])
    tracing, _ = exporting()
    assert tracing.concerns(metadata)
    with tracing.call("Outer", []):
        assert Tracing().concerns(metadata)


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
