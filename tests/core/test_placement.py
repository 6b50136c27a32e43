"""Placement is a permutation of the order that it is given, with the best where its name says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import FrameRef
from broker.core.placement import fold, place, settled
from broker.core.request import Placement


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 3, 2]), (6, [1, 3, 5, 6, 4, 2]), (7, [1, 3, 5, 7, 6, 4, 2])],
)
def test_the_fold_has_the_best_at_both_edges(length, expected):
    assert fold(range(1, length + 1)) == expected


@given(st.lists(st.integers(), min_size=1))
def test_the_fold_is_a_permutation_with_the_best_first(ranked):
    folded = fold(ranked)
    assert sorted(folded) == sorted(ranked)
    assert folded[0] == ranked[0]
    assert len(ranked) == 1 or folded[-1] == ranked[1]


@given(st.integers(0, 50))
def test_the_nearer_to_an_edge_the_better(length):
    folded = fold(range(length))
    depths = {rank: min(index, length - 1 - index) for index, rank in enumerate(folded)}
    assert all(depths[rank] <= depths[rank + 1] for rank in range(length - 1))


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (Placement.FOLD, ["b/2", "a/9", "a/1", "b/10"]),
        (Placement.RANK_ORDER, ["b/2", "b/10", "a/9", "a/1"]),
        (Placement.REVERSE_RANK, ["a/1", "a/9", "b/10", "b/2"]),
        (Placement.CANONICAL, ["a/1", "a/9", "b/10", "b/2"]),
    ],
)
def test_each_placement(placement, expected):
    assert place(["b/2", "b/10", "a/9", "a/1"], placement, lambda name: FrameRef(*name.split("/"))) == expected


@given(st.permutations(["a/1", "a/2", "b/1", "b/10", "b/2"]))
def test_canonical_does_not_depend_on_the_order(ranked):
    placed = place(ranked, Placement.CANONICAL, lambda name: FrameRef(*name.split("/")))
    assert placed == ["a/1", "a/2", "b/1", "b/10", "b/2"]


def test_auto_folds_from_its_number_of_tokens_on_and_every_other_placement_is_itself():
    assert settled(Placement.AUTO, 4095, 4096) is Placement.RANK_ORDER
    assert settled(Placement.AUTO, 4096, 4096) is Placement.FOLD
    assert settled(Placement.AUTO, 0, 0) is Placement.FOLD
    for placement in set(Placement) - {Placement.AUTO}:
        assert settled(placement, 0, 4096) is settled(placement, 5000, 4096) is placement


def test_auto_itself_places_nothing():
    with pytest.raises(ValueError, match="settled"):
        place(["a/1"], Placement.AUTO, lambda name: FrameRef(*name.split("/")))
