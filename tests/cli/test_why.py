"""Each policy's reason for a rank is the comparison that the policy really makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.cli.why import Reasons, shown_score
from broker.core.composition import AuditRow, AuditScore
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


def test_scores_are_shown_with_their_scale_and_only_where_they_were_asked_for(compose_by_hand):
    first = compose_by_hand(["files"], strategy="score_descending", scores=True)
    assert _reasons(first) == ["bm25 0.1235"]
    row = first.audit[0]
    assert shown_score(replace(row, score=None)) == ""
    assert shown_score(replace(row, score=AuditScore("files", "bm25", "NaN"))) == "bm25 nan"
