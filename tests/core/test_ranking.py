"""A policy orders handles, which lead to no score; its order is a permutation, repaired where it is none."""

from __future__ import annotations

import types
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.counting import BYTES_PER_4
from broker.core.duplicates import join_duplicates
from broker.core.frames import FrameRef
from broker.core.ranking import (
    Handle,
    handles_of,
    per_provider_quota,
    precomputed,
    rank,
    reciprocal_rank_fusion,
    repair,
    round_robin,
    trust_weighted,
)
from broker.core.render.fenced import Fenced
from broker.core.request import Duplicates
from broker.core.scores import LocalScore, ScoreScale
from broker.core.strategies import ScoreDescending
from tests.core.building import ORDINAL, entries, frame, lane, referents


def lanes_of(**lengths: int) -> list[Handle]:
    """Handles of lanes with so many frames, none of them shared."""
    handles = []
    for order, (provider, length) in enumerate(lengths.items()):
        for place in range(1, length + 1):
            ref = FrameRef(provider, f"{provider}{place}")
            handles.append(
                Handle(
                    len(handles), provider, ref.frame_id, order, place, ((provider, place),), (ref,), 10, "snippet", ""
                )
            )
    return handles


def names(handles: list[Handle], order: list[int]) -> str:
    return " ".join(handles[index].frame_id for index in order)


def test_round_robin_takes_every_lanes_best_then_every_lanes_second():
    handles = lanes_of(a=3, b=1, c=2)
    assert names(handles, round_robin(handles)) == "a1 b1 c1 a2 c2 a3"


def test_a_quota_takes_k_of_each_lane_at_a_time():
    handles = lanes_of(a=3, b=1, c=4)
    assert names(handles, per_provider_quota(handles, 2)) == "a1 a2 b1 c1 c2 a3 c3 c4"


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
    handles = lanes_of(a=4, b=3)
    assert names(handles, trust_weighted(handles, weights, 1.0)) == expected


def test_a_weight_is_the_decimal_that_was_written():
    # As binary floats, 3 / 0.3 is above 10 and 0.1 + 0.2 is not 0.3.
    handles = lanes_of(a=3, b=10)
    order = names(handles, trust_weighted(handles, {"a": 0.3, "b": 1.0}, 1.0)).split()
    assert order.index("a3") < order.index("b10")
    shared = Handle(0, "z", "z", 9, 1, (("a", 1), ("b", 1)), (), 1, "snippet", "")
    alone = Handle(1, "c", "c", 0, 1, (("c", 1),), (), 1, "snippet", "")
    assert reciprocal_rank_fusion([shared, alone], 60, {"a": 0.1, "b": 0.2, "c": 0.3}, 1.0) == [1, 0]


@st.composite
def shared_handles(draw: st.DrawFn) -> list[Handle]:
    providers = "abcde"
    handles = []
    for index in range(draw(st.integers(0, 12))):
        holders = draw(st.lists(st.sampled_from(providers), unique=True, min_size=1))
        places = tuple((holder, draw(st.integers(1, 9))) for holder in holders)
        handles.append(
            Handle(index, holders[0], f"f{index}", providers.index(holders[0]), 1, places, (), 1, "fact", "")
        )
    return handles


weight = st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.5, 1e6, 1e-322])


@given(shared_handles(), st.sampled_from([0, 1, 2, 60, 10**6]), st.dictionaries(st.sampled_from("abc"), weight), weight)
def test_fusion_is_the_plain_sum_of_fractions(handles, k, weights, default):
    def value(handle: Handle) -> Fraction:
        return sum(
            (Fraction(str(weights.get(p, default))) / (k + place) for p, place in handle.lane_places), Fraction(0)
        )

    def key(handle: Handle):
        return (
            -value(handle),
            min(place for _, place in handle.lane_places),
            handle.lane_order,
            handle.frame_id.encode(),
        )

    assert reciprocal_rank_fusion(handles, k, weights, default) == [h.index for h in sorted(handles, key=key)]


def test_sums_that_only_fractions_tell_apart_are_told_apart():
    # 2/(k+2) is above 1/(k+1) + 1/(k+4), whose best single rank is better. With such weights both are the float 0.
    near = [
        Handle(0, "a", "best", 0, 1, (("a", 1), ("b", 4)), (), 1, "fact", ""),
        Handle(1, "a", "even", 0, 2, (("a", 2), ("b", 2)), (), 1, "fact", ""),
    ]
    assert reciprocal_rank_fusion(near, 60, {"a": 1e-322, "b": 1e-322}, 1.0) == [1, 0]


def test_the_callers_order_comes_first_and_any_copys_name_names_the_evidence():
    handles = lanes_of(a=2, b=2)
    handles[0] = Handle(
        0, "a", "a1", 0, 1, (("a", 1), ("c", 1)), (FrameRef("a", "a1"), FrameRef("c", "cc")), 1, "fact", ""
    )
    ids = [("b", "b2"), ("ghost", "x"), ("c", "cc"), ("b", "b2"), ("a", "a1"), ("a", "ghost")]
    assert names(handles, precomputed(handles, ids)) == "b2 a1 b1 a2"


@given(st.integers(0, 6), st.lists(st.integers(0, 5)))
def test_every_policy_returns_a_permutation(length, others):
    handles = lanes_of(a=length, b=len(others), c=1)
    for strategy in ORDINAL:
        assert sorted(rank(strategy, handles)) == list(range(len(handles)))


def test_the_policy_that_needs_scores_does_not_rank_handles():
    with pytest.raises(ValueError, match="does not rank handles"):
        rank(ScoreDescending(), lanes_of(a=1))


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


def test_nothing_that_a_policy_is_given_leads_to_a_score():
    lanes = entries(lane("a", [frame("x", 0.625), frame("y", 0.375)]), lane("b", [frame("x", 0.875)]))
    kept = join_duplicates(lanes, Duplicates.SAME_BYTES)
    for entry in kept:
        entry.block = Fenced(None).block(entry.candidate, BYTES_PER_4)
    given_to_it = handles_of(kept)
    reached: dict[int, object] = {}
    waiting: list[object] = list(given_to_it)
    while waiting:
        thing = waiting.pop()
        # Classes and modules lead everywhere and hold no frame's data.
        if id(thing) not in reached and not isinstance(thing, type | types.ModuleType):
            reached[id(thing)] = thing
            waiting += referents(thing)
    assert not [thing for thing in reached.values() if isinstance(thing, LocalScore | ScoreScale | float)]
    assert {handle.vouchers for handle in given_to_it} == {1, 2}
