"""Packing takes what fits in ranked order, skips what does not, and says why of everything it leaves out."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import LimitsRecord, Reason
from broker.core.counting import BYTES_PER_4
from broker.core.entries import Entry
from broker.core.packing import Overhead, overhead_of, pack, room, usable_tokens
from broker.core.render.renderer import Block
from broker.core.request import CompositionRequest
from broker.errors import InvalidArgument
from tests.core.building import entries, lane


def costing(*costs: int) -> list[Entry]:
    """Ranked entries of one lane whose blocks cost so much."""
    (own,) = entries(lane("a", {f"f{number:02}": 0.5 for number in range(len(costs))}))
    for number, (entry, cost) in enumerate(zip(own, costs, strict=True), 1):
        entry.block = Block(cost * 4, cost)
        entry.local_rank = number
    return own


def taken(own: list[Entry], space: int, **limits) -> list[int]:
    packed = pack(own, space, LimitsRecord(**limits))
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
        room(CompositionRequest(max_tokens=99), Overhead(preamble=80, closing=20))
    assert caught.value.reason == "BUDGET_TOO_SMALL"
    assert caught.value.violations[0].field == "max_tokens"
    assert "100" in caught.value.message
    assert room(CompositionRequest(max_tokens=100), Overhead(80, 20)) == 0
    assert room(CompositionRequest(max_tokens=150), Overhead(80, 20)) == 50


@given(st.integers(0, 2**31), st.floats(1, 4))
def test_what_is_usable_is_the_most_that_times_the_factor_is_no_more_than_was_allowed(max_tokens, factor):
    usable = usable_tokens(max_tokens, factor)
    written = Fraction(repr(factor))
    assert usable * written <= max_tokens < (usable + 1) * written


@pytest.mark.parametrize("factor", [1.05, 1.1, 1.2, 1.3, 1.4, 1.7, 2.1, 3.3])
@pytest.mark.parametrize("usable", [1, 10, 1000, 999_999])
def test_a_factor_is_what_was_written_and_not_the_double_beside_it(usable, factor):
    in_hundredths = round(factor * 100)
    assert usable_tokens(usable * in_hundredths, factor) == usable * 100


def test_a_budget_that_the_factor_makes_too_small_names_the_factor():
    request = CompositionRequest(max_tokens=140, safety_factor=1.5)
    with pytest.raises(InvalidArgument) as caught:
        room(request, Overhead(preamble=80, closing=20))
    assert "140 tokens by the safety factor 1.5 leave 93" in caught.value.message
    assert room(CompositionRequest(max_tokens=150, safety_factor=1.5), Overhead(80, 20)) == 0


def test_the_prompts_own_texts_cost_what_they_cost_as_one_text_too():
    assert overhead_of("above", "below", BYTES_PER_4) == Overhead(2, 2)
    assert overhead_of("above", "below", Longer()).total == Longer().count("abovebelow")


class Longer:
    """Counts more in a whole than in its parts, as a tokenizer may."""

    name, version = "longer", ""

    def count(self, text: str, /) -> int:
        return len(text) ** 2


def of_sources(*sources: str) -> list[Entry]:
    """Ranked entries of one lane, each of a source and costing 10."""
    own = costing(*[10] * len(sources))
    for entry, source in zip(own, sources, strict=True):
        entry.candidate = replace(entry.candidate, frame=replace(entry.candidate.frame, uri=source))
    return own


def test_a_source_that_had_its_turn_waits_and_comes_back_where_room_remains():
    own = of_sources("x", "x", "x", "y")
    assert taken(own, 20, max_frames_per_source=1) == [0, 3]
    assert [entry.reason for entry in own] == ["", Reason.SOURCE_FRAME_LIMIT, Reason.SOURCE_FRAME_LIMIT, ""]
    assert own[1].detail == "1 frames of 'x' were taken before it; afterwards: costs 10, 0 remained"
    assert own[1].remaining == 0
    own = of_sources("x", "x", "x", "y")
    assert taken(own, 30, max_frames_per_source=1) == [0, 1, 3], "the better of those that waited, and in ranked order"
    assert taken(of_sources("x", "x", "x", "y"), 40, max_frames_per_source=1) == [0, 1, 2, 3]


def test_frames_that_name_no_source_never_wait():
    assert taken(of_sources("", "", "x", "x", ""), 40, max_frames_per_source=1) == [0, 1, 2, 4]


def test_what_no_room_could_help_has_its_own_reason_before_it_waits():
    own = of_sources("x", "x", "x", "x")
    assert taken(own, 100, max_frames_per_source=1, max_frames_per_provider=3, max_frames=2) == [0, 1]
    assert [entry.reason for entry in own[2:]] == [Reason.SOURCE_FRAME_LIMIT, Reason.PROVIDER_FRAME_LIMIT]
    assert own[2].detail.endswith("afterwards: 2 frames were taken")


@given(
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from(["", "x", "y", "z"])), max_size=15),
    st.integers(0, 120),
    st.integers(1, 3),
    st.none() | st.integers(0, 6),
)
def test_the_walk_is_the_plain_one_over_those_in_turn_and_then_over_those_that_waited(offered, space, most, frames):
    own = costing(*(cost for cost, _ in offered))
    for entry, (_, source) in zip(own, offered, strict=True):
        entry.candidate = replace(entry.candidate, frame=replace(entry.candidate.frame, uri=source))
    found = taken(own, space, max_frames_per_source=most, max_frames=frames)
    held, expected, counts = [], [], Counter()
    for index, (cost, source) in enumerate(offered):
        if frames is not None and len(expected) >= frames:
            continue
        if source and counts[source] >= most:
            held.append(index)
        elif cost <= space:
            expected.append(index)
            counts[source] += 1
            space -= cost
    for index in held:
        if offered[index][0] <= space and (frames is None or len(expected) < frames):
            expected.append(index)
            space -= offered[index][0]
    assert found == sorted(expected)
    assert all(bool(entry.reason) == (index not in found) for index, entry in enumerate(own))
