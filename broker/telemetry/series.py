"""Figures as the broker adds to them while it works, and as Prometheus reads them.

A figure is added to in the event loop's thread alone, which makes it plain arithmetic on an attribute; a scrape reads
from any thread. prometheus_client's own metrics may be added to from everywhere, and take a lock and five calls each
time. What is exposed is what they would expose.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
"""Labels' values, in the order of their names."""


class Tally:
    """One series of a counter or a gauge.

    Attributes:
        value: Add to it, from 0; a counter's never falls.
        exemplar: What leads from the latest addition to a trace; None: nothing does.
        created: When it began, in seconds since the epoch.
    """

    __slots__ = ("created", "exemplar", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.exemplar: Exemplar | None = None
        self.created = time.time()


class Spread:
    """One series of a histogram.

    Attributes:
        bounds: Of its buckets, from the least up, without infinity. A value that is a bound is in that bound's bucket.
        counts: Values in each bucket alone; the last is of those beyond all bounds.
        exemplars: What leads from the latest value of each bucket to a trace; None: nothing does.
        total: The sum of all values.
        created: When it began, in seconds since the epoch.
    """

    __slots__ = ("bounds", "counts", "created", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0.0] * (len(bounds) + 1)
        self.exemplars: list[Exemplar | None] = [None] * (len(bounds) + 1)
        self.total = 0.0
        self.created = time.time()

    def observe(self, value: float, trace_id: str = "") -> None:
        """Counts a value, with the trace that it comes from; empty: it comes from none that is kept."""
        bucket = bisect_left(self.bounds, value)
        self.total += value
        self.counts[bucket] += 1
        if trace_id:
            self.exemplars[bucket] = exemplar(trace_id, value)


S = TypeVar("S", Tally, Spread)


def counters(registry: CollectorRegistry, name: str, text: str, *labels: str) -> defaultdict[Labels, Tally]:
    """The series of a new counter; one that is asked for for the first time begins.

    Args:
        registry: Where they are read.
        name: The counter's, without ``_total``.
        text: What it counts.
        labels: Names of the labels; where there are none, its one series has begun.
    """
    return _Counters(registry, name, text, labels, Tally).series


def gauges(registry: CollectorRegistry, name: str, text: str, *labels: str) -> defaultdict[Labels, Tally]:
    """The series of a new gauge; see :func:`counters`."""
    return _Gauges(registry, name, text, labels, Tally).series


def histograms(
    registry: CollectorRegistry, name: str, text: str, *labels: str, bounds: Sequence[float]
) -> defaultdict[Labels, Spread]:
    """The series of a new histogram; see :func:`counters`, and :class:`Spread` for ``bounds``."""
    return _Histograms(registry, name, text, labels, partial(Spread, bounds)).series


def exemplar(trace_id: str, value: float) -> Exemplar:
    """What leads from a figure that ``value`` was added to just now to a trace."""
    return Exemplar({"trace_id": trace_id}, value, time.time())


class _Family(Collector, Generic[S]):
    """All series of one metric, as a scrape reads them.

    Attributes:
        kind: What Prometheus calls it.
        label_names: Of every series.
        series: By labels' values.
    """

    kind: ClassVar[str]

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, labels: Labels, begin: Callable[[], S]
    ) -> None:
        self.series: defaultdict[Labels, S] = defaultdict(begin)
        self._name = name
        self._text = text
        self.label_names = labels
        if not labels:
            self.series[()] = begin()
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [Metric(self._name, self._text, self.kind)]

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self._name, self._text, self.kind)
        # A copy is made in one go, and series may begin meanwhile.
        for values, series in self.series.copy().items():
            metric.samples.extend(self._samples(series, dict(zip(self.label_names, values, strict=True))))
        return [metric]

    @abstractmethod
    def _samples(self, series: S, labels: Mapping[str, str]) -> Iterable[Sample]:
        """What a scrape reads of one series."""

    def _created(self, series: S, labels: Mapping[str, str]) -> Iterable[Sample]:
        if _created_is_shown():
            yield Sample(f"{self._name}_created", dict(labels), series.created)


class _Counters(_Family[Tally]):
    kind = "counter"

    def _samples(self, series: Tally, labels: Mapping[str, str]) -> Iterable[Sample]:
        yield Sample(f"{self._name}_total", dict(labels), series.value, None, series.exemplar)
        yield from self._created(series, labels)


class _Gauges(_Family[Tally]):
    kind = "gauge"

    def _samples(self, series: Tally, labels: Mapping[str, str]) -> Iterable[Sample]:
        yield Sample(self._name, dict(labels), series.value)


class _Histograms(_Family[Spread]):
    kind = "histogram"

    def _samples(self, series: Spread, labels: Mapping[str, str]) -> Iterable[Sample]:
        below = 0.0
        for bound, count, led in zip((*series.bounds, float("inf")), series.counts, series.exemplars, strict=True):
            below += count
            le: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
            yield Sample(f"{self._name}_bucket", {**labels, "le": le}, below, None, led)
        yield Sample(f"{self._name}_count", dict(labels), below)
        yield Sample(f"{self._name}_sum", dict(labels), series.total)
        yield from self._created(series, labels)


def _created_is_shown() -> bool:
    """Whether the library shows when a series began: its users may have told it not to."""
    return any(sample.name.endswith("_created") for metric in _PROBE.collect() for sample in metric.samples)


_PROBE = Counter("probe", "Shows how the library itself exposes a counter.", registry=None)
