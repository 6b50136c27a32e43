"""A score orders frames of its own provider and meets its own floor; nothing else can be done with it."""

from __future__ import annotations

import heapq
import math
import operator
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.scores import UNIT, Direction, LocalScore, ScoreScale, lane_key, local_scores, raw_across_lanes
from broker.errors import CrossProviderComparison
from tests.core.building import DISTANCE

COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparing_scores_of_two_providers_raises_and_names_both(compare):
    with pytest.raises(CrossProviderComparison) as caught:
        compare(LocalScore("a", UNIT, 0.5), LocalScore("b", UNIT, 0.5))
    assert (caught.value.left, caught.value.right) == ("a", "b")


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparing_scores_of_one_provider_on_two_scales_raises(compare):
    with pytest.raises(CrossProviderComparison):
        compare(LocalScore("a", UNIT, 0.5), LocalScore("a", DISTANCE, 0.5))


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_score_cannot_be_compared_with_a_number(compare):
    with pytest.raises(TypeError):
        compare(LocalScore("a", UNIT, 0.5), 0.5)


@pytest.mark.parametrize("use", [float, int, abs, round, bool, hash, operator.neg, operator.index, sum, math.floor])
def test_a_score_turns_into_no_number(use):
    score = LocalScore("a", UNIT, 0.5)
    with pytest.raises(TypeError):
        use([score, score] if use is sum else score)


@pytest.mark.parametrize("combine", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_a_score_takes_part_in_no_arithmetic(combine):
    score = LocalScore("a", UNIT, 0.5)
    for pair in ((score, 2), (2, score), (score, score)):
        with pytest.raises(TypeError):
            combine(*pair)


@pytest.mark.parametrize("combine", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_arithmetic_over_two_providers_names_both(combine):
    with pytest.raises(CrossProviderComparison) as caught:
        combine(LocalScore("a", UNIT, 0.5), LocalScore("b", UNIT, 0.5))
    assert (caught.value.left, caught.value.right) == ("a", "b")


MIXED = (LocalScore("a", UNIT, 0.5), LocalScore("a", UNIT, 0.6), LocalScore("b", UNIT, 0.7))


@pytest.mark.parametrize("sort", [sorted, max, min, lambda scores: heapq.nlargest(2, scores), np.sort, np.argmax])
def test_scores_of_two_providers_are_not_sorted_and_have_no_best(sort):
    with pytest.raises(CrossProviderComparison) as caught:
        sort(MIXED)
    assert {caught.value.left, caught.value.right} == {"a", "b"}


@pytest.mark.parametrize(
    "average",
    [sum, math.fsum, statistics.mean, statistics.fmean, statistics.stdev, np.sum, np.mean, np.std, np.max],
)
def test_scores_of_two_providers_have_no_sum_and_no_average(average):
    with pytest.raises(TypeError):
        average(MIXED)


def test_scores_become_no_array_of_numbers():
    with pytest.raises(TypeError):
        np.array(MIXED, dtype=float)


def test_scores_of_one_provider_are_sorted_and_have_a_best():
    one, other, _ = MIXED
    assert [score is other for score in sorted([other, one])] == [False, True]
    assert max(one, other) is other


@given(finite, finite)
def test_better_is_higher_or_lower_as_the_scale_says(left, right):
    for direction, better in ((Direction.HIGHER_IS_BETTER, operator.gt), (Direction.LOWER_IS_BETTER, operator.lt)):
        scale = ScoreScale("s", -math.inf, math.inf, direction)
        first, second = LocalScore("a", scale, left), LocalScore("a", scale, right)
        assert (first > second) == better(left, right)
        assert (first >= second) == (better(left, right) or left == right)
        assert (lane_key(first, "a") < lane_key(second, "a")) == better(left, right)
        assert (raw_across_lanes(first) > raw_across_lanes(second)) == better(left, right)
        assert first.passes(right) == (better(left, right) or left == right)


def test_a_lane_key_is_for_the_scores_own_provider():
    with pytest.raises(CrossProviderComparison):
        lane_key(LocalScore("a", UNIT, 0.5), "b")


def test_negative_zero_is_zero():
    assert LocalScore("a", UNIT, -0.0) == LocalScore("a", UNIT, 0.0)
    assert math.copysign(1, lane_key(LocalScore("a", UNIT, 0.0), "a")) == 1
    assert LocalScore("a", UNIT, -0.0).shown().value == "0"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_is_finite(value):
    with pytest.raises(ValueError, match="finite"):
        LocalScore("a", UNIT, value)


@given(st.lists(finite), st.sampled_from([UNIT, DISTANCE]))
def test_many_scores_are_those_made_one_by_one(values, scale):
    scores = local_scores("a", scale, values)
    alone = [LocalScore("a", scale, value) for value in values]
    assert scores == alone
    assert [(type(one), one.provider, one.scale) for one in scores] == [(LocalScore, "a", scale)] * len(values)
    assert [one.shown() for one in scores] == [one.shown() for one in alone]
    assert [str(raw_across_lanes(one)) for one in scores] == [str(raw_across_lanes(one)) for one in alone]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("beside", [(), (1.0,), (-math.inf,), (1.7e308, 1.7e308)])
def test_many_scores_are_finite(value, beside):
    with pytest.raises(ValueError, match="finite"):
        local_scores("a", UNIT, (*beside, value))


@given(finite)
def test_a_shown_score_names_provider_and_scale_and_keeps_every_digit(value):
    shown = LocalScore("a", ScoreScale("s", -math.inf, math.inf), value).shown()
    assert (shown.provider, shown.scale_id, float(shown.value)) == ("a", "s", value)


def test_a_score_does_not_print_its_number():
    assert "0.625" not in repr(LocalScore("a", UNIT, 0.625))


@pytest.mark.parametrize(
    ("scale", "value", "held"),
    [
        (UNIT, 1.0 + 2**-52, True),
        (UNIT, -1e-17, True),
        (UNIT, 1.00000001, True),
        (UNIT, 1.0001, False),
        (UNIT, -0.001, False),
        (ScoreScale("percent", 0.0, 100.0), 100.0005, True),
        (ScoreScale("percent", 0.0, 100.0), -0.0005, True),
        (ScoreScale("percent", 0.0, 100.0), 100.01, False),
        (ScoreScale("bm25", 0.0, math.inf), 1e300, True),
        (ScoreScale("bm25", 0.0, math.inf), -1e-6, True),
        (ScoreScale("bm25", 0.0, math.inf), -1e-4, False),
        (ScoreScale("logit", -math.inf, math.inf), -1e300, True),
    ],
)
def test_a_scale_holds_its_range_and_the_rounding_of_engines(scale, value, held):
    assert scale.holds(value) is held


@pytest.mark.parametrize("ends", [(1.0, 0.0), (0.0, 0.0), (math.nan, 1.0), (0.0, math.nan)])
def test_a_scale_has_its_ends_in_order(ends):
    with pytest.raises(ValueError, match="must be below"):
        ScoreScale("s", *ends)
