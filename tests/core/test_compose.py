"""One composition is a function of what was offered, request and policy, and says of every frame where it went."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from broker.core.audited import Reason
from broker.core.compose import compose, overhead
from broker.core.composition import Citation
from broker.core.frames import FrameRef, Provenance, content_digest
from broker.core.lanes import LaneEnd
from broker.core.request import CompositionRequest, Fence, Floor, PartialLanes, Placement
from broker.errors import InvalidArgument
from tests.core.building import (
    AS_SENT,
    POLICY,
    composed,
    evidence_of,
    excluded,
    frame,
    lane,
    placed,
    ranked,
    read_blocks,
    row,
)


def test_nothing_offered_is_an_empty_composition():
    composition = composed(lane("a", {}), lane("b", {}, end=LaneEnd.TIMED_OUT))
    assert composition.placed == composition.citations == composition.audit == ()
    assert composition.prompt == composition.preamble + composition.closing
    assert composed().summary.lanes == ()


def test_the_prompt_is_preamble_blocks_and_closing():
    composition = composed(lane("a", {"x": 0.9, "y": 0.8}), lane("b", {"z": 0.1}), question="why?")
    assert composition.prompt.startswith(composition.preamble)
    assert composition.prompt.endswith(composition.closing)
    assert evidence_of(composition) == "".join(one.rendered for one in composition.placed)
    assert [one.frame_id for one in read_blocks(evidence_of(composition))] == placed(composition) == ["x", "y", "z"]


def test_what_is_placed_carries_no_score_and_no_declaration():
    sent = frame("x", 0.9, "content!", token_cost=2, citation_label="Label")
    (one,) = composed(lane("a", [sent])).placed
    assert one.frame == replace(sent, score=None, token_cost=None, content_digest=content_digest("content!"))
    assert (one.position, one.total, one.provider, one.local_rank, one.rank) == (1, 1, "a", 1, 1)


def test_citations_stand_for_what_was_placed_in_prompt_order():
    composition = composed(lane("a", {"x": 0.9, "y": 0.8}), lane("b", [frame("x", 0.5, "other")]))
    assert composition.citations == (
        Citation("x (a/x)", FrameRef("a", "x"), 1, content_digest("x")),
        Citation("y", FrameRef("a", "y"), 2, content_digest("y")),
        Citation("x (b/x)", FrameRef("b", "x"), 3, content_digest("other")),
    )
    assert [one.citation_label for one in composition.placed] == [c.label for c in composition.citations]


def test_a_block_does_not_change_when_another_frame_comes_or_goes():
    alone = composed(lane("a", {"x": 0.9}))
    beside = composed(lane("a", {"x": 0.9}), lane("b", [frame("x", 0.5, "other")]))
    assert alone.placed[0].rendered == beside.placed[0].rendered
    assert alone.placed[0].citation_label != beside.placed[0].citation_label


def test_lane_order_is_the_operators_then_by_name():
    lanes = [lane(name, {name: 0.5}) for name in "abc"]
    assert ranked(composed(*lanes)) == ["a", "b", "c"]
    configured = replace(POLICY, lane_order=("c", "unknown"))
    composition = composed(*lanes, policy=configured)
    assert ranked(composition) == ["c", "a", "b"]
    assert [summary.provider for summary in composition.summary.lanes] == ["c", "a", "b"]


def test_two_lanes_of_one_provider_are_a_fault():
    with pytest.raises(ValueError, match="two lanes"):
        composed(lane("a", {}), lane("a", {}))


@pytest.mark.parametrize("end", [LaneEnd.PARTIAL, LaneEnd.FAILED, LaneEnd.LOST])
def test_lanes_that_were_cut_short_are_kept_or_dropped_as_asked(end):
    lanes = [lane("a", {"x": 0.5}, end=end), lane("b", {"y": 0.5})]
    assert ranked(composed(*lanes)) == ["x", "y"]
    dropped = composed(*lanes, partial_lanes=PartialLanes.DROP)
    assert ranked(dropped) == ["y"]
    assert (row(dropped, "a", "x").reason, row(dropped, "a", "x").detail) == (
        Reason.LANE_PARTIAL,
        f"the lane ended {end.value}",
    )


def test_frames_outside_their_validity_are_left_out_when_a_moment_is_named():
    lanes = [
        lane("a", [
            frame("now", 0.9, valid_from="2024-01-01T00:00:00Z", valid_to="2025-01-01T00:00:00Z"),
            frame("past", 0.8, valid_to="2024-06-01T00:00:00.5Z"),
            frame("future", 0.7, valid_from="2024-06-01T00:00:00.500000001Z"),
            frame("ever", 0.6),
        ])
    ]  # fmt: skip
    composition = composed(*lanes, as_of="2024-06-01T00:00:00.5Z")
    assert ranked(composition) == ["now", "ever"]
    assert excluded(composition) == {"past": Reason.OUTSIDE_VALIDITY, "future": Reason.OUTSIDE_VALIDITY}
    assert row(composition, "a", "past").detail == "valid from ever to 2024-06-01T00:00:00.5Z"
    assert len(ranked(composed(*lanes))) == 4


def test_a_moment_that_is_none_is_refused():
    with pytest.raises(InvalidArgument) as caught:
        composed(as_of="2024-13-01T00:00:00Z")
    assert (caught.value.reason, caught.value.violations[0].field) == ("TIMESTAMP_MALFORMED", "as_of")


@pytest.mark.parametrize("fence", Fence)
@pytest.mark.parametrize("question", ["", "why </frame> 漢?"])
def test_the_overhead_is_the_least_budget_there_is(fence, question):
    request = CompositionRequest(max_tokens=1, fence=fence, question=question)
    needed = overhead(request, POLICY).total
    with pytest.raises(InvalidArgument) as caught:
        compose([], replace(request, max_tokens=needed - 1), POLICY)
    assert caught.value.reason == "BUDGET_TOO_SMALL"
    assert str(needed) in caught.value.message
    composition = compose([lane("a", {"x": 0.5})], replace(request, max_tokens=needed), POLICY)
    assert excluded(composition) == {"x": Reason.OVER_BUDGET}
    assert composition.summary.budget.used == needed


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_no_budget_is_too_small(max_tokens):
    with pytest.raises(InvalidArgument):
        composed(max_tokens=max_tokens)


def test_vouchers_are_each_providers_best_copy_the_kept_one_first():
    composition = composed(
        lane("a", [frame("top", 0.9), frame("a2", 0.5, "x")]),
        lane("b", [frame("b1", 0.9, "x"), frame("b2", 0.8, "x")]),
        lane("c", [frame("c1", 0.9), frame("c2", 0.8, "x")]),
    )
    (one,) = [one for one in composition.placed if one.frame.content == "x"]
    assert one.vouchers == (FrameRef("b", "b1"), FrameRef("a", "a2"), FrameRef("c", "c2"))
    assert row(composition, "b", "b2").duplicate_of == FrameRef("b", "b1")
    assert row(composition, "b", "b2").detail == "same bytes"


def test_a_floor_in_another_scale_than_the_lanes_lets_nothing_pass():
    # As when a push turns out to be on another scale than the request supposed.
    composition = composed(
        lane("a", {"x": 0.9}), lane("b", {"y": None}, AS_SENT), lane("c", {"z": 0.1}),
        floors=(Floor("a", "other", 0.1), Floor("b", "none", 0.1)),
    )  # fmt: skip
    assert ranked(composition) == ["z"]
    assert excluded(composition) == {"x": Reason.BELOW_FLOOR, "y": Reason.BELOW_FLOOR}
    assert row(composition, "a", "x").detail == "the floor is on scale 'other', the lane on 'unit'"
    assert row(composition, "b", "y").detail == "on scale 'none'"


def test_canonical_placement_gives_one_prompt_for_one_set():
    better, worse = {"x": 0.9, "y": 0.1}, {"x": 0.1, "y": 0.9}
    prompts = {composed(lane("a", scores), placement=Placement.CANONICAL).prompt for scores in (better, worse)}
    assert len(prompts) == 1


def test_provenance_of_every_copy_reaches_the_prompts_citation():
    documents = [Provenance("file", f"file:///{n}") for n in (1, 2)]
    composition = composed(
        lane("a", [frame("x", 0.5, "same", provenance=(documents[0],))]),
        lane("b", [frame("y", 0.5, "same", provenance=(documents[1],))]),
    )
    assert composition.placed[0].frame.provenance == tuple(documents)


def test_no_hash_seed_changes_a_byte():
    """C22."""
    script = (
        "from tests.core.building import composed, frame, lane\n"
        "from broker.core.strategies import ReciprocalRankFusion\n"
        "lanes = [lane(p, [frame(f'{p}{n}', 0.5, f'c{n}{p * (n % 2)}') for n in range(5)]) for p in {*'abcd'}]\n"
        "print(composed(*lanes, strategy=ReciprocalRankFusion(60, {'a': 0.5, 'd': 2.0})))\n"
    )
    outputs = set()
    for seed in range(10):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert "INCLUDED" in outputs.pop()
