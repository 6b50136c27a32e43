"""Whatever was left out is counted by reason and provider, and listed with its particulars."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from broker.cli.left_out import left_out_lines
from broker.cli.output import Style
from broker.core.audited import AuditRow, AuditScore, LaneSummary
from broker.core.frames import FrameRef
from broker.core.lanes import LaneEnd


def _row(**values):
    return AuditRow(content_digest="", included=False, **{"provider": "files", "frame_id": "x", **values})


def test_reasons_are_counted_by_provider(compose_by_hand):
    rows = [_row(frame_id="d", reason="DUPLICATE", duplicate_of=FrameRef("symbols", "s")), _row(reason="INVALID")]
    composition = compose_by_hand(left_out=["files", "files", "history"], extra_rows=rows)
    text = "\n".join(left_out_lines(composition, Style()))
    assert re.search(r"OVER_BUDGET +3  files 2, history 1 +cost more than was left of the budget", text)
    assert re.search(r"DUPLICATE +1  files 1", text)
    assert "costs 100, 7 were left" in text
    assert "of symbols s" in text


def test_what_a_reranker_left_out_has_its_score_or_the_reason_why_it_has_none(compose_by_hand):
    rows = [
        _row(frame_id="low", reason="BELOW_RERANK_SCORE", rank=8, prior_rank=2, rerank_score="0.10000000000000001"),
        _row(
            frame_id="late", reason="RERANK_TRIMMED", rank=9, prior_rank=9, detail="not among the 2 that it was given"
        ),
    ]
    text = "\n".join(left_out_lines(compose_by_hand(extra_rows=rows), Style()))
    assert re.search(r"BELOW_RERANK_SCORE +1  files 1 +below the least score asked of the reranker", text)
    assert re.search(r"RERANK_TRIMMED +1  files 1 +not among those that the reranker was to keep", text)
    assert "reranked 0.1, was rank 2" in text
    assert "not among the 2 that it was given" in text


def test_the_rest_is_counted_and_all_of_it_can_be_had(compose_by_hand):
    composition = compose_by_hand(left_out=["files"] * 20)
    some = list(left_out_lines(composition, Style(), rows=5))
    assert some[-1] == "  … and 15 more frames (query --all lists every one)"
    every = list(left_out_lines(composition, Style(), rows=None))
    assert sum("costs 100" in line for line in every) == 20


def test_a_lane_that_gave_nothing_is_named(compose_by_hand):
    lanes = [LaneSummary(provider="late", end=LaneEnd.TIMED_OUT), LaneSummary(provider="gone", end=LaneEnd.ABSENT)]
    text = "\n".join(left_out_lines(compose_by_hand(extra_lanes=lanes), Style()))
    assert "late: sent nothing in time" in text
    assert "gone: is not attached and was not asked" in text


def test_nothing_left_out_is_said(compose_by_hand):
    assert list(left_out_lines(compose_by_hand(), Style())) == ["  no frame that was offered was left out"]


def test_a_frame_without_an_id_and_a_hostile_id_are_shown(compose_by_hand):
    rows = [
        _row(frame_id="", reason="INVALID", detail="ID_EMPTY: give it one"),
        _row(frame_id="a\x1bb", reason="INVALID", detail="TITLE_EMPTY"),
    ]
    text = "\n".join(left_out_lines(compose_by_hand(extra_rows=rows), Style()))
    assert "(no id)" in text
    assert "ID_EMPTY: give it one" in text
    assert "a⟦U+001B⟧b" in text


@pytest.mark.parametrize(
    ("score", "floor", "says"),
    [("0.5", "0.59999999999999998", "0.5, floor 0.6"), ("0.59999900000000002", "0.6", "0.599999, floor 0.6")],
)
def test_a_frame_below_its_floor_shows_both_numbers_where_scores_were_asked_for(compose_by_hand, score, floor, says):
    row = _row(reason="BELOW_FLOOR", detail="on scale 'bm25'", score=AuditScore("files", "bm25", score, floor))
    assert f"bm25 {says}" in "\n".join(left_out_lines(compose_by_hand(extra_rows=[row]), Style()))
    bare = replace(row, score=None)
    text = "\n".join(left_out_lines(compose_by_hand(extra_rows=[bare]), Style()))
    assert "on scale 'bm25'" in text
    assert "floor 0.6" not in text


def test_a_floor_on_another_scale_than_the_lane_is_told_as_that(compose_by_hand):
    detail = "the floor is on scale 'unit', the lane on 'bm25'"
    row = _row(reason="BELOW_FLOOR", detail=detail, score=AuditScore("files", "bm25", "0.5", "0.6"))
    assert detail in "\n".join(left_out_lines(compose_by_hand(extra_rows=[row]), Style()))
