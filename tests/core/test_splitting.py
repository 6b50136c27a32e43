"""A split budget grants each lane its share and no more; an unsplit one grants every lane all of it and more."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.lanes import Grant
from broker.core.request import BudgetSplit
from broker.core.splitting import BUDGETS_GRANTED, lane_grants, split_violations

MOST = Grant(256, 200_000)


def tokens(split, max_tokens, lanes, weights=None, most=MOST):
    return {
        name: grant.max_tokens for name, grant in lane_grants(split, max_tokens, lanes, weights or {}, most).items()
    }


def test_unsplit_every_lane_has_the_same_multiple_of_it():
    assert tokens(BudgetSplit.FULL, 1000, ["a", "b"]) == {"a": 4000, "b": 4000}


def test_in_equal_parts_rounded_up():
    assert tokens(BudgetSplit.EQUAL, 1000, ["a", "b", "c"]) == {"a": 334, "b": 334, "c": 334}


def test_by_weight_and_1_where_none_is_given():
    assert tokens(BudgetSplit.WEIGHTED, 1000, ["a", "b", "c"], {"a": 3, "b": 0.5, "gone": 9}) == {
        "a": 667, "b": 112, "c": 223,
    }  # fmt: skip
    assert tokens(BudgetSplit.WEIGHTED, 1000, ["a", "b"]) == tokens(BudgetSplit.EQUAL, 1000, ["a", "b"])


def test_a_lane_has_a_token_at_least_and_what_the_operator_grants_at_most():
    assert tokens(BudgetSplit.EQUAL, 1, ["a", "b"]) == {"a": 1, "b": 1}
    assert tokens(BudgetSplit.WEIGHTED, 10, ["a", "b"], {"a": 1e-6, "b": 1e6}) == {"a": 1, "b": 10}
    assert tokens(BudgetSplit.FULL, 1000, ["a"], most=Grant(5, 300)) == {"a": 300}
    assert lane_grants(BudgetSplit.EQUAL, 1000, ["a"], {}, Grant(5, 300))["a"].max_frames == 5


@pytest.mark.parametrize("split", BudgetSplit)
def test_no_lane_is_no_grant(split):
    assert lane_grants(split, 1000, [], {}, MOST) == {}


@given(
    st.sampled_from([BudgetSplit.EQUAL, BudgetSplit.WEIGHTED]),
    st.integers(1, 10**6),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(1e-6, 1e6), min_size=1),
)
def test_shares_come_to_the_budget_but_for_rounding_and_stand_as_their_weights_do(split, budget, weights):
    weights = weights if split is BudgetSplit.WEIGHTED else dict.fromkeys(weights, 1.0)
    found = tokens(split, budget, sorted(weights), weights, Grant(1, 10**9))
    assert budget <= sum(found.values()) <= budget + len(found)
    total = sum(map(Fraction, weights.values()))
    assert all(0 <= found[name] - budget * Fraction(weights[name]) / total <= 1 for name in found)
    assert max(found.values()) <= budget * BUDGETS_GRANTED


def test_weights_are_finite_above_0_and_of_those_that_are_known():
    found = split_violations(BudgetSplit.WEIGHTED, {"a": 1.0, "x": 0.0, "b": float("inf"), "c": 2e6}, {"a", "b", "c"})
    assert {(one.field, one.reason) for one in found} == {
        ("budget_weights[1].provider_id", "WEIGHT"),
        ("budget_weights[1].weight", "WEIGHT"),
        ("budget_weights[2].weight", "WEIGHT"),
        ("budget_weights[3].weight", "WEIGHT"),
    }
    assert split_violations(BudgetSplit.WEIGHTED, {"a": 0.5}, {"a"}) == []


@pytest.mark.parametrize("split", [BudgetSplit.FULL, BudgetSplit.EQUAL])
def test_weights_without_a_weighted_split_are_refused(split):
    (violation,) = split_violations(split, {"a": 1.0}, {"a"})
    assert (violation.field, violation.reason) == ("budget_weights", "WEIGHT")
    assert split_violations(split, {}, ()) == []
