"""Hostile and broken senders harm nobody but themselves: the rows of the hostile cases that the core alone can show.

Those of rendering stand in ``tests/core/render/test_hostile_cases.py``.
"""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from broker.core.audited import Reason
from broker.core.floors import floor_violations
from broker.core.frames import FrameRef, Provenance, content_digest
from broker.core.lanes import Grant, LaneEnd
from broker.core.request import Duplicates, Floor
from broker.core.scores import ScoreScale
from broker.core.strategies import CATALOGUE, ReciprocalRankFusion, ScoreDescending, TrustWeighted
from broker.core.weights import weight_violations
from tests.core.building import (
    DISTANCE,
    EVERY,
    composed,
    excluded,
    frame,
    lane,
    placed,
    ranked,
    row,
)

OTHERS = {"b1": 0.9, "b2": 0.8}


def refused(made, reason: str) -> None:
    """A lane that lied is out whole, named, and the others stand as if it had not been there."""
    composition = composed(made, lane("b", OTHERS))
    assert made.end is LaneEnd.REFUSED
    assert composition.summary.lanes[0].violation == reason
    own = [r for r in composition.audit if r.provider == made.provider]
    assert len(own) == made.offered
    assert {(r.reason, r.detail.split(":")[0]) for r in own} == {(Reason.LANE_REFUSED, reason)}
    assert composition.prompt == composed(lane("b", OTHERS)).prompt


def test_h19_empty_texts_are_slips():
    composition = composed(lane("a", [frame("c", 0.9, ""), frame("t", 0.8, title=""), frame("good", 0.1)]))
    assert ranked(composition) == ["good"]
    assert {r.detail.split(":")[0] for r in composition.audit if not r.included} == {"CONTENT_EMPTY", "TITLE_EMPTY"}


def test_h20_one_id_twice():
    composition = composed(lane("a", [frame("x", 0.4, "same"), frame("y", 0.5), frame("x", 0.9, "same")]))
    assert ranked(composition) == ["x", "y"]
    rows = [r for r in composition.audit if r.frame_id == "x"]
    assert [(r.included, r.reason, r.duplicate_of) for r in rows] == [
        (True, "", None),
        (False, Reason.DUPLICATE, FrameRef("a", "x")),
    ]
    refused(lane("a", [frame("x", 0.9, "one"), frame("x", 0.4, "two")]), "EQUIVOCATION")


@pytest.mark.parametrize("name", ["", "*", "%", "a*", "^a", "all", "default"])
def test_h24_no_floor_is_for_more_than_one(name):
    reason = "FLOOR_UNKNOWN_PROVIDER" if name in ("all", "default") else "FLOOR_PROVIDER_NAME"
    (violation,) = floor_violations([Floor(name, "unit", 0.5)], {"a": DISTANCE})
    assert (violation.reason, violation.field) == (reason, "floors[0].provider_id")


def test_h30_raw_scores_starve_and_say_so():
    lanes = [lane("a", {"a1": 0.9, "a2": 0.8, "a3": 0.7, "a4": 0.6}), lane("b", {"b1": 0.3})]
    composition = composed(*lanes, strategy=ScoreDescending(), max_frames=3)
    assert {p.frame.id for p in composition.placed} == {"a1", "a2", "a3"}
    assert excluded(composition) == {"a4": Reason.FRAME_LIMIT, "b1": Reason.FRAME_LIMIT}
    assert composition.summary.strategy.compares_raw_scores
    assert [kind for kind, info in CATALOGUE.items() if info.compares_raw_scores] == [ScoreDescending]


def test_h32_local_rank_decides_which_copy_is_kept():
    lanes = [lane("a", {"x": 0.2}), lane("b", {"y": 0.9, "x": 0.8})]
    composition = composed(*lanes)
    assert [(p.provider, p.frame.id) for p in sorted(composition.placed, key=lambda p: p.rank)] == [
        ("a", "x"), ("b", "y"),
    ]  # fmt: skip
    assert row(composition, "b", "x").duplicate_of == FrameRef("a", "x")
    assert composition.placed[0].vouchers == (FrameRef("a", "x"), FrameRef("b", "x"))
    raw = composed(*lanes, strategy=ScoreDescending())
    assert ranked(raw) == ["y", "x"]
    assert row(raw, "a", "x").duplicate_of == FrameRef("b", "x")


def test_h35_weights():
    lanes = [lane("a", {"a": 0.9}), lane("b", {"z": 0.1})]
    assert ranked(composed(*lanes, strategy=TrustWeighted({"a": 0.0, "b": 1.0}))) == ["z", "a"]
    for weights in ({"a": math.nan}, {"a": math.inf}, {"a": -1.0}, {"nobody": 1.0}):
        for strategy in (TrustWeighted(weights), ReciprocalRankFusion(60, weights)):
            assert [violation.reason for violation in weight_violations(strategy, {"a", "b"})] == ["WEIGHT"]


def test_h36_equal_scores_do_not_share_a_rank():
    composition = composed(
        lane("a", dict.fromkeys(["a5", "a3", "a1", "a4", "a2"], 1.0)), lane("b", {"b1": 0.2, "b2": 0.1})
    )
    assert ranked(composition) == ["a1", "b1", "a2", "b2", "a3", "a4", "a5"]
    assert [r.local_rank for r in composition.audit] == [1, 2, 3, 4, 5, 1, 2]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_h37_scores_that_are_none_drop_their_frame_alone(score):
    composition = composed(lane("a", {"b": 0.8, "n": score, "a": 0.9}))
    assert ranked(composition) == ["a", "b"]
    assert row(composition, "a", "n").detail.startswith("SCORE_NOT_FINITE")


def test_h38_rounding_past_the_end_is_kept_as_it_is_and_no_more():
    over = {"bit": 1 + 2**-52, "cosine": 1.00000001, "under": -1e-17, "far": 1.0001, "negative": -0.001}
    composition = composed(lane("a", over), include_local_scores=True)
    assert ranked(composition) == ["cosine", "bit", "under"]
    shown = row(composition, "a", "cosine").score
    assert shown is not None
    assert float(shown.value) == 1.00000001
    assert {name: row(composition, "a", name).detail.split(":")[0] for name in ("far", "negative")} == {
        "far": "SCORE_RANGE",
        "negative": "SCORE_RANGE",
    }


def test_h39_equal_to_the_last_bit_is_kept():
    scores = {"equal": 0.1 + 0.2, "below": math.nextafter(0.1 + 0.2, 0)}
    assert ranked(composed(lane("a", scores), floors=(Floor("a", "unit", 0.1 + 0.2),))) == ["equal"]


def test_h42_a_floor_for_an_absent_provider_is_unused():
    absent = lane("b", {}, end=LaneEnd.ABSENT)
    composition = composed(lane("a", {"x": 0.1}), absent, floors=(Floor("b", "unit", 0.5),))
    assert (ranked(composition), composition.summary.floors[0].used) == (["x"], False)


@pytest.mark.parametrize("strategy", EVERY)
def test_h44_how_far_scores_lie_from_others_is_nobodys_business(strategy):
    huge = ScoreScale("huge", -math.inf, math.inf)
    composition = composed(lane("a", {"a": 0.5}), lane("b", {"b": 1e300, "c": -1e300}, huge), strategy=strategy)
    assert excluded(composition) == {}
    assert {summary.end for summary in composition.summary.lanes} == {LaneEnd.COMPLETE}


@pytest.mark.parametrize("declared", [1, 3, 0, -1, 4294967295, 2**31])
def test_h46_a_wrong_cost_drops_the_lane(declared):
    refused(lane("a", [frame("x", 0.9, "12345678"), frame("y", 0.8, "87654321", token_cost=declared)]), "COST_MISMATCH")
    assert lane("a", [frame("x", 0.9, "12345678", token_cost=2)]).lie is None


def test_h47_more_tokens_than_granted_drop_the_lane():
    frames = [frame("x", 0.9, "x" * 240, token_cost=60), frame("y", 0.8, "y" * 200, token_cost=50)]
    refused(lane("a", frames, grant=Grant(10, 100)), "TOKENS_EXCEEDED")


def test_h48_more_frames_than_granted_drop_the_lane():
    frames = [frame(f"f{n}") for n in range(6)]
    assert lane("a", frames[:3], grant=Grant(5, 10**6)).end is LaneEnd.COMPLETE
    made = lane("a", frames, grant=Grant(5, 10**6))
    assert made.offered == 6
    refused(made, "COUNT_EXCEEDED")


def test_h49_a_budget_for_no_frame_places_none_and_says_why():
    overhead = composed().summary.budget
    composition = composed(lane("a", {"x": 0.5, "y": 0.4}), max_tokens=overhead.used + 3)
    assert placed(composition) == []
    assert {(r.reason, r.cost > 3, r.remaining) for r in composition.audit} == {(Reason.OVER_BUDGET, True, 3)}


@pytest.mark.parametrize(
    ("digest", "reason"),
    [("d41d8cd98f00b204e9800998ecf8427e", "DIGEST_MALFORMED"), ("sha256:" + "A" * 64, "DIGEST_MALFORMED"),
     ("sha256:" + "0" * 63, "DIGEST_MALFORMED"), ("", "")],
)  # fmt: skip
def test_h59_a_malformed_digest_is_a_slip_and_none_is_fine(digest, reason):
    composition = composed(lane("a", [frame("x", 0.9, content_digest=digest), frame("y", 0.8)]))
    assert row(composition, "a", "x").detail.split(":")[0] == reason
    assert row(composition, "a", "y").included


def test_h59_a_wrong_digest_is_a_lie():
    refused(lane("a", [frame("x", 0.9, content_digest="sha256:" + "0" * 64)]), "DIGEST_MISMATCH")


def test_h60_claiming_a_rivals_digest_pushes_nobody_out():
    refused(lane("a", [frame("x", 0.9, "mine", content_digest=content_digest("b1"))]), "DIGEST_MISMATCH")


def test_h61_a_whole_copy_is_one_frame_that_both_vouch_for():
    copied = frame("theirs", 0.9, "evidence", provenance=(Provenance("file", "file:///b"),))
    composition = composed(lane("a", [replace(copied, score=0.1)]), lane("b", [copied]))
    (one,) = composition.placed
    assert (one.provider, [voucher.provider for voucher in one.vouchers]) == ("a", ["a", "b"])
    assert row(composition, "b", "theirs").reason == Reason.DUPLICATE


@pytest.mark.parametrize(
    "uri", ["http://169.254.169.254/", "file:/etc/passwd", "javascript:x", "u" * 10_000, "a\nb\r\nc"]
)
def test_h62_a_uri_is_carried_and_never_shown_in_the_prompt(uri):
    composition = composed(lane("a", [frame("x", uri=uri)]))
    assert composition.placed[0].frame.uri == uri
    assert uri not in composition.prompt


def test_h78_every_frame_of_many_lanes_has_its_row():
    lanes = [lane(f"p{n:02}", [frame(f"f{m}", 0.5, f"{n} {m}") for m in range(64)]) for n in range(32)]
    composition = composed(*lanes, max_frames=1)
    assert len({(r.provider, r.frame_id) for r in composition.audit}) == len(composition.audit) == 2048
    assert composition.summary.reasons == {"FRAME_LIMIT": 2047, "INCLUDED": 1}


def test_h89_a_slip_in_the_callers_own_lane_drops_that_frame_alone():
    composition = composed(lane("own", {"a": 0.9, "n": math.nan, "b": 0.4}), lane("z", {"z": 0.5}))
    assert ranked(composition) == ["a", "z", "b"]
    assert (row(composition, "own", "n").reason, row(composition, "own", "n").detail.split(":")[0]) == (
        Reason.INVALID,
        "SCORE_NOT_FINITE",
    )


def test_h93_lower_is_better_and_equal_keeps():
    distances = {"a": 0.1, "b": 0.9, "c": 0.3, "d": 0.31}
    composition = composed(lane("a", distances, DISTANCE), floors=(Floor("a", "dist", 0.3),))
    assert ranked(composition) == ["a", "c"]
    assert excluded(composition) == {"b": Reason.BELOW_FLOOR, "d": Reason.BELOW_FLOOR}


def test_h94_naming_a_rivals_source_pushes_nobody_out():
    source = (Provenance("file", "file:///r", "L1-9"),)
    lanes = [
        lane("a", [frame("x", 0.5, "one", provenance=source)]),
        lane("b", [frame("y", 0.5, "two", provenance=source)]),
    ]
    composition = composed(*lanes)
    assert ranked(composition) == ["x", "y"]
    assert row(composition, "a", "x").conflicts == (FrameRef("b", "y"),)
    assert row(composition, "b", "y").conflicts == (FrameRef("a", "x"),)
    assert ranked(composed(*lanes, duplicates=Duplicates.SAME_BYTES_OR_SOURCE)) == ["x"]
