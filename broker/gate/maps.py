"""Strictly increasing maps of one lane's numbers: they stay inside its scale and keep distinct numbers distinct."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from broker.core.scores import Direction
from broker.gate.samples import Sample, SampleLane

Curve = Callable[[float], float]
"""A strictly increasing function from [0, 1] into [0, 1]."""

_EDGE = 1e-3


def _logit(part: float) -> float:
    return 0.5 + math.log((part + _EDGE) / (1 - part + _EDGE)) / (2 * math.log((1 + _EDGE) / _EDGE))


def _jump(at: float) -> Curve:
    return lambda part: part / 50 if part < at else 0.9 + part / 10


CURVED: Mapping[str, Curve] = {
    "cube": lambda part: part**3,
    "logit": _logit,
    "jump past the middle": _jump(0.51),
    "cube root": lambda part: part ** (1 / 3),
    "jump below the middle": _jump(0.3),
}
"""Maps that move the mean and the spread of what they map."""

AFFINE: Mapping[str, Curve] = {
    "halved": lambda part: part / 2,
    "upper half": lambda part: 0.5 + part / 2,
    "middle": lambda part: 0.25 + part / 2,
}
"""Maps that min-max and z-score undo: with these alone, a policy that rescales and cuts would pass."""


def mapped(sample: Sample, curves: Sequence[Curve], turn: int) -> Sample:
    """The sample with the numbers of each scored lane under a curve of its own; the first is ``curves[turn]``."""
    lanes = tuple(
        lane.mapped(_table(lane, curves[(turn + place) % len(curves)])) if lane.numbers else lane
        for place, lane in enumerate(sample.lanes)
    )
    return replace(sample, lanes=lanes)


def rescored(sample: Sample, provider: str, turn: int) -> Sample:
    """The sample with one provider's scores replaced by others of its scale; its floor stays."""
    numbers = random.Random(f"rescored {sample.seed} {provider} {turn}")  # noqa: S311
    kind = turn % 3
    lanes = []
    for lane in sample.lanes:
        if lane.provider == provider and lane.scale.direction is not Direction.AS_SENT:
            low, high = _ends(lane)
            parts = [
                (numbers.random(), 0.99 + numbers.random() / 100, numbers.random() / 100)[kind] for _ in lane.frames
            ]
            frames = [replace(f, score=low + (high - low) * part) for f, part in zip(lane.frames, parts, strict=True)]
            lane = replace(lane, frames=tuple(frames))
        lanes.append(lane)
    return replace(sample, lanes=tuple(lanes))


def _table(lane: SampleLane, curve: Curve) -> dict[float, float]:
    low, high = _ends(lane)
    table = {number: low + (high - low) * curve((number - low) / (high - low)) for number in lane.numbers}
    images = list(table.values())
    assert all(left < right for left, right in pairwise(images)), "a map keeps numbers apart"
    assert all(lane.scale.holds(image) for image in images), "a map stays inside the scale"
    return table


def _ends(lane: SampleLane) -> tuple[float, float]:
    high = lane.scale.max if math.isfinite(lane.scale.max) else max([*lane.numbers, 1.0]) + 1.0
    return lane.scale.min, high
