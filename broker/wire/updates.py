"""What a caller hears while a request is collected: the lanes opened, and how they fare. Values, both directions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from msgspec import Struct

from broker.core.lanes import LaneEnd, LaneUpdate


class LaneSource(StrEnum):
    """Where a lane's frames come from."""

    ATTACHED = "ATTACHED"
    """An attached provider that was asked."""
    PUSHED = "PUSHED"
    """A provider that pushes."""
    INLINE = "INLINE"
    """The request itself."""


class OpenedLane(Struct, frozen=True, gc=False):
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


class Accepted(Struct, frozen=True, gc=False):
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
    return _STATES[end]


def read_lane_state(number: int) -> LaneEnd | None:
    """The end that a number stands for; None for every other number."""
    return _ENDS.get(number)


_ENDS = {int(composition_pb2.LaneState.Value(f"LANE_STATE_{end.value}")): end for end in LaneEnd}
_STATES: dict[LaneEnd | None, composition_pb2.LaneState.ValueType] = {
    None: composition_pb2.LANE_STATE_COLLECTING,
    **{end: composition_pb2.LaneState.ValueType(number) for number, end in _ENDS.items()},
}


def accepted_message(accepted: Accepted) -> pb.ComposeResponse:
    """The first message of an answer."""
    lanes = [
        pb.OpenedLane(
            provider_id=lane.provider,
            source=_SOURCE_NUMBERS[lane.source],
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


_SOURCE_NUMBERS = {source: pb.LaneSource.Value(f"LANE_SOURCE_{source.value}") for source in LaneSource}
_SOURCES = {int(number): source for source, number in _SOURCE_NUMBERS.items()}


def lane_updates_message(updates: Iterable[LaneUpdate]) -> pb.ComposeResponse:
    """A message while collecting: each lane at most once."""
    message = pb.LaneUpdates(
        updates=[
            pb.LaneUpdate(
                provider_id=update.provider, state=_STATES[update.end], frames=update.frames, message=update.message
            )
            for update in updates
        ]
    )
    return pb.ComposeResponse(lane_updates=message)


def read_lane_updates(message: pb.LaneUpdates) -> tuple[LaneUpdate, ...]:
    """The inverse of :func:`lane_updates_message`."""
    return tuple(
        LaneUpdate(update.provider_id, _ENDS.get(update.state), update.frames, update.message)
        for update in message.updates
    )
