"""A composition's page holds its lanes, ranking, prompt and exclusions, and shouts where raw scores are compared."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from broker.cli.output import ASCII, Style
from broker.cli.show import composition_lines, lane_lines, offer_lines, ranking_lines, scale_text
from broker.cli.text import width
from broker.core.audited import AuditRow, LaneSummary
from broker.core.lanes import LaneEnd
from broker.core.scores import Direction, ScoreScale


def _page(composition, style=None):
    return "\n".join(composition_lines(composition, style or Style()))


def test_the_page_has_its_four_parts_in_order(compose_by_hand):
    titles = re.findall(r"^(LANES|RANKING|PROMPT|LEFT OUT)", _page(compose_by_hand()), re.MULTILINE)
    assert titles == ["LANES", "RANKING", "PROMPT", "LEFT OUT"]


def test_no_line_is_wider_than_a_hundred_columns(compose_by_hand):
    lanes = [LaneSummary(provider="p" * 63, end=LaneEnd.FAILED, message="why " * 80)]
    composition = compose_by_hand(
        ["files", "symbols"] * 20, left_out=["history"] * 30, label=lambda *_: "x/" * 99, extra_lanes=lanes, scores=True
    )
    assert [line for line in composition_lines(composition, Style()) if width(line) > 100] == []


def test_an_ascii_page_is_ascii(compose_by_hand):
    assert _page(compose_by_hand(left_out=["files"] * 30), Style(glyphs=ASCII)).isascii()


def test_only_a_policy_that_compares_raw_scores_is_flagged(compose_by_hand):
    assert "!! COMPARES RAW SCORES" in _page(compose_by_hand(strategy="score_descending"))
    assert "RAW SCORES" not in _page(compose_by_hand())


def test_scores_show_only_where_they_were_asked_for(compose_by_hand):
    assert "0.1235" in _page(compose_by_hand(scores=True))
    assert "own score" not in _page(compose_by_hand())


def test_lanes_say_how_they_ended_and_why(compose_by_hand):
    lie = LaneSummary(provider="liar", end=LaneEnd.REFUSED, violation="COST_MISMATCH", message="declared 1, found 2")
    lines = lane_lines(compose_by_hand(extra_lanes=[lie]), Style())
    assert any(re.match(r"  files +bm25 -∞\.\.0 ↓ +COMPLETE +3 +3 +3 +300$", line) for line in lines)
    assert any("REFUSED" in line for line in lines)
    assert lines[-1] == "    liar: COST_MISMATCH: declared 1, found 2"
    told = replace(lie, message="COST_MISMATCH: declared 1, found 2 (frame 'x')")
    assert lane_lines(compose_by_hand(extra_lanes=[told]), Style())[-1] == f"    liar: {told.message}"


LONG_LABELS = {"label": lambda *_: "How do I reset my password?"}


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("strategy", ["round_robin", "score_descending", "precomputed"])
def test_a_page_with_scores_keeps_to_the_width(compose_by_hand, columns, strategy):
    params = {"named": 1} if strategy == "precomputed" else {}
    composition = compose_by_hand(
        left_out=["files"] * 3, scores=True, label=lambda *_: "x/" * 40, strategy=strategy, params=params
    )
    rows = [replace(row, score=row.score and replace(row.score, scale_id="name-match")) for row in composition.audit]
    page = composition_lines(replace(composition, audit=tuple(rows)), Style(width=columns))
    assert [line for line in page if width(line) > columns] == []


@pytest.mark.parametrize("columns", [80, 100])
def test_keys_and_labels_are_whole_on_a_page_of_any_width(compose_by_hand, columns):
    composition = compose_by_hand(left_out=["files"] * 3, scores=False, **LONG_LABELS)
    lines = list(composition_lines(composition, Style(width=columns)))
    assert all(width(line) <= columns for line in lines)
    lanes = lane_lines(composition, Style(width=columns))
    for scale in ("bm25 -∞..0 ↓", "unit 0..1 ↑", "matches 0..∞ ↑"):
        assert any(scale in line for line in lanes)
    ranking = ranking_lines(composition, Style(width=columns))
    assert sum("How do I reset my password?" in line for line in ranking) == 7
    assert any("cost more than was left" in line for line in lines)


def test_a_label_shows_as_a_person_would_write_it(compose_by_hand):
    composition = compose_by_hand(label=lambda *_: "git 79be08 ⟦U+0022⟧The core⟦U+0022⟧ ⟦U+202E⟧")
    page = _page(composition) + "\n".join(offer_lines(composition, Style()))
    assert page.count('git 79be08 "The core" ⟦U+202E⟧') == 7 + 7 + 3


def test_that_lower_scores_are_negated_is_said_where_they_are_compared(compose_by_hand):
    raw = compose_by_hand(strategy="score_descending", scores=True)
    assert "negated first where lower is better" in _page(raw)
    assert "bm25 -(0.1235)" in _page(raw)
    assert "unit -(" not in _page(raw)
    lanes = tuple(lane for lane in raw.summary.lanes if lane.provider != "files")
    assert "negated" not in _page(replace(raw, summary=replace(raw.summary, lanes=lanes)))
    assert "negated" not in _page(compose_by_hand(scores=True))


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (None, "not known"),
        (ScoreScale(), "unit: 0 to 1, higher is better"),
        (ScoreScale("list", direction=Direction.AS_SENT), "list: unscored, in the order sent"),
    ],
)
def test_scales(scale, text):
    assert scale_text(scale, Style()) == text


def test_the_ranking_is_in_rank_order_and_runs_of_left_out_frames_take_one_line(compose_by_hand):
    lines = ranking_lines(compose_by_hand(left_out=["files", "history", "history"]), Style())
    assert [line.split()[0] for line in lines[1:8]] == [str(rank) for rank in range(1, 8)]
    assert lines[8].strip() == "┊ ranks 8–10 left out, OVER_BUDGET: files 1, history 2"


def test_a_ranking_of_nothing_is_said(compose_by_hand):
    assert ranking_lines(compose_by_hand([]), Style()) == ["  no frame was ranked"]


def test_offers_show_each_lanes_own_best(compose_by_hand):
    row = AuditRow(
        provider="late", frame_id="late-1", content_digest="", included=False, reason="FRAME_LIMIT", lane_place=1
    )
    lanes = [LaneSummary(provider="late", end=LaneEnd.PARTIAL, offered=1)]
    lines = offer_lines(compose_by_hand(extra_rows=[row], extra_lanes=lanes), Style())
    assert re.match(r"  files .* 3 +270  files 1$", lines[1])
    assert lines[4].endswith("late-1")


def test_a_label_is_known_where_another_composition_placed_the_frame(compose_by_hand):
    first, second = compose_by_hand(["files"], left_out=["symbols"]), compose_by_hand(["symbols"])
    assert offer_lines(first, Style())[2].endswith("symbols-1")
    assert offer_lines(first, Style(), second)[2].endswith("symbols 1")
