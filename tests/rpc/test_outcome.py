"""Lanes that are no answer fail the request, each with its reason; all others do not."""

from __future__ import annotations

import pytest

from broker.core.lanes import Candidate, Lane, LaneEnd, Lie
from broker.core.request import PartialLanes
from broker.core.scores import UNIT
from broker.errors import FailedPrecondition, Unavailable
from broker.rpc.outcome import RETRY_AFTER, ending, failure, no_lanes
from tests.rpc.peers import frames

KEEP, DROP = PartialLanes.KEEP, PartialLanes.DROP
(FRAME,) = frames(("x", 0.5))
CANDIDATE = Candidate("a", FRAME, "sha256:0", None, 0, 1)


def lane(
    end: LaneEnd, *, held: bool = False, name: str = "a", message: str = "", retry_after: float | None = None
) -> Lane:
    lie = Lie("COST_MISMATCH", "declared 9, computed 4", "f1") if end is LaneEnd.REFUSED else None
    return Lane(name, UNIT, end, message, (CANDIDATE,) if held else (), (), lie, retry_after)


@pytest.mark.parametrize("end", list(LaneEnd))
@pytest.mark.parametrize("partial", [KEEP, DROP])
@pytest.mark.parametrize("held", [True, False])
def test_a_request_fails_where_no_lane_has_anything_to_give(end: LaneEnd, partial: PartialLanes, held: bool) -> None:
    usable = end in (LaneEnd.COMPLETE, LaneEnd.EMPTY) or (
        held and partial is KEEP and end in (LaneEnd.PARTIAL, LaneEnd.FAILED, LaneEnd.LOST)
    )
    found = failure([lane(end, held=held)], (), partial)
    if usable:
        assert found is None
    else:
        assert isinstance(found, Unavailable)
        assert found.reason == "ALL_LANES_FAILED"
        assert f"a: {end.value}" in found.message
    assert failure([lane(end, held=held), lane(LaneEnd.EMPTY, name="b")], (), partial) is None


@pytest.mark.parametrize("end", list(LaneEnd))
@pytest.mark.parametrize("partial", [KEEP, DROP])
def test_a_required_provider_must_answer(end: LaneEnd, partial: PartialLanes) -> None:
    satisfied = end in (LaneEnd.COMPLETE, LaneEnd.EMPTY) or (end is LaneEnd.PARTIAL and partial is KEEP)
    others = [lane(LaneEnd.COMPLETE, name="b", held=True)]
    found = failure([lane(end, held=True, message="why"), *others], ("b", "a"), partial)
    if satisfied:
        assert found is None
    else:
        assert isinstance(found, FailedPrecondition)
        assert [violation.field for violation in found.violations] == ["required_providers[1]"]
        assert ("COST_MISMATCH" if end is LaneEnd.REFUSED else "why") in found.message


def test_every_missing_required_provider_is_named() -> None:
    found = failure([lane(LaneEnd.COMPLETE)], ("x", "a", "y"), KEEP)
    assert isinstance(found, FailedPrecondition)
    assert [violation.field for violation in found.violations] == ["required_providers[0]", "required_providers[2]"]
    assert "x: not asked" in found.message
    assert "y: not asked" in found.message


def test_no_lane_at_all_is_unavailable() -> None:
    found = failure([], (), KEEP)
    assert isinstance(found, Unavailable)
    assert found.reason == "NO_PROVIDERS"


SITS_OUT = lane(LaneEnd.QUARANTINED, name="q", retry_after=42.0)


@pytest.mark.parametrize(
    ("lanes", "seconds"),
    [
        ([lane(LaneEnd.TIMED_OUT)], RETRY_AFTER),
        ([lane(LaneEnd.LOST)], RETRY_AFTER),
        ([lane(LaneEnd.PARTIAL, held=True)], RETRY_AFTER),
        ([lane(LaneEnd.FAILED, retry_after=1.0)], 1.0),
        ([lane(LaneEnd.FAILED, message="KeyError")], None),
        ([lane(LaneEnd.ABSENT)], None),
        ([SITS_OUT], 42.0),
        ([lane(LaneEnd.REFUSED, retry_after=60.0), SITS_OUT], 42.0),
        ([SITS_OUT, lane(LaneEnd.ABSENT)], 42.0),
        ([SITS_OUT, lane(LaneEnd.TIMED_OUT)], RETRY_AFTER),
    ],
)
def test_trying_again_is_advised_only_where_waiting_can_help(lanes: list[Lane], seconds: float | None) -> None:
    found = failure(lanes, (), DROP)
    assert isinstance(found, Unavailable)
    assert found.retry_after == seconds


@pytest.mark.parametrize("declined", [True, False])
def test_a_request_without_lanes_is_told_what_it_lacks_and_not_to_wait(declined: bool) -> None:
    found = no_lanes(declined=declined)
    assert found.retry_after is None
    assert ("no_providers" in found.message) is declined
    assert ("attach one" in found.message) is not declined


def test_a_lie_is_told_with_the_frame_and_the_numbers() -> None:
    found = failure([lane(LaneEnd.REFUSED)], (), KEEP)
    assert found is not None
    assert "a: REFUSED (COST_MISMATCH: declared 9, computed 4 (frame 'f1'))" in found.message


@pytest.mark.parametrize("end", list(LaneEnd))
def test_a_log_never_holds_a_providers_own_words(end: LaneEnd) -> None:
    told = ending(lane(end, message="words" if end is LaneEnd.FAILED else "ours"))
    assert told.startswith(end.value)
    assert "words" not in told
    assert ("COST_MISMATCH" in told) is (end is LaneEnd.REFUSED)
    assert "f1" not in told


def test_a_log_says_that_a_provider_had_no_room() -> None:
    assert ending(lane(LaneEnd.FAILED, message="at its limit", retry_after=1.0)) == "FAILED (at its limit)"
