"""The one policy that orders a mixed set by raw score, and the only place that asks for raw scores.

It compares numbers that share no scale, under a name that says so; everything that uses this module is flagged
``compares_raw_scores``. Scores of lower-is-better scales have their sign turned, so that one lane alone comes in its
own order.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.entries import Entry
from broker.core.scores import raw_across_lanes


def by_raw_score(entry: Entry) -> tuple[float, ...]:
    """Sorts scored frames by raw score, best first, and unscored ones after them."""
    score = entry.candidate.score
    return (1, 0.0) if score is None else (0, -raw_across_lanes(score))


def raw_order(kept: Sequence[Entry]) -> list[int]:
    """Indices by raw score, then lane order, then local rank; unscored lanes follow in round-robin order."""

    def key(index: int) -> tuple[float, ...]:
        entry = kept[index]
        if entry.candidate.score is None:
            return (*by_raw_score(entry), entry.local_rank, entry.lane_order)
        return (*by_raw_score(entry), entry.lane_order, entry.local_rank)

    return sorted(range(len(kept)), key=key)
