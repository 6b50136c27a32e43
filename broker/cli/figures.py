"""What a broker's metrics say, between two moments: rates, shares and quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "context_broker_"

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of all metrics.

    Attributes:
        at: When, in monotonic seconds.
        values: By a sample's name without :data:`PREFIX` and its labels.
    """

    at: float
    values: Mapping[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of a name that have these labels; 0.0: there are none."""
        wanted = labels.items()
        return sum(value for (own, has), value in self.values.items() if own == name and wanted <= has)

    def label_values(self, name: str, label: str) -> set[str]:
        """The values that a label has."""
        return {value for own, has in self.values if own == name for key, value in has if key == label}


def scraped(text: str, at: float) -> Scrape:
    """Reads what a scrape gave.

    Raises:
        ValueError: It is no metrics.
    """
    from prometheus_client.parser import text_string_to_metric_families

    values = {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Scrape(at, values)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened between two readings.

    Attributes:
        before: The earlier one.
        now: The later one.
    """

    before: Scrape
    now: Scrape

    def rate(self, name: str, **labels: str) -> float:
        """How much a counter rose in a second; from its start where the broker was started anew."""
        seconds = self.now.at - self.before.at
        return self._rise(name, **labels) / seconds if seconds > 0 else 0.0

    def quantile(self, part: float, name: str, **labels: str) -> float | None:
        """Below which value a part of what a histogram saw lies, between two of its bounds; None: it saw nothing.

        What lies above the last bound counts as that bound.
        """
        ends = sorted(self.now.label_values(f"{name}_bucket", "le"), key=float)
        counts = [(float(end), self._rise(f"{name}_bucket", **labels, le=end)) for end in ends]
        total = counts[-1][1] if counts else 0.0
        if total <= 0:
            return None
        low, below = 0.0, 0.0
        for end, count in counts:
            if count >= part * total:
                if math.isinf(end) or count <= below:
                    return low
                return low + (end - low) * (part * total - below) / (count - below)
            low, below = end, count
        return low

    def _rise(self, name: str, **labels: str) -> float:
        now, before = self.now.value(name, **labels), self.before.value(name, **labels)
        return now - before if now >= before else now
