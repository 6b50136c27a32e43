"""A caller's trace is carried on whether or not spans are exported, and no error's text is part of one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from broker.errors import Unavailable
from broker.telemetry.spans import (
    TRACEPARENT,
    Tracing,
    caller_context,
    carried,
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
