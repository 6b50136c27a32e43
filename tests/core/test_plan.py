"""A pushed lane is trimmed to its grant, its best first and without a lie; what can never be placed is not held."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.core.audited import Reason
from broker.core.compose import finish
from broker.core.lanes import Grant, LaneEnd
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Floor, RenderMode
from tests.core.building import POLICY, composed, excluded, frame, lane, ranked, row


def pushed(max_frames: int = 9, max_tokens: int = 1000, **scores: float):
    """A lane whose frames have 10 tokens each."""
    frames = [frame(name, score, f"{name:40}") for name, score in scores.items()]
    return replace(lane("p", frames), trimmed_to=Grant(max_frames, max_tokens))


def test_the_best_by_local_rank_stay():
    composition = composed(pushed(max_tokens=20, low=0.1, high=0.9, mid=0.5), lane("a", {"x": 0.9}))
    assert excluded(composition) == {"low": Reason.PUSH_TRIMMED}
    assert row(composition, "p", "low").detail == "granted 9 frames and 20 tokens"
    (summary,) = [one for one in composition.summary.lanes if one.provider == "p"]
    assert (summary.end, summary.violation, summary.offered, summary.admitted) == (LaneEnd.COMPLETE, "", 3, 2)


def test_frames_are_counted_too():
    assert excluded(composed(pushed(max_frames=1, a=0.9, b=0.8))) == {"b": Reason.PUSH_TRIMMED}


def test_a_smaller_frame_may_fit_behind_one_that_does_not():
    own = lane("p", [frame("a", 0.9, "a" * 40), frame("b", 0.8, "b" * 80), frame("c", 0.7, "c" * 40)])
    assert excluded(composed(replace(own, trimmed_to=Grant(9, 20)))) == {"b": Reason.PUSH_TRIMMED}


def test_what_a_floor_drops_takes_no_room():
    lanes = [pushed(max_tokens=20, a=0.9, b=0.2, c=0.8), lane("q", {"x": 0.5})]
    composition = composed(*lanes, floors=(Floor("p", "unit", 0.5),))
    assert excluded(composition) == {"b": Reason.BELOW_FLOOR}


def test_what_was_trimmed_is_offered_and_not_admitted():
    usage = composed(pushed(max_tokens=20, a=0.9, b=0.8, c=0.7)).usage.total
    assert (usage.frames_offered, usage.frames_admitted, usage.tokens_offered, usage.tokens_admitted) == (3, 2, 30, 20)


def test_a_lane_that_was_not_pushed_is_whole():
    assert ranked(composed(lane("p", {"a": 0.9, "b": 0.8}))) == ["a", "b"]


@pytest.mark.parametrize("mode", [mode for mode in RenderMode if mode is not RenderMode.NONE])
def test_a_block_that_no_room_could_help_is_counted_and_not_held(mode: RenderMode):
    policy = replace(POLICY, max_block_bytes=3000)
    small, large, dear = frame("small", 0.9, "x"), frame("large", 0.8, "\x00" * 1000), frame("dear", 0.7, "y" * 2000)
    plan = rank_lanes([lane("a", [small, large, dear])], CompositionRequest(max_tokens=400, mode=mode), policy)
    held = {
        entry.candidate.frame.id: len(entry.block.header + entry.block.content)
        for entry in plan.ranked
        if entry.block is not None
    }
    assert (held["small"] > 0, held["large"], held["dear"]) == (True, 0, 0)
    made = finish(plan)
    assert excluded(made) == {"large": Reason.BLOCK_TOO_LARGE, "dear": Reason.OVER_BUDGET}
    assert row(made, "a", "large").cost > 3000
    assert made == finish(plan)
