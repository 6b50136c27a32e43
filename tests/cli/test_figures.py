"""Rates and quantiles are those of what happened between two readings of a broker's own metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from broker.cli.figures import Change, Scrape, scraped


def metrics() -> tuple[CollectorRegistry, Counter, Histogram, Gauge]:
    registry = CollectorRegistry()
    return (
        registry,
        Counter("context_broker_lanes", "…", ["provider", "end"], registry=registry),
        Histogram("context_broker_call_seconds", "…", ["method"], buckets=(0.1, 0.2, 0.4), registry=registry),
        Gauge("context_broker_sessions", "…", registry=registry),
    )


def reading(registry: CollectorRegistry, at: float) -> Scrape:
    return scraped(generate_latest(registry).decode(), at)


def test_values_are_summed_over_the_labels_that_are_not_named() -> None:
    registry, lanes, _, sessions = metrics()
    lanes.labels("a", "COMPLETE").inc(3)
    lanes.labels("a", "EMPTY").inc()
    lanes.labels("b", "COMPLETE").inc(5)
    sessions.set(7)
    scrape = reading(registry, 0.0)
    assert scrape.value("lanes_total") == 9
    assert scrape.value("lanes_total", provider="a") == 4
    assert scrape.value("lanes_total", end="COMPLETE", provider="b") == 5
    assert scrape.value("sessions") == 7
    assert scrape.value("none") == 0
    assert scrape.label_values("lanes_total", "end") == {"COMPLETE", "EMPTY"}


def test_a_rate_is_what_came_since_and_a_counter_that_fell_began_anew() -> None:
    registry, lanes, _, _ = metrics()
    lanes.labels("a", "COMPLETE").inc(10)
    before = reading(registry, 100.0)
    lanes.labels("a", "COMPLETE").inc(6)
    assert Change(before, reading(registry, 103.0)).rate("lanes_total") == 2.0
    fresh, lanes, _, _ = metrics()
    lanes.labels("a", "COMPLETE").inc(4)
    assert Change(before, reading(fresh, 102.0)).rate("lanes_total") == 2.0
    assert Change(before, before).rate("lanes_total") == 0.0


@given(st.lists(st.sampled_from([0.05, 0.15, 0.3]), min_size=1, max_size=30), st.floats(0.01, 1.0))
def test_a_quantile_lies_in_the_bucket_that_the_sorted_values_say(values: list[float], part: float) -> None:
    registry, _, seconds, _ = metrics()
    seconds.labels("Compose").observe(0.3)
    before = reading(registry, 0.0)
    for value in values:
        seconds.labels("Compose").observe(value)
    found = Change(before, reading(registry, 1.0)).quantile(part, "call_seconds", method="Compose")
    wanted = next(value for count, value in enumerate(sorted(values), 1) if count >= part * len(values))
    low, high = {0.05: (0.0, 0.1), 0.15: (0.1, 0.2), 0.3: (0.2, 0.4)}[wanted]
    assert found is not None
    assert low <= found <= high


def test_what_lies_above_the_last_bound_counts_as_that_bound() -> None:
    registry, _, seconds, _ = metrics()
    before = reading(registry, 0.0)
    assert Change(before, before).quantile(0.5, "call_seconds") is None
    seconds.labels("Compose").observe(9.0)
    assert Change(before, reading(registry, 1.0)).quantile(0.5, "call_seconds") == 0.4


def test_what_is_no_metrics_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        scraped("<html>{", 0.0)
