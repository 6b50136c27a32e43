"""What is to be reached, and whether it was: the table at the end of ``make bench``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure's bound.

    Attributes:
        figure: A ratio's name, or one of the broker's figures.
        bound: What it has to reach.
        least: Whether it is to be at least so much; else at most.
    """

    figure: str
    bound: float
    least: bool = False

    def met(self, line: Mapping[str, Any]) -> bool:
        """Whether a load's line reaches it."""
        value = self.value(line)
        return value >= self.bound if self.least else value <= self.bound

    def value(self, line: Mapping[str, Any]) -> float:
        """The line's figure."""
        return float(line["ratios"].get(self.figure, line["broker"].get(self.figure, float("nan"))))


GOALS: Mapping[str, tuple[Goal, ...]] = {
    "typical": (Goal("rate", 0.60, least=True),),
    "small": (Goal("p50", 1.6),),
    "heavy": (Goal("rate", 0.45, least=True), Goal("lag_p99_ms", 5.0)),
    "heavy-whole": (Goal("peak_per_held", 3.0),),
}
"""By load: ratios are to the floor's, lag is in milliseconds, memory in bytes for each byte held."""

_HEAD = ("load", "rate", "cpu", "p50", "p99", "lag p99 ms", "lag max ms", "peak/held", "to reach")


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """A row for each load: its ratios to the floor, the broker's lag and memory, and each of its goals."""
    rows = [_HEAD, *(_row(line) for line in lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    ratios, broker = line["ratios"], line["broker"]
    goals = GOALS.get(line["load"], ())
    told = (f"{goal.figure} {'>=' if goal.least else '<='} {goal.bound:g}: {_word(goal, line)}" for goal in goals)
    return (
        str(line["load"]),
        *(f"{ratios[name]:.2f}" for name in ("rate", "cpu", "p50", "p99")),
        *(f"{broker[name]:.1f}" for name in ("lag_p99_ms", "lag_max_ms", "peak_per_held")),
        ", ".join(told),
    )


def _word(goal: Goal, line: Mapping[str, Any]) -> str:
    return "met" if goal.met(line) else f"NOT MET ({goal.value(line):.2f})"
