"""What a caller hears while a request is collected: the lanes opened, and how they fare. Values, both directions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb

from broker.core.lanes import LaneEnd, LaneUpdate


class LaneSource(Enum):
    """Where a lane's frames come from."""

    ATTACHED = "ATTACHED"
    """An attached provider that was asked."""
    PUSHED = "PUSHED"
    """A provider that pushes."""
    INLINE = "INLINE"
    """The request itself."""


@dataclass(frozen=True, slots=True)
class OpenedLane:
    """A lane as it was opened.

    Attributes:
        provider: Its name.
        source: Where its frames come from.
        max_frames: Frames granted.
        max_tokens: Tokens of content granted.
    """

    provider: str
    source: LaneSource
    max_frames: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request was taken.

    Attributes:
        composition_id: The broker's name for the composition.
        request_id: The request's name, the caller's or one that the broker made.
        lanes: The lanes opened, in lane order.
    """

    composition_id: str
    request_id: str
    lanes: tuple[OpenedLane, ...]


def lane_state(end: LaneEnd | None) -> composition_pb2.LaneState.ValueType:
    """The number of a lane's end; of None, that it collects."""
    return composition_pb2.LaneState.Value(f"LANE_STATE_{end.value if end is not None else 'COLLECTING'}")


def read_lane_state(number: int) -> LaneEnd | None:
    """The end that a number stands for; None for every other number."""
    return _ENDS.get(number)


_ENDS = {int(lane_state(end)): end for end in LaneEnd}


def accepted_message(accepted: Accepted) -> pb.ComposeResponse:
    """The first message of an answer."""
    lanes = [
        pb.OpenedLane(
            provider_id=lane.provider,
            source=pb.LaneSource.Value(f"LANE_SOURCE_{lane.source.value}"),
            max_frames=lane.max_frames,
            max_tokens=lane.max_tokens,
        )
        for lane in accepted.lanes
    ]
    message = pb.Accepted(composition_id=accepted.composition_id, request_id=accepted.request_id, lanes=lanes)
    return pb.ComposeResponse(accepted=message)


def read_accepted(message: pb.Accepted) -> Accepted:
    """The inverse of :func:`accepted_message`; a source that is not known reads as attached."""
    lanes = tuple(
        OpenedLane(lane.provider_id, _SOURCES.get(lane.source, LaneSource.ATTACHED), lane.max_frames, lane.max_tokens)
        for lane in message.lanes
    )
    return Accepted(message.composition_id, message.request_id, lanes)


_SOURCES = {int(pb.LaneSource.Value(f"LANE_SOURCE_{source.value}")): source for source in LaneSource}


def lane_update_message(update: LaneUpdate) -> pb.ComposeResponse:
    """A message while collecting."""
    return pb.ComposeResponse(
        lane_update=pb.LaneUpdate(
            provider_id=update.provider, state=lane_state(update.end), frames=update.frames, message=update.message
        )
    )


def read_lane_update(message: pb.LaneUpdate) -> LaneUpdate:
    """The inverse of :func:`lane_update_message`."""
    return LaneUpdate(message.provider_id, read_lane_state(message.state), message.frames, message.message)
