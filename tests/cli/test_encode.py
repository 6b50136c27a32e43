"""Every record is one line of JSON with stable names, and holds a score only in an audit row that was asked for."""

from __future__ import annotations

import json

from msgspec.structs import replace

from broker.cli.encode import composition_records, frame_record, moment, placed_record, scale_record
from broker.core.audited import RerankOutcome, RerankRecord
from broker.core.frames import Frame, Provenance
from broker.core.scores import Direction, ScoreScale

PLACED = {"event", "position", "total", "rank", "provider", "local_rank", "cost", "citation_label", "vouchers", "frame"}
PLACED |= {"rendered"}
AUDIT = {"event", "provider", "frame_id", "content_digest", "fate", "reason", "detail", "lane_place", "local_rank"}
AUDIT |= {"rank", "position", "cost", "remaining", "duplicate_of", "conflicts", "escaped_characters"}
AUDIT |= {"neutralised_fences", "role_tokens", "tokens", "admitted", "recorded_at"}
COMPLETED = {
    "event",
    "composition_id",
    "request_id",
    "strategy",
    "placement",
    "duplicates",
    "budget",
    "lanes",
    "floors",
}
COMPLETED |= {"rows", "reasons", "rerank", "usage", "citations", "preamble", "closing", "separator", "render"}
COMPLETED |= {"audit_state", "placement_asked", "fold_min_tokens", "limits", "limit_conflicts"}


def test_records_come_placed_then_audit_then_completed_with_stable_names(compose_by_hand):
    records = list(composition_records(compose_by_hand(left_out=["files"])))
    assert [r["event"] for r in records] == ["placed"] * 7 + ["audit"] * 8 + ["completed"]
    assert {r["event"]: set(r) for r in records} == {"placed": PLACED, "audit": AUDIT, "completed": COMPLETED}


def test_every_record_is_strict_json(compose_by_hand):
    for record in composition_records(compose_by_hand(scores=True)):
        assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_parts_of_the_prompt_join_to_it(compose_by_hand):
    composition = compose_by_hand()
    records = list(composition_records(composition))
    blocks = [r["rendered"] for r in records if r["event"] == "placed"]
    end = records[-1]
    assert end["preamble"] + end["separator"].join(blocks) + end["closing"] == composition.prompt


def test_scores_stand_in_audit_rows_alone_and_with_their_scale(compose_by_hand):
    records = list(composition_records(compose_by_hand(scores=True)))
    assert {r["event"] for r in records if "0.123456789012345" in json.dumps(r)} == {"audit"}
    assert records[7]["score"] == {"provider": "files", "scale": "bm25", "value": "0.123456789012345", "floor": ""}
    assert not any("score" in r for r in composition_records(compose_by_hand()))


def test_a_frame_that_still_carries_a_score_is_written_without_it(compose_by_hand):
    frame = Frame("a", "title", "content", score=0.7, provenance=(Provenance("file", "file:///a", "L1-2"),))
    record = frame_record(frame)
    assert "score" not in record
    assert record["provenance"][0]["range"] == "L1-2"
    assert "score" not in placed_record(compose_by_hand().placed[0])["frame"]


def test_a_rerank_stands_in_the_rows_that_it_moved_and_in_the_summary(compose_by_hand):
    composition = compose_by_hand()
    record = RerankRecord(
        name="lexical",
        version="1",
        candidates=50,
        scored=6,
        unscored=1,
        top_n=3,
        min_score=None,
        outcome=RerankOutcome.APPLIED,
    )
    moved = replace(composition.audit[0], prior_rank=2, rerank_score="0.5")
    composition = replace(
        composition,
        audit=(moved, *composition.audit[1:]),
        summary=replace(composition.summary, rerank=record),
    )
    records = list(composition_records(composition))
    rows = [r for r in records if r["event"] == "audit"]
    assert (rows[0]["prior_rank"], rows[0]["rerank_score"]) == (2, "0.5")
    assert not any("prior_rank" in row or "rerank_score" in row for row in rows[1:])
    told = {"scored": 6, "unscored": 1, "top_n": 3, "min_score": None, "outcome": "APPLIED", "message": ""}
    assert records[-1]["rerank"] == {"name": "lexical", "version": "1", "candidates": 50, **told}
    assert json.loads(json.dumps(records[-1], allow_nan=False)) == records[-1]


def test_infinite_ends_are_words():
    scale = scale_record(ScoreScale("bm25", float("-inf"), 0.0, Direction.LOWER_IS_BETTER))
    assert scale == {"id": "bm25", "min": "-Infinity", "max": 0.0, "direction": "lower_is_better"}
    assert scale_record(None) is None


def test_moments_are_utc():
    assert (moment(0.0), moment(None)) == ("1970-01-01T00:00:00Z", None)
