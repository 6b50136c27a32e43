"""The messages of a one-shot delivery, for both ends."""

from __future__ import annotations

from collections.abc import Iterable

from contextbroker.v1 import provider_service_pb2 as pb
from google.protobuf.message import DecodeError
from msgspec import Struct

from broker.core.scores import UNIT, ScoreScale
from broker.errors import InvalidArgument
from broker.wire import schema
from broker.wire.batches import counted, join_push, malformed, push_as_batch
from broker.wire.frames import read_scale, scale_message
from broker.wire.sessions import Check


class PushHeader(Struct, frozen=True, gc=False):
    """Whose frames a delivery holds, and for which request.

    Attributes:
        provider: The provider's name.
        request_id: The request's name.
        scale: Of the scores.
    """

    provider: str
    request_id: str
    scale: ScoreScale = UNIT


def push_header(header: PushHeader) -> bytes:
    """A serialized ``PushRequest`` with a header."""
    message = pb.PushHeader(
        provider_id=header.provider, request_id=header.request_id, scale=scale_message(header.scale)
    )
    return pb.PushRequest(header=message).SerializeToString()


def push_part(frames: Iterable[bytes]) -> bytes:
    """A serialized ``PushRequest`` with a batch of encoded frames."""
    data: bytes = schema.PushRequest(batch=[join_push(frames)]).SerializeToString()
    return data


def push_size(data: bytes, stop_at: int) -> int:
    """How many frames the batches of a serialized ``PushRequest`` hold, counted without taking any apart.

    Args:
        data: The request; one that does not parse holds none.
        stop_at: Frames beyond which no more are counted.
    """
    try:
        batches = schema.PushRequest.FromString(data).batch
    except DecodeError:
        return 0
    return sum(counted(batch, 1, stop_at) for batch in batches[:1])


def read_push_request(data: bytes, check: Check = lambda _: ()) -> PushHeader | bytes:
    """One part of a delivery.

    Args:
        data: A serialized ``PushRequest``.
        check: Constraints that a header must meet.

    Returns:
        The header, or a batch in the form of a serialized ``FrameBatch`` without a query.

    Raises:
        InvalidArgument: The bytes do not parse or hold another number of parts than one (``MALFORMED``); the header
            breaks a constraint.
    """
    try:
        twin = schema.PushRequest.FromString(data)
    except DecodeError:
        raise malformed("PushRequest") from None
    if len(twin.header) + len(twin.batch) != 1:
        held = len(twin.header) + len(twin.batch)
        raise InvalidArgument("MALFORMED", f"a PushRequest holds exactly one message, and this one holds {held}")
    if twin.batch:
        return push_as_batch(twin.batch[0])
    try:
        message = pb.PushHeader.FromString(twin.header[0])
    except DecodeError:
        raise malformed("PushHeader") from None
    if violations := check(message):
        raise InvalidArgument.of(violations)
    return PushHeader(
        message.provider_id, message.request_id, read_scale(message.scale if message.HasField("scale") else None)
    )
