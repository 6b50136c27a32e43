"""When gathered lanes are no answer: the rules by which a request fails although the broker did its part."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.lanes import Lane, LaneEnd
from broker.core.request import PartialLanes
from broker.errors import BrokerError, FailedPrecondition, FieldViolation, Unavailable

RETRY_AFTER = 1.0
"""Seconds after which providers may be back."""


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
        return Unavailable("ALL_LANES_FAILED", f"no provider answered: {text}", retry_after=RETRY_AFTER)
    return None


def no_lanes() -> BrokerError:
    """The failure of a request that has no lane at all."""
    return Unavailable(
        "NO_PROVIDERS",
        "no provider is attached; attach one, or send inline lanes",
        retry_after=RETRY_AFTER,
    )


def _satisfies(lane: Lane | None, partial: PartialLanes) -> bool:
    if lane is None:
        return False
    return lane.end.answered or (lane.end is LaneEnd.PARTIAL and partial is PartialLanes.KEEP)


def _usable(lane: Lane, partial: PartialLanes) -> bool:
    return lane.end.cut_short and partial is PartialLanes.KEEP and bool(lane.candidates)


def _ended(lane: Lane | None) -> str:
    if lane is None:
        return "not asked"
    words = lane.lie.reason if lane.lie is not None else lane.message
    return f"{lane.end.value} ({words})" if words else lane.end.value
