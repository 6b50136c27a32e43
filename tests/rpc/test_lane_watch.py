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
from broker.telemetry.spans import Tracing
from tests.core.building import frame, lane

WANTED = (WantedLane("a"), WantedLane("b", PushKey("", "r", "b")))


class Watched:
    """A watch with what it told."""

    def __init__(self) -> None:
        self.kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.metrics = Metrics(providers=["a", "b"])
        self.watch = LaneWatch(Observing(self.metrics, Tracing(provider.get_tracer("test"))), WANTED)

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
