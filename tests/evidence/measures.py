"""What is measured of a ranking and of a prompt: judged evidence that got through, and lanes that got nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BUDGETS = (512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Item:
    """One piece of evidence in a ranking, best first.

    Attributes:
        document: Its document.
        cost: Tokens of its content.
        holders: Providers that hold it.
    """

    document: str
    cost: int
    holders: frozenset[str]


def packed(ranking: Sequence[Item], budget: int) -> list[Item]:
    """What a walk of the ranking takes when content alone is charged; what does not fit is passed over."""
    taken = []
    for item in ranking:
        if item.cost <= budget:
            budget -= item.cost
            taken.append(item)
    return taken


def recall(taken: Iterable[Item], grades: Mapping[str, int]) -> float:
    """The part of a question's judged evidence that was taken."""
    return sum(item.document in grades for item in taken) / len(grades)


def ndcg(ranking: Sequence[Item], grades: Mapping[str, int], depth: int = 10) -> float:
    """Normalised discounted cumulative gain, a gain of 2^grade - 1, over the first ``depth``.

    Source: Burges et al., ICML 2005, for the gain; Järvelin and Kekäläinen, TOIS 2002.
    """
    gains = [2 ** grades.get(item.document, 0) - 1 for item in ranking]
    ideal = sorted((2**grade - 1 for grade in grades.values()), reverse=True)
    return _discounted(gains[:depth]) / _discounted(ideal[:depth])


def starved(taken: Iterable[Item], ranking: Iterable[Item], grades: Mapping[str, int]) -> bool:
    """Whether a provider that holds judged evidence holds nothing of what was taken."""
    holding = {name for item in ranking if item.document in grades for name in item.holders}
    return not holding <= {name for item in taken for name in item.holders}


@dataclass(frozen=True)
class Difference:
    """A mean difference over questions with its 95 % interval.

    Attributes:
        p: Two-sided: twice the part of resamples on the other side of 0, at most 1.
    """

    mean: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}] p={self.p:.3f}"


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float], resamples: int = 2000) -> Difference:
    """Resamples questions, each with both its values. Source: Efron and Tibshirani (1993).

    The same seed each time: all comparisons see the same resamples, and a table comes out the same twice.
    """
    random_ = random.Random(20_240_601)
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    means = sorted(mean(random_.choices(differences, k=len(differences))) for _ in range(resamples))
    below = sum(value <= 0 for value in means) / resamples
    above = sum(value >= 0 for value in means) / resamples
    cut = round(resamples * 0.025)
    return Difference(mean(differences), means[cut], means[-cut - 1], min(1.0, 2 * min(below, above)))


def _discounted(gains: Iterable[float]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))
