"""A floor is one provider's, in its own scale; whatever could span two is refused with its field and reason."""

from __future__ import annotations

import math

import pytest

from broker.core.floors import floor_violations, passes
from broker.core.request import Floor
from broker.core.scores import UNIT, LocalScore, ScoreScale
from tests.core.building import AS_SENT, DISTANCE

BM25 = ScoreScale("bm25", 0.0, 100.0)
SCALES = {"a": UNIT, "b": BM25, "c": UNIT, "d": DISTANCE, "n": AS_SENT, "pushes": None}


def reasons(*floors: Floor) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in floor_violations(floors, SCALES)]


@pytest.mark.parametrize(
    "floors",
    [
        [],
        [Floor("a", "unit", 0.0)],
        [Floor("a", "unit", 1.0)],
        [Floor("a", "unit", 0.5), Floor("c", "unit", 0.5)],
        [Floor("a", "unit", 0.5), Floor("b", "bm25", 50.0), Floor("d", "dist", 1.5)],
        [Floor("pushes", "whatever", 3.0)],
    ],
)
def test_right_floors_pass(floors):
    assert reasons(*floors) == []


@pytest.mark.parametrize("name", ["", "*", "%", "a*", "^a", "A"])
def test_a_floor_names_one_provider(name):
    assert reasons(Floor(name, "unit", 0.5)) == [("floors[0].provider_id", "FLOOR_PROVIDER_NAME")]


@pytest.mark.parametrize("name", ["all", "default", "typo"])
def test_a_floor_for_nobody_is_refused(name):
    assert reasons(Floor(name, "unit", 0.5)) == [("floors[0].provider_id", "FLOOR_UNKNOWN_PROVIDER")]


@pytest.mark.parametrize("scale_id", ["", "unit", "BM25"])
def test_a_floor_is_in_the_providers_own_scale(scale_id):
    assert reasons(Floor("a", "unit", 0.5), Floor("b", scale_id, 0.5)) == [("floors[1].scale_id", "FLOOR_SCALE")]


def test_a_floor_needs_a_scale_even_where_none_is_known_yet():
    assert reasons(Floor("pushes", "", 0.5)) == [("floors[0].scale_id", "FLOOR_SCALE")]


def test_a_lane_without_scores_has_no_floor():
    assert reasons(Floor("n", "none", 0.5)) == [("floors[0].scale_id", "FLOOR_UNSCORED")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_floor_is_finite(value):
    assert reasons(Floor("a", "unit", value)) == [("floors[0].value", "FLOOR_NOT_FINITE")]


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_floor_lies_within_the_scale(value):
    assert reasons(Floor("a", "unit", value)) == [("floors[0].value", "FLOOR_RANGE")]


def test_a_provider_has_one_floor():
    assert reasons(Floor("a", "unit", 0.9), Floor("a", "unit", 0.1)) == [("floors[1].provider_id", "FLOOR_DUPLICATE")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Floor("a", "unit", 0.5), Floor("b", "bm25", 0.5)),
        (Floor("a", "unit", 0.0), Floor("b", "bm25", -0.0)),
        (Floor("a", "unit", 0.5), Floor("pushes", "whatever", 0.5)),
    ],
)
def test_one_value_for_two_scales_is_a_threshold_over_both(first, second):
    assert reasons(first, second) == [("floors[1].value", "FLOOR_UNIFORM")]


def test_scales_of_one_name_and_two_ranges_differ():
    scales = {"a": ScoreScale("s", 0.0, 1.0), "b": ScoreScale("s", 0.0, 2.0)}
    (violation,) = floor_violations([Floor("a", "s", 0.5), Floor("b", "s", 0.5)], scales)
    assert violation.reason == "FLOOR_UNIFORM"


@pytest.mark.parametrize("unknown", range(3))
def test_a_floor_of_a_scale_not_known_yet_hides_no_two_that_differ(unknown):
    known = iter([ScoreScale("s", 0.0, 1.0), ScoreScale("s", 0.0, 2.0)])
    scales = {name: None if index == unknown else next(known) for index, name in enumerate("abc")}
    found = floor_violations([Floor(name, "s", 0.5) for name in "abc"], scales)
    assert [violation.reason for violation in found] == ["FLOOR_UNIFORM"]


def test_every_wrong_floor_is_reported_under_the_path_given():
    found = floor_violations([Floor("*", "unit", 0.5), Floor("a", "unit", 0.5), Floor("b", "unit", 1.0)], SCALES, "x.y")
    assert [violation.field for violation in found] == ["x.y[0].provider_id", "x.y[2].scale_id"]


def test_a_name_is_shown_escaped():
    (violation,) = floor_violations([Floor("\u202e\nevil", "unit", 0.5)], SCALES)
    assert violation.message.isascii()
    assert "\n" not in violation.message


@pytest.mark.parametrize(
    ("scale", "score", "floor", "kept"),
    [
        (UNIT, 0.6, Floor("a", "unit", 0.6), True),
        (UNIT, math.nextafter(0.6, 0), Floor("a", "unit", 0.6), False),
        (DISTANCE, 0.3, Floor("a", "dist", 0.3), True),
        (DISTANCE, math.nextafter(0.3, 1), Floor("a", "dist", 0.3), False),
        (UNIT, 0.9, Floor("a", "dist", 0.3), False),
    ],
)
def test_equal_passes_and_another_scale_never_does(scale, score, floor, kept):
    assert passes(LocalScore("a", scale, score), floor) is kept
