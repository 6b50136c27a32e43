"""The caller's own evidence is checked like a provider's, and a lie in it refuses the request."""

from __future__ import annotations

import math

import pytest

from broker.core.frames import Frame
from broker.core.lanes import Grant, LaneEnd
from broker.core.scores import UNIT
from broker.errors import InvalidArgument
from broker.gather.inline import inline_lane

GRANT = Grant(10, 100)


def frames(*scores):
    return [Frame(f"f{number}", "t", f"c{number}", score) for number, score in enumerate(scores)]


def test_a_slip_drops_its_frame_alone():
    """H89."""
    lane = inline_lane("memory", UNIT, frames(0.9, math.nan, 0.4), GRANT, "inline_lanes[0]")
    assert lane.end is LaneEnd.COMPLETE
    assert [candidate.frame.id for candidate in lane.candidates] == ["f0", "f2"]
    assert [slip.reason for slip in lane.slips] == ["SCORE_NOT_FINITE"]


def test_a_lie_refuses_the_request_with_its_path():
    """H90."""
    lie = Frame("f", "t", "c", 0.5, content_digest="sha256:" + "0" * 64)
    with pytest.raises(InvalidArgument) as caught:
        inline_lane("memory", UNIT, [lie], GRANT, "inline_lanes[2]")
    assert caught.value.reason == "DIGEST_MISMATCH"
    assert caught.value.violations[0].field == "inline_lanes[2].frames"


def test_none_at_all_is_an_empty_lane():
    assert inline_lane("memory", UNIT, [], GRANT, "inline_lanes[0]").end is LaneEnd.EMPTY
