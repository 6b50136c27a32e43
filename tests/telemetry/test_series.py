"""What was counted is exposed exactly as prometheus_client's own metrics would expose it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from broker.telemetry import series
from broker.telemetry.metrics import LAG_SECONDS, SECONDS
from broker.telemetry.series import counters, exemplar, gauges, histograms

NOW = 1_700_000_000.25

COUNTS = st.integers(0, 10**6) | st.floats(0, 1e9)
VALUES = st.sampled_from([*SECONDS, 0.0, math.inf]) | st.floats(0, 100)
LABELS = st.tuples(st.sampled_from(["Compose", "a\nb", 'q"\\', "ü"]), st.text(max_size=3))
TRACES = st.sampled_from(["", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b74bf92f3577b34da6"])


@pytest.fixture(autouse=True, scope="module")
def _clock() -> Iterator[None]:
    """One moment for all: when series begin, and when examples were taken, is exposed too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series.time, "time", lambda: NOW)
        yield


def led(trace_id: str) -> dict[str, str] | None:
    return {"trace_id": trace_id} if trace_id else None


class Both:
    """The same metrics twice: the broker's, and the library's own."""

    def __init__(self) -> None:
        self.ours, self.theirs = CollectorRegistry(), CollectorRegistry()
        self.calls = counters(self.ours, "x_calls", "Calls.", "method", "code")
        self.all = counters(self.ours, "x_all", 'All, "quoted"\nand \\ more.')[()]
        self.running = gauges(self.ours, "x_running", "Running.", "method", "code")
        self.ready = gauges(self.ours, "x_ready", "Ready.")[()]
        self.seconds = histograms(self.ours, "x_seconds", "Seconds.", "method", "code", bounds=SECONDS)
        self.lag = histograms(self.ours, "x_lag", "Lag.", bounds=LAG_SECONDS)[()]
        labels = ("method", "code")
        self.their_calls = Counter("x_calls", "Calls.", labels, registry=self.theirs)
        self.their_all = Counter("x_all", 'All, "quoted"\nand \\ more.', registry=self.theirs)
        self.their_running = Gauge("x_running", "Running.", labels, registry=self.theirs)
        self.their_ready = Gauge("x_ready", "Ready.", registry=self.theirs)
        self.their_seconds = Histogram("x_seconds", "Seconds.", labels, buckets=SECONDS, registry=self.theirs)
        self.their_lag = Histogram("x_lag", "Lag.", buckets=LAG_SECONDS, registry=self.theirs)

    def count(self, labels: tuple[str, str], amount: float, trace_id: str) -> None:
        for tally, counter in (
            (self.calls[labels], self.their_calls.labels(*labels)),
            (self.all, self.their_all),
        ):
            tally.value += amount
            if trace_id:
                tally.exemplar = exemplar(trace_id, amount)
            counter.inc(amount, led(trace_id))
        self.running[labels].value -= amount
        self.their_running.labels(*labels).dec(amount)
        self.ready.value = amount
        self.their_ready.set(amount)

    def observe(self, labels: tuple[str, str], value: float, trace_id: str) -> None:
        for spread, histogram in (
            (self.seconds[labels], self.their_seconds.labels(*labels)),
            (self.lag, self.their_lag),
        ):
            spread.observe(value, trace_id)
            histogram.observe(value, led(trace_id))

    def agree(self) -> None:
        assert generate_latest(self.ours) == generate_latest(self.theirs)
        assert generate_openmetrics(self.ours) == generate_openmetrics(self.theirs)
        for asked in ("x_calls_total", "x_seconds_bucket", "x_ready"):
            ours, theirs = (registry.restricted_registry([asked]) for registry in (self.ours, self.theirs))
            assert generate_latest(ours) == generate_latest(theirs)


STEPS = st.one_of(
    st.tuples(st.just("count"), LABELS, COUNTS, TRACES), st.tuples(st.just("observe"), LABELS, VALUES, TRACES)
)


@given(st.lists(STEPS, max_size=30))
def test_it_is_exposed_as_the_library_s_own(steps: list[tuple[str, tuple[str, str], float, str]]) -> None:
    both = Both()
    for name, labels, value, trace_id in steps:
        getattr(both, name)(labels, value, trace_id)
    both.agree()


def test_when_series_began_is_shown_only_where_the_library_shows_it() -> None:
    both = Both()
    both.count(("Compose", "OK"), 1, "")
    assert b"x_calls_created" in generate_latest(both.ours)
    prometheus_client.disable_created_metrics()
    try:
        assert b"_created" not in generate_latest(both.ours)
        both.agree()
    finally:
        prometheus_client.enable_created_metrics()


def test_two_metrics_of_one_name_are_a_mistake() -> None:
    registry = CollectorRegistry()
    counters(registry, "x", "X.")
    with pytest.raises(ValueError, match="Duplicated"):
        histograms(registry, "x", "X.", bounds=SECONDS)


def test_a_scrape_in_another_thread_meets_series_that_begin_meanwhile() -> None:
    registry = CollectorRegistry()
    tallies = counters(registry, "x", "X.", "name")
    done, faults = threading.Event(), []

    def scrape() -> None:
        while not done.is_set():
            try:
                generate_latest(registry)
            except RuntimeError as fault:
                faults.append(fault)

    thread = threading.Thread(target=scrape)
    thread.start()
    for number in range(20_000):
        tallies[(str(number % 3000),)].value += 1
    done.set()
    thread.join()
    assert faults == []
    assert sum(tally.value for tally in tallies.values()) == 20_000
