"""Lanes that are no answer fail the request, each with its reason; all others do not."""

from __future__ import annotations

import pytest

from broker.core.lanes import Candidate, Lane, LaneEnd, Lie
from broker.core.request import PartialLanes
from broker.core.scores import UNIT
from broker.errors import FailedPrecondition, Unavailable
from broker.rpc.outcome import failure
from tests.rpc.peers import frames

KEEP, DROP = PartialLanes.KEEP, PartialLanes.DROP
(FRAME,) = frames(("x", 0.5))
CANDIDATE = Candidate("a", FRAME, "sha256:0", None, 0, 1)


def lane(end: LaneEnd, *, held: bool = False, name: str = "a", message: str = "") -> Lane:
    lie = Lie("COST_MISMATCH", "detail") if end is LaneEnd.REFUSED else None
    return Lane(name, UNIT, end, message, (CANDIDATE,) if held else (), (), lie)


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
