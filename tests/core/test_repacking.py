"""Packing and placement are worked out again from the audit, whichever limits and counter were asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.core.audited import Reason
from broker.core.checks import Verdict
from broker.core.composition import Composition
from broker.core.frames import Provenance
from broker.core.repacking import packing_again, placement_again
from broker.core.request import Placement
from tests.core.building import POLICY, composed, excluded, frame, lane
from tests.core.test_fitting import POLICY as WORDS
from tests.core.test_fitting import lanes as sized

BOOK, OTHER = Provenance("file", "file:///book"), Provenance("file", "file:///other")
LANES = (
    lane("a", [frame(f"b{n}", 0.9 - n / 100, f"{n:90}", provenance=(BOOK,)) for n in range(4)]),
    lane("b", [frame(f"o{n}", 0.9 - n / 100, f"o{n:150}", provenance=(OTHER,)) for n in range(4)]),
)


def changed(composition: Composition, frame_id: str, **fields) -> Composition:
    audit = tuple(replace(row, **fields) if row.frame_id == frame_id else row for row in composition.audit)
    return replace(composition, audit=audit)


def limited(composition: Composition, **limits) -> Composition:
    """The composition with other limits on record."""
    return replace(
        composition,
        summary=replace(composition.summary, limits=replace(composition.summary.limits, **limits)),
    )


@pytest.mark.parametrize("max_tokens", range(230, 700, 30))
@pytest.mark.parametrize("most", [1, 2, 3])
def test_frames_that_waited_and_came_back_agree(max_tokens, most):
    composition = composed(*LANES, max_tokens=max_tokens, max_frames_per_source=most)
    assert packing_again(composition, None).verdict is Verdict.AGREES


def test_frames_that_waited_in_vain_are_taken_as_they_are_and_it_says_so():
    composition = composed(*LANES, max_tokens=350, max_frames_per_source=1)
    assert Reason.SOURCE_FRAME_LIMIT in excluded(composition).values()
    assert "those that waited are taken as they are" in packing_again(composition, None).limits


def test_a_frame_that_was_taken_before_its_turn_is_found():
    composition = composed(*LANES, max_tokens=350, max_frames_per_source=3)
    assert packing_again(composition, None).verdict is Verdict.AGREES
    assert packing_again(limited(composition, max_frames_per_source=1), None).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(("of_caller", "of_operator"), [(5, 3), (3, 5), (3, None), (None, 3)])
def test_the_tighter_cap_on_frames_is_on_record_whoever_set_it(of_caller, of_operator):
    composition = composed(*LANES, policy=replace(POLICY, max_frames=of_operator), max_frames=of_caller)
    assert composition.summary.limits.max_frames == 3
    assert packing_again(composition, None).verdict is Verdict.AGREES


@pytest.mark.parametrize("limit", ["max_frames", "max_frames_per_provider", "max_block_bytes"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_limit_on_record_that_what_was_placed_breaks_is_found(limit, cut):
    """Whether or not the limit that was applied left a frame out, so that its reason shows."""
    composition = composed(*LANES, max_frames=5) if cut else composed(*LANES)
    assert packing_again(composition, None).verdict is Verdict.AGREES
    assert packing_again(limited(composition, **{limit: 1}), None).verdict is Verdict.DIFFERS


def test_what_was_taken_back_from_a_source_is_not_guessed_at():
    parts = composed(sized(30, 30, 30), policy=WORDS, tokenizer="words", max_tokens=10_000).summary.budget.used
    options = {"policy": WORDS, "tokenizer": "words", "max_tokens": parts, "max_frames_per_source": 2}
    check = packing_again(composed(sized(30, 30, 30), **options), None)
    assert check.verdict is Verdict.NOT_RECOMPUTED


def test_what_was_too_much_joined_is_known_to_its_counter_alone():
    parts = composed(sized(30, 30, 30), policy=WORDS, tokenizer="words", max_tokens=10_000).summary.budget.used
    composition = composed(sized(30, 30, 30), policy=WORDS, tokenizer="words", max_tokens=parts)
    check = packing_again(composition, None)
    assert (check.verdict, check.limits) == (
        Verdict.AGREES,
        "what the joined prompt counts is known to words sha256:0123 alone",
    )
    by_bytes = replace(composition.summary.budget, counter="bytes/4")
    said = replace(composition, summary=replace(composition.summary, budget=by_bytes))
    assert packing_again(said, None).verdict is Verdict.DIFFERS, "bytes cannot be more in a whole than in its parts"


def test_a_changed_row_is_found_under_every_limit():
    composition = composed(*LANES, max_tokens=260, max_frames_per_source=2)
    name = next(name for name, reason in excluded(composition).items() if reason == Reason.OVER_BUDGET)
    assert packing_again(changed(composition, name, remaining=1), None).verdict is Verdict.DIFFERS
    assert packing_again(changed(composition, name, cost=1), None).verdict is Verdict.DIFFERS


def test_auto_is_settled_again_from_what_was_used():
    composition = composed(*LANES, placement=Placement.AUTO)
    assert placement_again(composition, None).verdict is Verdict.AGREES
    lower = replace(composition.summary, fold_min_tokens=1)
    check = placement_again(replace(composition, summary=lower), None)
    used = composition.summary.budget.used
    assert check.differences == (f"AUTO comes to FOLD with {used} tokens, and not to RANK_ORDER",)


def test_auto_is_no_placement_that_was_applied():
    composition = composed(*LANES)
    said = replace(composition, summary=replace(composition.summary, placement="AUTO"))
    assert placement_again(said, None).verdict is Verdict.NOT_RECOMPUTED
