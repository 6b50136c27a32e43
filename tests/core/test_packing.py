"""Packing takes what fits in ranked order, skips what does not, and says why of everything it leaves out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.composition import Reason
from broker.core.entries import Entry
from broker.core.packing import Overhead, pack, room
from broker.core.rendering import Block
from broker.core.request import CompositionRequest
from broker.errors import InvalidArgument
from tests.core.building import entries, lane


def costing(*costs: int) -> list[Entry]:
    """Ranked entries of one lane whose blocks cost so much."""
    (own,) = entries(lane("a", {f"f{number:02}": 0.5 for number in range(len(costs))}))
    for number, (entry, cost) in enumerate(zip(own, costs, strict=True), 1):
        entry.block = Block("", cost * 4, cost, "", "", 0, 0)
        entry.local_rank = number
    return own


def taken(own: list[Entry], space: int, max_block_bytes: int = 10**6, **request) -> list[int]:
    packed = pack(own, space, CompositionRequest(max_tokens=1, **request), max_block_bytes)
    return [own.index(entry) for entry in packed]


def test_a_frame_that_does_not_fit_is_skipped_and_a_later_one_may():
    own = costing(60, 50, 40)
    assert taken(own, 100) == [0, 2]
    assert (own[1].reason, own[1].remaining, own[1].detail) == (Reason.OVER_BUDGET, 40, "costs 50, 40 remained")


def test_what_fits_exactly_is_taken():
    assert taken(costing(60, 40), 100) == [0, 1]
    assert taken(costing(60, 41), 100) == [0]


def test_with_no_space_everything_is_over_budget():
    own = costing(1, 2)
    assert taken(own, 0) == []
    assert [(entry.reason, entry.remaining) for entry in own] == [(Reason.OVER_BUDGET, 0)] * 2


def test_the_frame_limits_have_their_own_reasons():
    own = costing(1, 1, 1, 1)
    assert taken(own, 100, max_frames=1, max_frames_per_provider=2) == [0]
    assert [entry.reason for entry in own] == [
        "", Reason.FRAME_LIMIT, Reason.PROVIDER_FRAME_LIMIT, Reason.PROVIDER_FRAME_LIMIT,
    ]  # fmt: skip


def test_the_providers_limit_goes_by_local_rank_and_not_by_what_was_taken():
    own = costing(90, 5, 5)
    assert taken(own, 50, max_frames_per_provider=2) == [1]


def test_a_block_above_the_operators_limit_is_left_out_whatever_the_budget():
    own = costing(25, 26)
    assert taken(own, 1000, max_block_bytes=100) == [0]
    assert (own[1].reason, own[1].detail) == (Reason.BLOCK_TOO_LARGE, "104 bytes rendered, 100 allowed")


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(0, 200), st.none() | st.integers(0, 5))
def test_the_budget_holds_and_nothing_that_would_have_fitted_is_left_out(costs, space, max_frames):
    own = costing(*costs)
    chosen = taken(own, space, max_frames=max_frames)
    assert sum(costs[index] for index in chosen) <= space
    remaining, count = space, 0
    for index, cost in enumerate(costs):
        fits = cost <= remaining and (max_frames is None or count < max_frames)
        assert (index in chosen) == fits == (own[index].reason == "")
        remaining -= cost if fits else 0
        count += fits


def test_a_budget_below_the_prompts_own_texts_is_refused_with_what_is_needed():
    with pytest.raises(InvalidArgument) as caught:
        room(99, Overhead(preamble=80, closing=20))
    assert caught.value.reason == "BUDGET_TOO_SMALL"
    assert caught.value.violations[0].field == "max_tokens"
    assert "100" in caught.value.message
    assert room(100, Overhead(80, 20)) == 0
    assert room(150, Overhead(80, 20)) == 50
