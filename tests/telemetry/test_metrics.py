"""What is counted adds up, under labels of a bounded set, and holds nothing of what was asked or found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import generate_latest

from broker.core.composition import AuditState
from broker.core.lanes import LaneEnd
from broker.telemetry.metrics import GAUGES, MOST_REASONS, PREFIX, Metrics
from broker.telemetry.names import INLINE, OTHER
from tests.core.building import composed, frame, lane

STAGES = {"gathering": 0.3, "composing": 0.02, "sending": 0.001, "recording": 0.004}
NAMES = st.sampled_from([f"p{number}" for number in range(6)])


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """A metric's values by its labels' values, in the order of the labels' names."""
    return {
        tuple(value for key, value in sorted(sample.labels.items()) if key != "le"): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"{PREFIX}_{name}"
    }


def by_stage(found: Mapping[tuple[str, ...], float], stage: str) -> dict[str, float]:
    return {provider: value for (provider, at), value in found.items() if at == stage}


@settings(max_examples=30)
@given(st.dictionaries(NAMES, st.integers(0, 5), min_size=1), st.integers(100, 400))
def test_frames_and_tokens_are_those_of_the_usage(counts: dict[str, int], max_tokens: int) -> None:
    metrics = Metrics(providers=["p0", "p1"], most_providers=2)
    lanes = [lane(name, [frame(f"{name}-{i}") for i in range(n)]) for name, n in sorted(counts.items())]
    composition = composed(*lanes, max_tokens=max_tokens)
    metrics.composed(composition, STAGES, inline={"p5"})
    usage = composition.usage

    labels = {name: name if name in ("p0", "p1") else INLINE if name == "p5" else OTHER for name in counts}
    for figure, name in (("frames", "provider_frames_total"), ("tokens", "tokens_total")):
        for stage in ("offered", "admitted", "placed"):
            wanted = dict.fromkeys(labels.values(), 0.0)
            for provider, used in usage.providers.items():
                wanted[labels[provider]] += getattr(used, f"{figure}_{stage}")
            assert by_stage(samples(metrics, name), stage) == wanted
    fates = samples(metrics, "frames_total")
    assert sum(fates.values()) == usage.total.frames_offered
    assert fates.get(("placed", ""), 0.0) == usage.total.frames_placed
    assert {reason: n for (fate, reason), n in fates.items() if fate == "excluded"} == {
        reason: n for reason, n in composition.summary.reasons.items() if reason != "INCLUDED"
    }
    assert samples(metrics, "stage_seconds_sum") == {(stage,): seconds for stage, seconds in STAGES.items()}


def test_compositions_are_told_apart_by_strategy_and_record() -> None:
    metrics = Metrics()
    for state in (AuditState.RECORDED, AuditState.RECORDED, AuditState.DEGRADED):
        metrics.composed(replace(composed(lane("a", [frame("x")])), audit_state=state), STAGES, ())
    assert samples(metrics, "compositions_total") == {("RECORDED", "round_robin"): 2, ("DEGRADED", "round_robin"): 1}


def test_lanes_are_counted_by_end_and_leave_none_open() -> None:
    metrics = Metrics(providers=["a"])
    for end in LaneEnd:
        metrics.lanes_began(1)
        metrics.lane_ended(replace(lane("a", []), end=end), 0.25)
    metrics.lanes_began(4)
    metrics.lane_ended(lane("invented", []), 0.25)
    metrics.lanes_left(2)
    assert samples(metrics, "lanes_total") == {(end.value, "a"): 1 for end in LaneEnd} | {("EMPTY", OTHER): 1}
    assert samples(metrics, "lane_seconds_sum") == {("a",): 0.25 * len(LaneEnd), (OTHER,): 0.25}
    assert samples(metrics, "lanes_in_flight") == {(): 1}


def test_instances_of_more_providers_than_are_told_apart_are_counted_together() -> None:
    metrics = Metrics(most_providers=2)
    labels = [metrics.attached(f"p{number}") for number in range(50)]
    assert samples(metrics, "provider_instances") == {("p0",): 1, ("p1",): 1, (OTHER,): 48}
    for label in labels:
        metrics.detached(label)
    assert samples(metrics, "provider_instances") == {("p0",): 0, ("p1",): 0, (OTHER,): 0}


def test_reasons_are_bounded_too() -> None:
    metrics = Metrics()
    for number in range(3 * MOST_REASONS):
        metrics.call_began("Compose")
        metrics.call_ended("Compose", "INVALID_ARGUMENT", f"REASON_{number}", 0.1)
    assert len(samples(metrics, "refusals_total")) == MOST_REASONS + 1
    assert sum(samples(metrics, "refusals_total").values()) == 3 * MOST_REASONS


@pytest.mark.parametrize("text", ["THE-CONTENT", "THE-TITLE", "THE-ID", "THE-URI"])
def test_nothing_of_a_frame_is_shown(text: str) -> None:
    metrics = Metrics(providers=["a"])
    evidence = frame("THE-ID", 0.123456, "THE-CONTENT", title="THE-TITLE", uri="file:///THE-URI")
    composition = composed(lane("a", [evidence]))
    assert text in repr(composition)
    metrics.composed(composition, STAGES, ())
    metrics.lane_ended(lane("a", [evidence]), 0.1)
    assert text not in generate_latest(metrics.registry).decode()


def test_what_is_measured_is_what_there_are_gauges_for() -> None:
    metrics = Metrics()
    metrics.set({name: number for number, name in enumerate(GAUGES)})
    assert [samples(metrics, name)[()] for name in GAUGES] == list(range(len(GAUGES)))
    with pytest.raises(KeyError):
        metrics.set({"something": 1.0})


def test_every_metric_says_what_it_is() -> None:
    own = [family for family in Metrics().registry.collect() if family.name.startswith(PREFIX)]
    assert len(own) > 25
    assert all(family.documentation.endswith(".") for family in own)
