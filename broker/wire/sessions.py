"""The messages of a provider's session as the events of :mod:`broker.wire.events`, and back, for both ends.

What a provider sends is read so that nothing but a broken Hello ends the session: bytes that do not parse become
:class:`~broker.wire.events.Malformed`, and frames stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from contextbroker.v1 import provider_service_pb2 as pb
from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from broker.errors import FieldViolation, InvalidArgument
from broker.wire import schema
from broker.wire.batches import batch_query_id, malformed
from broker.wire.envelopes import BATCH, HELLO, LANE_END, MAX_HELLO_BYTES, sole_part
from broker.wire.events import (
    Ask,
    Batch,
    Cancel,
    Detached,
    Draining,
    Hello,
    Inbound,
    LaneEnded,
    Malformed,
    Outbound,
    Query,
    Rejection,
    Violation,
    Welcome,
)
from broker.wire.frames import kind_name, kind_number, read_scale, scale_message, unknown_value

MAX_NAME_BYTES = 128
"""Bytes of a query's name."""

DEFAULT_IN_FLIGHT = 64
"""Queries that a provider takes at once where its Hello says nothing."""

_UINT32 = 2**32 - 1

_LANE_ENDS = frozenset(pb.LaneEndStatus.values())

Check = Callable[[Message], Sequence[FieldViolation]]
"""Holds a parsed message against the constraints of its schema."""


class Limits(Struct, frozen=True, gc=False):
    """What a broker takes from a provider, as its Welcome says.

    Attributes:
        max_message_bytes: Bytes of one message.
        max_batch_frames: Frames in one batch.
        max_frame_bytes: Bytes of one encoded frame; a larger one is dropped alone.
    """

    max_message_bytes: int = 1024 * 1024
    max_batch_frames: int = 4096
    max_frame_bytes: int = 192 * 1024


DEFAULT_LIMITS = Limits()
"""What a broker takes where nothing else is said."""


def read_attach_request(data: bytes, check: Check = lambda _: ()) -> Inbound:
    """What a provider said.

    Args:
        data: A serialized ``AttachRequest``.
        check: Constraints that a Hello or a LaneEnd must meet.

    Raises:
        InvalidArgument: It is a Hello that cannot be read or breaks a constraint: no session can come of it.
    """
    try:
        tag, message = sole_part(data)
    except InvalidArgument as error:
        return _malformed(error)
    if tag == BATCH:
        return _read_batch(message)
    if tag == LANE_END:
        return _read_lane_end(message, check)
    if tag == HELLO:
        return _read_hello(message, check)
    return Detached()


def attach_request(event: Hello | Batch | LaneEnded | Detached) -> bytes:
    """A serialized ``AttachRequest``; the inverse of :func:`read_attach_request`.

    Raises:
        InvalidArgument: A kind is not known.
        ValueError: A text has a lone surrogate, or ``max_in_flight`` is not an unsigned number of 32 bits.
    """
    match event:
        case Hello():
            hello = pb.Hello(
                provider_id=event.provider,
                instance_id=event.instance,
                version=event.version,
                kinds=[kind_number(kind, "kinds") for kind in event.kinds],
                scale=scale_message(event.scale),
                max_in_flight=event.max_in_flight,
            )
            return pb.AttachRequest(hello=hello).SerializeToString()
        case Batch():
            data: bytes = schema.AttachRequest(frame_batch=[event.data]).SerializeToString()
            return data
        case LaneEnded():
            status = pb.LANE_END_STATUS_FAILED if event.failed else pb.LANE_END_STATUS_COMPLETE
            end = pb.LaneEnd(query_id=event.query_id, status=status, message=event.message)
            return pb.AttachRequest(lane_end=end).SerializeToString()
        case Detached():
            return pb.AttachRequest(detach=pb.Detach()).SerializeToString()


def attach_response(event: Outbound, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """A serialized ``AttachResponse``; the inverse of :func:`read_attach_response`.

    Args:
        event: What the broker says.
        limits: What a Welcome tells of the broker.
    """
    match event:
        case Ask():
            query = event.query
            own = pb.Query(
                query_id=event.query_id,
                max_frames=query.max_frames,
                max_tokens=query.max_tokens,
                remaining_ms=max(0, min(event.remaining_ms, _UINT32)),
                traceparent=query.traceparent,
            ).SerializeToString()
            # The fields of one message may stand in any order.
            shared = _shared(query.goal, query.query_text, query.kinds, query.anchors, query.as_of)
            data: bytes = schema.AttachResponse(query=(shared + own,)).SerializeToString()
            return data
        case Welcome():
            told = pb.Limits(
                max_message_bytes=limits.max_message_bytes,
                max_batch_frames=limits.max_batch_frames,
                max_frame_bytes=limits.max_frame_bytes,
            )
            response = pb.AttachResponse(welcome=pb.Welcome(session_id=event.session_id, limits=told))
        case Cancel():
            response = pb.AttachResponse(cancel_query=pb.CancelQuery(query_id=event.query_id))
        case Rejection():
            violations = [
                pb.Violation(reason=v.reason, message=v.message, frame_id=v.frame_id) for v in event.violations
            ]
            response = pb.AttachResponse(rejected=pb.Rejected(query_id=event.query_id, violations=violations))
        case Draining():
            response = pb.AttachResponse(drain=pb.Drain(remaining_ms=max(0, min(event.remaining_ms, _UINT32))))
    return response.SerializeToString()


def read_attach_response(data: bytes) -> Outbound | None:
    """What the broker said; None for a kind of message that this version does not know.

    Raises:
        InvalidArgument: The bytes are not an ``AttachResponse`` (``MALFORMED``).
    """
    message = _response(data)
    match message.WhichOneof("message"):
        case "welcome":
            return Welcome(message.welcome.session_id)
        case "query":
            query = message.query
            return Ask(
                query.query_id,
                Query(
                    goal=query.goal,
                    query_text=query.query_text,
                    kinds=tuple(map(kind_name, query.kinds)),
                    anchors=tuple(query.anchors),
                    max_frames=query.max_frames,
                    max_tokens=query.max_tokens,
                    as_of=query.as_of,
                    traceparent=query.traceparent,
                ),
                query.remaining_ms,
            )
        case "cancel_query":
            return Cancel(message.cancel_query.query_id)
        case "rejected":
            violations = tuple(Violation(v.reason, v.message, v.frame_id) for v in message.rejected.violations)
            return Rejection(message.rejected.query_id, violations)
        case "drain":
            return Draining(message.drain.remaining_ms)
        case _:
            return None


def read_limits(data: bytes) -> Limits:
    """The limits that a serialized ``AttachResponse`` with a Welcome tells; defaults where it tells none.

    Raises:
        InvalidArgument: As for :func:`read_attach_response`.
    """
    told, default = _response(data).welcome.limits, DEFAULT_LIMITS
    return Limits(
        told.max_message_bytes or default.max_message_bytes,
        told.max_batch_frames or default.max_batch_frames,
        told.max_frame_bytes or default.max_frame_bytes,
    )


@lru_cache(maxsize=4)
def _shared(goal: str, query_text: str, kinds: tuple[str, ...], anchors: tuple[str, ...], as_of: str) -> bytes:
    """What a ``Query`` says to every provider of a request: encoded for the first of them."""
    numbers = [kind_number(kind, "kinds") for kind in kinds]
    return pb.Query(goal=goal, query_text=query_text, kinds=numbers, anchors=anchors, as_of=as_of).SerializeToString()


def _response(data: bytes) -> pb.AttachResponse:
    try:
        return pb.AttachResponse.FromString(data)
    except DecodeError:
        raise malformed("AttachResponse") from None


def _read_hello(data: bytes, check: Check) -> Hello:
    if len(data) > MAX_HELLO_BYTES:
        raise InvalidArgument("MALFORMED", f"a Hello has at most {MAX_HELLO_BYTES} bytes, and this one has {len(data)}")
    try:
        message = pb.Hello.FromString(data)
    except DecodeError:
        raise malformed("Hello") from None
    if violations := check(message):
        raise InvalidArgument.of(violations)
    scale = read_scale(message.scale if message.HasField("scale") else None)
    return Hello(
        message.provider_id,
        message.instance_id,
        message.version,
        tuple(map(kind_name, message.kinds)),
        scale,
        message.max_in_flight or DEFAULT_IN_FLIGHT,
    )


def _read_batch(data: bytes) -> Batch | Malformed:
    try:
        query_id = batch_query_id(data)
    except InvalidArgument as error:
        return _malformed(error, _first_text(data))
    if not 1 <= len(query_id.encode()) <= MAX_NAME_BYTES:
        return Malformed("QUERY_ID", f"query_id must have 1 to {MAX_NAME_BYTES} bytes; repeat the one of the query")
    return Batch(query_id, data)


def _read_lane_end(data: bytes, check: Check) -> LaneEnded | Malformed:
    try:
        message = pb.LaneEnd.FromString(data)
    except DecodeError:
        return _malformed(malformed("LaneEnd"), _first_text(data))
    if violations := check(message):
        return _malformed(InvalidArgument.of(violations), message.query_id)
    if message.status not in _LANE_ENDS:
        return _malformed(InvalidArgument.of([unknown_value("status", message.status)]), message.query_id)
    return LaneEnded(message.query_id, message.status == pb.LANE_END_STATUS_FAILED, message.message)


def _malformed(error: InvalidArgument, query_id: str = "") -> Malformed:
    return Malformed(error.reason, error.message, query_id)


def _first_text(data: bytes) -> str:
    """Field 1 of a message that does not parse, where it stands first, is short, and is text; else empty."""
    if len(data) < 2 or data[0] != 0x0A or data[1] > MAX_NAME_BYTES - 1:
        return ""
    text = data[2 : 2 + data[1]]
    return text.decode(errors="ignore") if len(text) == data[1] else ""
