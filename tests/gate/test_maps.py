"""Maps of scores keep every lane's order, stay inside its scale, keep distinct numbers distinct, and are not linear."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.gate.maps import AFFINE, CURVED, mapped, rescored
from broker.gate.samples import samples

SETS = samples(48)
POINTS = [index / 200 for index in range(201)]


@pytest.mark.parametrize("name", [*CURVED, *AFFINE])
def test_a_curve_rises_strictly_from_0_to_1(name: str):
    curve = {**CURVED, **AFFINE}[name]
    images = [curve(point) for point in POINTS]
    assert all(left < right for left, right in pairwise(images))
    assert 0 <= images[0] <= images[-1] <= 1


@pytest.mark.parametrize("name", [*CURVED, *AFFINE])
def test_only_the_linear_ones_are_linear(name: str):
    images = [{**CURVED, **AFFINE}[name](point) for point in POINTS]
    steps = {round(right - left, 9) for left, right in pairwise(images)}
    assert (len(steps) == 1) is (name in AFFINE)


@pytest.mark.parametrize("turn", range(5))
def test_a_mapped_sample_keeps_order_ties_scale_and_floors(turn: int):
    for sample in SETS:
        changed = mapped(sample, tuple(CURVED.values()), turn)
        for lane, other in zip(sample.lanes, changed.lanes, strict=True):
            assert len(lane.numbers) == len(other.numbers)
            table = dict(zip(lane.numbers, other.numbers, strict=True))
            assert other == lane.mapped(table)
            assert all(lane.scale.min <= number <= lane.scale.max for number in other.numbers)


def test_each_lane_has_a_map_of_its_own():
    curves = (lambda part: part, lambda part: part**3)

    def moved(turn: int) -> list[list[bool]]:
        changed = [mapped(sample, curves, turn) for sample in SETS]
        return [
            [lane.numbers != pytest.approx(other.numbers) for lane, other in zip(s.lanes, c.lanes, strict=True)]
            for s, c in zip(SETS, changed, strict=True)
        ]

    assert not any(lanes[place] for lanes in moved(0) for place in range(0, len(lanes), 2))
    assert not any(lanes[place] for lanes in moved(1) for place in range(1, len(lanes), 2))
    assert sum(map(sum, moved(0))) > 20
    assert sum(map(sum, moved(1))) > 20


def test_other_scores_of_one_provider_leave_everything_else_alone():
    for sample in SETS:
        for turn, lane in enumerate(sample.lanes):
            changed = rescored(sample, lane.provider, turn)
            for before, after in zip(sample.lanes, changed.lanes, strict=True):
                assert before.floor == after.floor
                assert [f.id for f in before.frames] == [f.id for f in after.frames]
                if before.provider != lane.provider or not lane.numbers:
                    assert before == after
                else:
                    assert all(lane.scale.holds(f.score) for f in after.frames)
