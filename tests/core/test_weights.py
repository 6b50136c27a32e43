"""A policy's numbers are refused where they make no sense, each with its field."""

from __future__ import annotations

import math

import pytest

from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)
from broker.core.weights import weight_violations

KNOWN = {"a", "b"}


def found(strategy, path: str = "strategy") -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in weight_violations(strategy, KNOWN, path)]


@pytest.mark.parametrize(
    "strategy",
    [
        RoundRobin(), PerProviderQuota(1), PerProviderQuota(10_000), TrustWeighted({"a": 0.0, "b": 1e6}, 0.0),
        ReciprocalRankFusion(0, {"a": 0.5}), ReciprocalRankFusion(10**6), Precomputed((("nobody", "x"),)),
        ScoreDescending(),
    ],
)  # fmt: skip
def test_right_numbers_pass(strategy):
    assert found(strategy) == []


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -1.0, -1e-300, 1_000_000.5])
def test_a_wrong_weight_is_refused(weight):
    assert found(TrustWeighted({"a": 1.0, "b": weight})) == [("strategy.trust_weighted.weights[1].weight", "WEIGHT")]
    assert found(TrustWeighted({}, weight)) == [("strategy.trust_weighted.default_weight", "WEIGHT")]
    rrf = ReciprocalRankFusion(60, {"a": weight}, weight)
    assert found(rrf, "x") == [
        ("x.reciprocal_rank_fusion.weights[0].weight", "WEIGHT"),
        ("x.reciprocal_rank_fusion.default_weight", "WEIGHT"),
    ]


def test_a_weight_for_nobody_is_refused():
    assert found(TrustWeighted({"typo": 1.0})) == [("strategy.trust_weighted.weights[0].provider_id", "WEIGHT")]


@pytest.mark.parametrize("k", [0, -1, 10_001])
def test_a_quota_out_of_range_is_refused(k):
    assert found(PerProviderQuota(k)) == [("strategy.per_provider_quota.k", "STRATEGY_PARAMS")]


@pytest.mark.parametrize("k", [-1, 1_000_001])
def test_a_constant_out_of_range_is_refused(k):
    assert found(ReciprocalRankFusion(k)) == [("strategy.reciprocal_rank_fusion.k", "STRATEGY_PARAMS")]
