"""Each policy's reason for a rank is the comparison that the policy really makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.cli.why import Reasons, numbers_apart, shown_score
from broker.core.audited import AuditRow, AuditScore, RerankOutcome, RerankRecord
from broker.core.frames import FrameRef

LANE = ["files"] * 5


def _reasons(composition):
    say = Reasons(composition)
    return [say(row) for row in composition.audit if row.rank]


@pytest.mark.parametrize(
    ("strategy", "params", "reasons"),
    [
        ("round_robin", {}, ["round 1", "round 2", "round 3", "round 4", "round 5"]),
        ("per_provider_quota", {"k": 2}, ["turn 1 of 2 each"] * 2 + ["turn 2 of 2 each"] * 2 + ["turn 3 of 2 each"]),
        (
            "trust_weighted",
            {"weights": {"files": 2.0}, "default_weight": 1.0},
            [f"weight 2: round {n}" for n in (1, 1, 2, 2, 3)],
        ),
        (
            "trust_weighted",
            {"weights": {"files": 0.5}, "default_weight": 1.0},
            [f"weight 0.5: round {n}" for n in (2, 4, 6, 8, 10)],
        ),
        (
            # As a binary float 0.3 is a little less than 3/10, and the third frame would be said to come in round 11.
            "trust_weighted",
            {"weights": {"files": 0.3}, "default_weight": 1.0},
            [f"weight 0.3: round {n}" for n in (4, 7, 10, 14, 17)],
        ),
        ("trust_weighted", {"weights": {}, "default_weight": 0.0}, ["weight 0: after all others"] * 5),
        ("reciprocal_rank_fusion", {"k": 60}, [f"files #{n}" for n in range(1, 6)]),
        ("score_descending", {}, ["raw score"] * 5),
        ("a_plugin_of_tomorrow", {}, ["as the policy says"] * 5),
    ],
)
def test_reasons(compose_by_hand, strategy, params, reasons):
    assert _reasons(compose_by_hand(LANE, strategy=strategy, params=params)) == reasons


def test_fused_evidence_names_every_lane_that_holds_it(compose_by_hand):
    copy = AuditRow(
        provider="symbols",
        frame_id="s",
        content_digest="",
        included=False,
        reason="DUPLICATE",
        lane_place=3,
        duplicate_of=FrameRef("files", "files-1"),
    )
    composition = compose_by_hand(["files"], strategy="reciprocal_rank_fusion", params={"k": 60}, extra_rows=[copy])
    assert _reasons(composition) == ["files #1 + symbols #3"]


def test_a_precomputed_order_tells_named_frames_from_the_rest(compose_by_hand):
    params = {"name": "mine", "ids": 4, "named": 2}
    composition = compose_by_hand(LANE[:3], strategy="precomputed", params=params)
    assert _reasons(composition) == ["named", "named", "not named: round robin"]


def test_what_a_reranker_moved_says_from_where_and_the_rest_what_the_policy_says(compose_by_hand):
    composition = compose_by_hand(LANE[:3], strategy="precomputed", params={"name": "mine", "ids": 4, "named": 1})
    record = RerankRecord(
        name="lexical",
        version="",
        candidates=2,
        scored=1,
        unscored=1,
        top_n=None,
        min_score=None,
        outcome=RerankOutcome.APPLIED,
    )
    moves = ((2, "12.345678"), (1, ""), (3, ""))
    rows = [replace(row, prior_rank=p, rerank_score=s) for row, (p, s) in zip(composition.audit, moves, strict=True)]
    summary = replace(composition.summary, rerank=record)
    moved = replace(composition, audit=tuple(rows), summary=summary)
    assert _reasons(moved) == ["reranked 12.35, was 2", "reranked no score, was 1", "not named: round robin"]


def test_scores_are_shown_with_their_scale_and_only_where_they_were_asked_for(compose_by_hand):
    first = compose_by_hand(["files"], strategy="score_descending", scores=True)
    assert _reasons(first) == ["bm25 -(0.1235)"]
    assert _reasons(compose_by_hand(["symbols"], strategy="score_descending", scores=True)) == ["unit 0.1235"]
    row = first.audit[0]
    assert shown_score(replace(row, score=None)) == ""
    assert shown_score(replace(row, score=AuditScore("files", "bm25", "NaN"))) == "bm25 nan"


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_two_numbers_that_differ_look_different(one, other):
    texts = numbers_apart(one, other)
    assert (texts[0] == texts[1]) == (one == other)


def test_numbers_are_as_short_as_they_may_be():
    assert numbers_apart(0.5, 0.59999999999999998) == ("0.5", "0.6")
    assert numbers_apart(0.599999, 0.6) == ("0.599999", "0.6")
