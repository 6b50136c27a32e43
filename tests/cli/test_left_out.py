"""Whatever was left out is counted by reason and provider, and listed with its particulars."""

from __future__ import annotations

import re

from broker.cli.left_out import left_out_lines
from broker.cli.output import Style
from broker.core.composition import AuditRow, LaneSummary
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
