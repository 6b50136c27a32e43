"""Floors: the least score that a frame of one named provider may have, in that provider's own scale.

A frame is held against its own provider's floor and nothing else. Whatever could make one number span two scales is
refused before any provider is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from broker.core.names import FORBIDDEN, provider_name_problem
from broker.core.request import Floor
from broker.core.scores import Direction, LocalScore, ScoreScale
from broker.errors import FieldViolation


def floor_violations(
    floors: Sequence[Floor],
    scales: Mapping[str, ScoreScale | None],
    path: str = "floors",
) -> list[FieldViolation]:
    """What is wrong with a request's floors; at most one thing for each.

    Args:
        floors: As the request gives them.
        scales: Every registered provider and every lane of the request, with its scale; None: not known yet. What can
            only be checked against the scale is then left to :func:`passes`.
        path: Field path of the list.

    Returns:
        Violations in the order of the floors, empty where all is well. Reasons: ``FLOOR_PROVIDER_NAME``,
        ``FLOOR_UNKNOWN_PROVIDER``, ``FLOOR_DUPLICATE``, ``FLOOR_UNSCORED``, ``FLOOR_SCALE``, ``FLOOR_NOT_FINITE``,
        ``FLOOR_RANGE``, ``FLOOR_UNIFORM``.
    """
    violations: list[FieldViolation] = []
    named: set[str] = set()
    by_value: dict[float, Floor] = {}
    for index, floor in enumerate(floors):
        found = _own_problem(floor, scales) or _problem_beside_others(floor, named, by_value, scales)
        named.add(floor.provider)
        if found is None:
            _remember(floor, by_value, scales)
        else:
            field, reason, message = found
            violations.append(FieldViolation(f"{path}[{index}].{field}", reason, message))
    return violations


def passes(score: LocalScore, floor: Floor) -> bool:
    """Whether a score is at least as good as its provider's floor; equal passes.

    A floor in another scale than the lane turned out to have (a push whose scale was not known when the request was
    checked) is passed by nothing: what cannot be shown to reach the floor does not.
    """
    return score.scale.id == floor.scale_id and score.passes(floor.value)


def floor_detail(floor: Floor, scale: ScoreScale | None) -> str:
    """What the row of a frame below a floor says: never the value, so that rows depend on no number of a scale."""
    if scale is None or scale.id == floor.scale_id:
        return f"on scale {floor.scale_id!r}"
    return f"the floor is on scale {floor.scale_id!r}, the lane on {scale.id!r}"


def _own_problem(floor: Floor, scales: Mapping[str, ScoreScale | None]) -> tuple[str, str, str] | None:
    name_problem = provider_name_problem(floor.provider)
    if name_problem is not None and floor.provider not in FORBIDDEN:
        return "provider_id", "FLOOR_PROVIDER_NAME", f"a floor names one provider: {name_problem}"
    if floor.provider not in scales:
        return (
            "provider_id",
            "FLOOR_UNKNOWN_PROVIDER",
            (
                f"{floor.provider!a} is neither a registered provider nor a lane of this request, so the floor would "
                "do nothing; see ListProviders for the names"
            ),
        )
    scale = scales[floor.provider]
    if scale is not None and scale.direction is Direction.AS_SENT:
        return "scale_id", "FLOOR_UNSCORED", f"{floor.provider!a} sends no scores; leave its floor out"
    if not floor.scale_id or (scale is not None and scale.id != floor.scale_id):
        wanted = "name the provider's scale" if scale is None else f"the scale of {floor.provider!a} is {scale.id!a}"
        return "scale_id", "FLOOR_SCALE", f"{floor.scale_id[:64]!a} is not that provider's scale; {wanted}"
    if not math.isfinite(floor.value):
        return "value", "FLOOR_NOT_FINITE", "a floor is a finite number"
    if scale is not None and not scale.holds(floor.value):
        return (
            "value",
            "FLOOR_RANGE",
            (
                f"{floor.value!r} lies outside the scale {scale.id!a}, {scale.min!r} to {scale.max!r}; "
                "give a value on it"
            ),
        )
    return None


def _problem_beside_others(
    floor: Floor, named: set[str], by_value: Mapping[float, Floor], scales: Mapping[str, ScoreScale | None]
) -> tuple[str, str, str] | None:
    if floor.provider in named:
        return "provider_id", "FLOOR_DUPLICATE", f"{floor.provider!a} has a floor already; keep one of the two"
    # One floor of a value is remembered: where any two scales differ, one of them differs from that one's.
    other = by_value.get(floor.value)
    if other is not None and _scales_differ(floor, other, scales):
        return (
            "value",
            "FLOOR_UNIFORM",
            (
                f"{floor.value!r} is also the floor of {other.provider!a}, on another scale: no threshold spans two. "
                "Give each what its own scale calls for (the slightest difference says that it was meant); across "
                "providers use ranks, quotas or weights, or trim after a reranker"
            ),
        )
    return None


def _remember(floor: Floor, by_value: dict[float, Floor], scales: Mapping[str, ScoreScale | None]) -> None:
    """Keeps one floor of each value: the first whose scale is known, or else the first."""
    kept = by_value.get(floor.value)
    # A scale that is not known is held against others by its id, and two of one id may differ in their ends.
    if kept is None or scales[kept.provider] is None:
        by_value[floor.value] = floor


def _scales_differ(floor: Floor, other: Floor, scales: Mapping[str, ScoreScale | None]) -> bool:
    ours, theirs = scales[floor.provider], scales[other.provider]
    if ours is None or theirs is None:
        return floor.scale_id != other.scale_id
    return ours != theirs
