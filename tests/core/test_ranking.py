"""A policy orders by columns or handles, which lead to no score, and its order is a permutation or repaired to one."""

from __future__ import annotations

import types
from collections.abc import Callable
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core import ranking
from broker.core.counting import BYTES_PER_4
from broker.core.duplicates import join_duplicates
from broker.core.entries import Entry
from broker.core.handles import Handle
from broker.core.ranking import handles_of, precomputed, rank, reciprocal_rank_fusion, repair
from broker.core.render.fenced import Fenced
from broker.core.request import Duplicates
from broker.core.scores import LocalScore, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from tests.core.building import ORDINAL, entries, frame, lane, referents


def kept_of(**lengths: int) -> list[Entry]:
    """Kept entries of lanes with so many frames, none of them shared."""
    lanes = [lane(p, {f"{p}{place}": 1 - place / 99 for place in range(1, n + 1)}) for p, n in lengths.items()]
    return join_duplicates(entries(*lanes), Duplicates.SAME_BYTES)


def names(kept: list[Entry], order: list[int]) -> str:
    return " ".join(kept[index].candidate.frame.id for index in order)


def test_round_robin_takes_every_lanes_best_then_every_lanes_second():
    kept = kept_of(a=3, b=1, c=2)
    assert names(kept, rank(RoundRobin(), kept)) == "a1 b1 c1 a2 c2 a3"


def test_a_quota_takes_k_of_each_lane_at_a_time():
    kept = kept_of(a=3, b=1, c=4)
    assert names(kept, rank(PerProviderQuota(2), kept)) == "a1 a2 b1 c1 c2 a3 c3 c4"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, "a1 b1 a2 b2 a3 b3 a4"),
        ({"a": 2.0}, "a1 a2 b1 a3 a4 b2 b3"),
        ({"b": 0.5}, "a1 a2 b1 a3 a4 b2 b3"),
        ({"a": 0.3, "b": 0.1}, "a1 a2 a3 b1 a4 b2 b3"),
        ({"a": 1.5}, "a1 b1 a2 a3 b2 a4 b3"),
        ({"a": 0.0}, "b1 b2 b3 a1 a2 a3 a4"),
        ({"a": 0.0, "b": 0.0}, "a1 b1 a2 b2 a3 b3 a4"),
    ],
)
def test_trust_deals_by_weight_in_exact_rounds(weights, expected):
    kept = kept_of(a=4, b=3)
    assert names(kept, rank(TrustWeighted(weights, 1.0), kept)) == expected


def test_a_weight_is_the_decimal_that_was_written():
    # As binary floats, 3 / 0.3 is above 10 and 0.1 + 0.2 is not 0.3.
    kept = kept_of(a=3, b=10)
    order = names(kept, rank(TrustWeighted({"a": 0.3, "b": 1.0}), kept)).split()
    assert order.index("a3") < order.index("b10")
    lanes = [lane("a", {"shared": 0.9}), lane("b", {"shared": 0.9}), lane("c", {"alone": 0.9})]
    kept = join_duplicates(entries(*lanes), Duplicates.SAME_BYTES)
    assert names(kept, rank(ReciprocalRankFusion(60, {"a": 0.1, "b": 0.2, "c": 0.3}), kept)) == "shared alone"


weight = st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.5, 1e6, 1e-322])
weights = st.dictionaries(st.sampled_from("abc"), weight)


@st.composite
def some_kept(draw: st.DrawFn) -> list[Entry]:
    """Kept entries of lanes that share much of their evidence."""
    lanes = []
    for name in "abcd":
        contents = draw(st.lists(st.sampled_from("rstuvwxyz"), max_size=7))
        lanes.append(lane(name, [frame(f"{text}{n}", 0.5, text) for n, text in enumerate(contents)]))
    kept = join_duplicates(entries(*lanes), Duplicates.SAME_BYTES)
    for entry in kept:
        (entry.block,) = Fenced(None).blocks([entry.candidate], BYTES_PER_4)
    return kept


def fused(handle: Handle, k: int, weights: dict[str, float], default: float) -> Fraction:
    """The plain sum."""
    terms = [Fraction(str(weights.get(p, default))) / (k + place) for p, place in handle.lane_places]
    return sum(terms, Fraction(0))


def plainly(strategy: Strategy) -> Callable[[Handle], object]:
    """What a policy sorts by, read off a handle."""

    def dealt(handle: Handle, weight: Fraction) -> tuple[object, ...]:
        if not weight:
            return 1, handle.local_rank, handle.lane_order
        return 0, -(-handle.local_rank // weight), handle.lane_order, handle.local_rank

    match strategy:
        case PerProviderQuota(k):
            return lambda h: (-(-h.local_rank // k), h.lane_order, h.local_rank)
        case TrustWeighted(weights, default):
            return lambda h: dealt(h, Fraction(str(weights.get(h.provider, default))))
        case ReciprocalRankFusion(k, weights, default):
            return lambda h: (
                -fused(h, k, weights, default),
                min(place for _, place in h.lane_places),
                h.lane_order,
                h.frame_id.encode(),
            )
        case Precomputed(ids):
            return lambda h: (
                min([ids.index(name) for name in [(n.provider, n.frame_id) for n in h.names] if name in ids] or [999]),
                h.local_rank,
                h.lane_order,
            )
        case _:
            return lambda h: (h.local_rank, h.lane_order)


policies = st.one_of(
    st.just(RoundRobin()),
    st.builds(PerProviderQuota, st.integers(1, 4)),
    st.builds(TrustWeighted, weights, weight),
    st.builds(ReciprocalRankFusion, st.sampled_from([0, 1, 2, 60, 10**6]), weights, weight),
    st.builds(
        Precomputed, st.lists(st.tuples(st.sampled_from("abx"), st.sampled_from(["r0", "s1", "t1", "u0"]))).map(tuple)
    ),
)


@given(some_kept(), policies)
def test_every_policy_is_one_plain_sort_of_what_handles_say(kept, strategy):
    expected = sorted(handles_of(kept), key=plainly(strategy))
    assert rank(strategy, kept) == [handle.index for handle in expected]


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[int], list[int], dict[int, list[tuple[int, int]]], list[str]]:
    """Lanes, places, what is shared and ids, of few lanes and places, so that much is tied."""
    number = draw(st.integers(0, 12))
    own = [(draw(st.integers(0, 4)), draw(st.integers(1, 9))) for _ in range(number)]
    shared = {
        index: [own[index], *draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=3))]
        for index in range(number)
        if draw(st.booleans())
    }
    ids = draw(st.permutations([f"f{index}" for index in range(number)]))
    return [lane for lane, _ in own], [place for _, place in own], shared, ids


@given(
    columns(), st.sampled_from([0, 1, 2, 60, 10**6]), st.lists(weight.map(ranking.exact_weight), min_size=5, max_size=5)
)
def test_fusion_is_the_plain_sum_of_fractions(some, k, weights):
    lanes, places, shared, ids = some
    held = [shared.get(index, [(lanes[index], places[index])]) for index in range(len(lanes))]

    def key(index: int) -> tuple[object, ...]:
        value = sum((weights[own] / (k + place) for own, place in held[index]), Fraction(0))
        return -value, min(place for _, place in held[index]), lanes[index], ids[index], index

    exact = {own: weight.as_integer_ratio() for own, weight in enumerate(weights)}
    assert reciprocal_rank_fusion(lanes, places, shared, ids, k, exact) == sorted(range(len(lanes)), key=key)


def test_sums_that_only_fractions_tell_apart_are_told_apart():
    # 2/(k+2) is above 1/(k+1) + 1/(k+4), whose best single rank is better. With such weights both are the float 0.
    least = ranking.exact_weight(1e-322).as_integer_ratio()
    shared = {0: [(0, 1), (1, 4)], 1: [(0, 2), (1, 2)]}
    assert reciprocal_rank_fusion([0, 0], [1, 2], shared, ["best", "even"], 60, {0: least, 1: least}) == [1, 0]


def test_the_callers_order_comes_first_and_any_copys_name_names_the_evidence():
    by_name = {("a", "a1"): 0, ("c", "cc"): 0, ("a", "a2"): 1, ("b", "b1"): 2, ("b", "b2"): 3}
    ids = [("b", "b2"), ("ghost", "x"), ("c", "cc"), ("b", "b2"), ("a", "a1"), ("a", "ghost")]
    assert precomputed(by_name, ids, [0, 2, 1, 3]) == [3, 0, 2, 1]


@given(st.integers(0, 6), st.integers(0, 6))
def test_every_policy_returns_a_permutation(length, other):
    kept = kept_of(a=length, b=other, c=1)
    for strategy in ORDINAL:
        assert sorted(rank(strategy, kept)) == list(range(len(kept)))


@pytest.mark.parametrize("strategy", [ScoreDescending(), PluginStrategy("x")])
def test_what_is_no_policy_of_places_does_not_rank_by_them(strategy: Strategy):
    with pytest.raises(ValueError, match="does not rank by places alone"):
        rank(strategy, kept_of(a=1))


@pytest.mark.parametrize(
    ("order", "repaired", "repairs"),
    [
        ([2, 0, 1], [2, 0, 1], ()),
        ([2], [2, 1, 0], ("appended 2 that were left out, in round-robin order",)),
        (
            [2, 2, 3, -1, "0", True, 0.0, None, 0],
            [2, 0, 1],
            (
                "skipped 6 that name no frame",
                "skipped 1 that came again",
                "appended 1 that were left out, in round-robin order",
            ),
        ),
        ([], [1, 0, 2], ("appended 3 that were left out, in round-robin order",)),
    ],
)
def test_a_faulty_order_is_repaired_and_says_so(order, repaired, repairs):
    assert repair(order, 3, lambda: [1, 0, 2]) == (repaired, repairs)


@given(st.lists(st.integers(-3, 9) | st.none() | st.text(max_size=1) | st.booleans()), st.permutations(range(6)))
def test_whatever_a_policy_returns_becomes_a_permutation(order, fallback):
    repaired, repairs = repair(order, 6, lambda: fallback)
    assert sorted(repaired) == list(range(6))
    assert bool(repairs) == (order != repaired)


POLICIES = ("round_robin", "per_provider_quota", "trust_weighted", "reciprocal_rank_fusion", "precomputed")


def test_nothing_that_a_policy_is_given_leads_to_a_score():
    lanes = entries(lane("a", [frame("x", 0.625), frame("y", 0.375)]), lane("b", [frame("x", 0.875)]))
    kept = join_duplicates(lanes, Duplicates.SAME_BYTES)
    for entry in kept:
        (entry.block,) = Fenced(None).blocks([entry.candidate], BYTES_PER_4)
    handles = handles_of(kept)
    waiting: list[object] = list(handles)
    for name in POLICIES:
        with patch.object(ranking, name, wraps=getattr(ranking, name)) as policy:
            for strategy in ORDINAL:
                rank(strategy, kept)
            assert policy.call_args_list
            waiting += [call.args for call in policy.call_args_list]
    reached: dict[int, object] = {}
    while waiting:
        thing = waiting.pop()
        # Classes and modules lead everywhere and hold no frame's data.
        if id(thing) not in reached and not isinstance(thing, type | types.ModuleType):
            reached[id(thing)] = thing
            waiting += referents(thing)
    assert not [thing for thing in reached.values() if isinstance(thing, LocalScore | ScoreScale | Entry | float)]
    assert {handle.vouchers for handle in handles} == {1, 2}
