"""Every lane is watched from its request's start to its own end or its request's, and none is counted twice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from broker.core.lanes import LaneEnd, Lie
from broker.gather.fabric import PushKey
from broker.gather.gathering import WantedLane
from broker.rpc.lane_watch import LaneWatch
from broker.rpc.observing import Observing
from broker.telemetry.metrics import Metrics
from broker.telemetry.spans import TRACEPARENT, Tracing, traceparent
from tests.core.building import frame, lane

WANTED = (WantedLane("a"), WantedLane("b", PushKey("", "r", "b")))


class Watched:
    """A watch, begun in a call that is over, with what it told."""

    def __init__(self, *metadata: tuple[str, str], exports: bool = True) -> None:
        self.kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.metrics = Metrics(providers=["a", "b"])
        tracing = Tracing(provider.get_tracer("test") if exports else None)
        with tracing.call("Compose", metadata) as call:
            self.callers = traceparent(call)
            self.watch = LaneWatch(Observing(self.metrics, tracing), WANTED)
        self.kept.clear()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"context_broker_{name}", labels)


async def test_each_lane_has_a_span_of_its_own_that_its_provider_is_told() -> None:
    watched = Watched()
    wanted = watched.watch.wanted
    assert [replace(lane, traceparent="") for lane in wanted] == list(WANTED)
    assert watched.value("lanes_in_flight") == 2
    for one in wanted:
        watched.watch.ended(lane(one.provider, [frame("x")]))
    assert watched.value("lanes_in_flight") == 0
    spans = {span.attributes["contextbroker.provider"]: span for span in watched.kept.get_finished_spans()}
    assert {one.provider: one.traceparent.split("-")[2] for one in wanted} == {
        name: f"{span.get_span_context().span_id:016x}" for name, span in spans.items()
    }
    assert {name: span.attributes["contextbroker.pushed"] for name, span in spans.items()} == {"a": False, "b": True}
    assert {span.attributes["contextbroker.frames_offered"] for span in spans.values()} == {1}


@pytest.mark.parametrize("end", LaneEnd)
async def test_a_lane_that_did_not_answer_is_marked(end: LaneEnd) -> None:
    watched = Watched()
    lie = Lie("COST_MISMATCH", "THE-DETAIL", "THE-ID") if end is LaneEnd.REFUSED else None
    watched.watch.ended(replace(lane("a", []), end=end, message="THE-MESSAGE", lie=lie))
    (span,) = watched.kept.get_finished_spans()
    assert span.attributes["contextbroker.end"] == end.value
    assert span.attributes.get("contextbroker.violation") == (lie and lie.reason)
    assert span.status.is_ok or span.status.description == (None if end.answered else end.value)
    assert watched.value("lanes_total", provider="a", end=end.value) == 1
    assert "THE-" not in span.to_json()


async def test_a_request_that_is_over_leaves_no_lane_open() -> None:
    watched = Watched()
    watched.watch.ended(lane("a", []))
    watched.watch.close()
    watched.watch.close()
    assert watched.value("lanes_in_flight") == 0
    assert watched.value("lanes_total", provider="b", end="COMPLETE") is None
    spans = {span.attributes["contextbroker.provider"]: span for span in watched.kept.get_finished_spans()}
    assert spans["b"].status.description == "CANCELLED"


DROPPED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
KEPT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("exports", [True, False])
async def test_lanes_of_a_trace_that_is_not_kept_are_told_of_the_call_s_own_span(exports: bool) -> None:
    watched = Watched((TRACEPARENT, DROPPED), exports=exports)
    assert {one.traceparent for one in watched.watch.wanted} == {watched.callers}
    assert (watched.callers == DROPPED) is not exports
    watched.watch.ended(lane("a", []))
    watched.watch.close()
    assert watched.value("lanes_in_flight") == 0
    assert watched.kept.get_finished_spans() == ()


async def test_lanes_of_no_trace_are_as_they_were() -> None:
    watched = Watched(exports=False)
    assert watched.watch.wanted == WANTED
    watched.watch.ended(lane("b", []))
    watched.watch.close()
    assert watched.value("lanes_in_flight") == 0


async def test_a_figure_leads_to_the_request_in_whichever_call_its_lane_ends() -> None:
    watched = Watched((TRACEPARENT, KEPT), exports=False)
    with Tracing().call("Attach", [(TRACEPARENT, KEPT.replace("4bf9", "ffff"))]):
        watched.watch.ended(lane("a", []))
    samples = [sample for family in watched.metrics.registry.collect() for sample in family.samples]
    assert [(s.name, s.exemplar.labels["trace_id"]) for s in samples if s.exemplar is not None] == [
        ("context_broker_lane_seconds_bucket", KEPT.split("-")[1])
    ]
