"""When gathered lanes are no answer: the rules by which a request fails although the broker did its part."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.lanes import Lane, LaneEnd
from broker.core.request import PartialLanes
from broker.errors import BrokerError, FailedPrecondition, FieldViolation, Unavailable

RETRY_AFTER = 1.0
"""Seconds after which a provider that was slow, or was lost, may answer."""

_PASSING = frozenset({LaneEnd.TIMED_OUT, LaneEnd.PARTIAL, LaneEnd.LOST})
"""Ends that say nothing of how the next question will fare."""


def failure(lanes: Sequence[Lane], required: Sequence[str], partial: PartialLanes) -> BrokerError | None:
    """Why these lanes are no answer; None: they are one.

    Args:
        lanes: Every lane of the request, ended.
        required: Providers without which there is no answer.
        partial: What becomes of lanes that were cut short.
    """
    by_name = {lane.provider: lane for lane in lanes}
    missing = [
        FieldViolation(f"required_providers[{index}]", "REQUIRED_PROVIDER", f"{name}: {_ended(by_name.get(name))}")
        for index, name in enumerate(required)
        if not _satisfies(by_name.get(name), partial)
    ]
    if missing:
        text = "; ".join(violation.message for violation in missing)
        return FailedPrecondition("REQUIRED_PROVIDER", f"required providers did not answer: {text}", violations=missing)
    if not lanes:
        return no_lanes()
    if not any(lane.end.answered or _usable(lane, partial) for lane in lanes):
        text = "; ".join(f"{lane.provider}: {_ended(lane)}" for lane in lanes)
        return Unavailable("ALL_LANES_FAILED", f"no provider answered: {text}", retry_after=_retry_after(lanes))
    return None


def no_lanes(*, declined: bool = False) -> BrokerError:
    """The failure of a request that has no lane at all.

    Args:
        declined: Whether the request itself says that no provider is to be asked.
    """
    if declined:
        text = "no_providers asks no attached provider, and needs inline_lanes or expect_pushes to compose from"
    else:
        text = "no provider is attached; attach one, or send inline lanes"
    return Unavailable("NO_PROVIDERS", text)


def ending(lane: Lane) -> str:
    """How a lane ended, for a log: never in a provider's own words, which may hold what was asked or found."""
    if lane.lie is not None:
        return f"{lane.end.value} ({lane.lie.reason})"
    # A provider that failed said why itself, unless it was not asked for want of room.
    own_words = lane.end is LaneEnd.FAILED and lane.retry_after is None
    return f"{lane.end.value} ({lane.message})" if lane.message and not own_words else lane.end.value


def _retry_after(lanes: Sequence[Lane]) -> float | None:
    """Seconds until the first of the lanes may end better; None: waiting is not known to help any."""
    waits = (RETRY_AFTER if lane.end in _PASSING else lane.retry_after for lane in lanes)
    return min((wait for wait in waits if wait is not None), default=None)


def _satisfies(lane: Lane | None, partial: PartialLanes) -> bool:
    if lane is None:
        return False
    return lane.end.answered or (lane.end is LaneEnd.PARTIAL and partial is PartialLanes.KEEP)


def _usable(lane: Lane, partial: PartialLanes) -> bool:
    return lane.end.cut_short and partial is PartialLanes.KEEP and bool(lane.candidates)


def _ended(lane: Lane | None) -> str:
    if lane is None:
        return "not asked"
    words = lane.lie.told if lane.lie is not None else lane.message
    return f"{lane.end.value} ({words})" if words else lane.end.value
