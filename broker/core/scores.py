"""Scores: numbers that mean something only inside their provider.

A :class:`LocalScore` refuses every arithmetic that could carry it over to another provider's. Three things may be done
with it: order frames inside one lane (:func:`lane_keys`), hold it against a floor of the same provider
(:meth:`LocalScore.passes`), and show it as {provider, scale, value} (:meth:`LocalScore.shown`). The one named policy
that does order raw numbers over several providers, ``score_descending``, asks for them by a name that says so
(:func:`raw_across_lanes`).

Source: Context Graph Protocol, SPEC §6.6 F10 (a score is provider-local and ordinal).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, NoReturn, final

from msgspec import Struct

from broker.core.given import given
from broker.errors import CrossProviderComparison

ROUNDING = 1e-5
"""How far past a finite end of its scale a score may lie, as a part of that end's size, and still be taken for
rounding: engines overshoot, and the score is kept as it is. The size of an end at zero is the other end's, or 1."""


class Direction(Enum):
    """Which end of a scale is better."""

    HIGHER_IS_BETTER = "higher_is_better"
    LOWER_IS_BETTER = "lower_is_better"
    AS_SENT = "as_sent"

    # By identity, as members are compared; an enum's own hash of the name is a call for each scale that is looked up.
    __hash__ = object.__hash__


_LOWER = Direction.LOWER_IS_BETTER
"""It is asked for with every score, and a member looked up in its enum takes as long as half a score."""


_NOT_FINITE = "a score must be finite"


class ScoreScale(Struct, frozen=True, gc=False):
    """What one provider's scores are.

    Attributes:
        id: The scale's name, as floors cite it.
        min: Lowest possible score; may be ``-inf``.
        max: Highest possible score; may be ``inf``.
        direction: Which end is better; ``AS_SENT`` means that no scores are sent.

    Raises:
        TypeError: A field is of another type, named with what was expected.
        ValueError: An end is NaN, or ``min`` is not below ``max``.
    """

    id: str = "unit"
    min: float = 0.0
    max: float = 1.0
    direction: Direction = Direction.HIGHER_IS_BETTER

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise TypeError(f"the id of a scale: expected text, got {given(self.id)}")
        for name, end in (("min", self.min), ("max", self.max)):
            if isinstance(end, bool) or not isinstance(end, Real):
                raise TypeError(f"scale {self.id!r}: {name}: expected a number, got {given(end)}")
        if not isinstance(self.direction, Direction):
            known = ", ".join(map(str, Direction))
            raise TypeError(f"scale {self.id!r}: direction: expected one of {known}, got {given(self.direction)}")
        if not self.min < self.max:
            raise ValueError(f"scale {self.id!r}: min {self.min!r} must be below max {self.max!r}")

    def holds(self, value: float) -> bool:
        """Whether a finite value lies on the scale, give or take :data:`ROUNDING` at finite ends."""
        if self.min <= value <= self.max:
            return True
        return self.min - _slack(self.min, self.max) <= value <= self.max + _slack(self.max, self.min)


def _slack(end: float, other: float) -> float:
    if not isfinite(end):
        return 0.0
    size = abs(end) or (abs(other) if isfinite(other) else 1.0)
    return size * ROUNDING


UNIT = ScoreScale()
"""The scale of providers that declare none: 0 to 1, higher is better (CGP F1)."""


class ShownScore(Struct, frozen=True, gc=False):
    """A score as an audit may show it: never without its provider and scale.

    Attributes:
        provider: Whose score it is.
        scale_id: The scale it lives on.
        value: The number in 17 significant digits.
    """

    provider: str
    scale_id: str
    value: str


@final
class LocalScore:
    """One provider's score of one frame.

    Comparing two of one provider is allowed and says which is better; of two providers it raises
    :class:`~broker.errors.CrossProviderComparison`, naming both. There is no arithmetic and no conversion to a number.
    """

    __slots__ = ("_goodness", "_value", "provider", "scale")

    def __init__(self, provider: str, scale: ScoreScale, value: float) -> None:
        if not isfinite(value):
            raise ValueError(_NOT_FINITE)
        self.provider = provider
        self.scale = scale
        # -0.0 and 0.0 are one score, and would sort apart in no place but a byte-wise key.
        self._value = value = value + 0.0
        self._goodness = -value if scale.direction is _LOWER else value

    def passes(self, floor: float) -> bool:
        """Whether the score is at least as good as a floor of the same provider; equal passes."""
        if self.scale.direction is _LOWER:
            return self._value <= floor
        return self._value >= floor

    def shown(self) -> ShownScore:
        """The score with its provider and scale, for an audit that was asked for it."""
        return ShownScore(self.provider, self.scale.id, format(self._value, ".17g"))

    def _same(self, other: object) -> LocalScore:
        if not isinstance(other, LocalScore):
            raise TypeError(f"a score of {self.provider!r} cannot be compared with {type(other).__name__}")
        if other.provider != self.provider or other.scale != self.scale:
            raise CrossProviderComparison(self.provider, other.provider)
        return other

    def __lt__(self, other: LocalScore) -> bool:
        return self._goodness < self._same(other)._goodness

    def __le__(self, other: LocalScore) -> bool:
        return self._goodness <= self._same(other)._goodness

    def __gt__(self, other: LocalScore) -> bool:
        return self._goodness > self._same(other)._goodness

    def __ge__(self, other: LocalScore) -> bool:
        return self._goodness >= self._same(other)._goodness

    def __eq__(self, other: object) -> bool:
        return self._goodness == self._same(other)._goodness

    __hash__ = None  # type: ignore[assignment]

    def _no_arithmetic(self, *others: object) -> NoReturn:
        for other in others:
            if isinstance(other, LocalScore) and other.provider != self.provider:
                raise CrossProviderComparison(self.provider, other.provider)
        raise TypeError(f"a score of {self.provider!r} is ordinal: it cannot be added, scaled, averaged or converted")

    if not TYPE_CHECKING:
        # A type checker is told that there are none of these, and so sees each use of one as the mistake that it is.
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_arithmetic
        __neg__ = __abs__ = __float__ = __int__ = __index__ = __round__ = __bool__ = _no_arithmetic

    def __repr__(self) -> str:
        return f"LocalScore({self.provider!r}, {self.scale.id!r}, …)"


def local_scores(provider: str, scale: ScoreScale, values: Sequence[float]) -> list[LocalScore]:
    """``LocalScore(provider, scale, value)`` of each of one provider's numbers, without a call for each.

    Raises:
        ValueError: One of them is not finite.
    """
    # The sum of numbers of which one is not finite is not finite; that of finite ones mostly is.
    if not isfinite(sum(values)) and not all(map(isfinite, values)):
        raise ValueError(_NOT_FINITE)
    new, lower = LocalScore.__new__, scale.direction is _LOWER
    scores = []
    for value in values:
        score = new(LocalScore)
        score.provider = provider
        score.scale = scale
        score._value = value = value + 0.0
        score._goodness = -value if lower else value
        scores.append(score)
    return scores


def lane_keys(scores: Sequence[LocalScore], provider: str) -> list[float]:
    """For each score a number that sorts one provider's frames best first when ascending.

    Raises:
        CrossProviderComparison: One of the scores is not that provider's.
    """
    for other in {score.provider for score in scores} - {provider}:
        raise CrossProviderComparison(provider, other)
    return [-score._goodness + 0.0 for score in scores]


def lane_key(score: LocalScore, provider: str) -> float:
    """:func:`lane_keys` of one score."""
    return lane_keys((score,), provider)[0]


def raw_across_lanes(score: LocalScore) -> float:
    """The raw number, higher is better, for ``score_descending`` and nothing else.

    This is the one place where numbers of several providers may meet. A policy that uses it is flagged
    ``compares_raw_scores`` wherever it is listed.
    """
    return score._goodness
