"""Batches of frames as bytes: counted, cut apart and put together without parsing a frame.

Counting comes before parsing: a message of one mebibyte can hold half a million empty frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from broker.errors import InvalidArgument
from broker.wire import schema

MAX_BATCH_BYTES = 512 * 1024
"""Bytes that a batch is filled to: the fastest size, with room below what a broker refuses."""


def batch_query_id(data: bytes) -> str:
    """The query that a serialized ``FrameBatch`` is for.

    Raises:
        InvalidArgument: The bytes are not a ``FrameBatch`` (``MALFORMED``).
    """
    try:
        # Its frames are passed over: they are taken apart only for a query that is open.
        query_id: str = schema.BatchName.FromString(data).query_id
    except DecodeError:
        raise malformed("FrameBatch") from None
    return query_id


def batch_size(data: bytes) -> int:
    """How many frames a serialized ``FrameBatch`` holds.

    Raises:
        InvalidArgument: As for :func:`batch_query_id`.
    """
    return len(_parsed(schema.FrameBatch, data).frames)


def split_batch(data: bytes) -> Sequence[bytes]:
    """The encoded frames of a serialized ``FrameBatch``, in the order sent, each cut out as it is asked for.

    Raises:
        InvalidArgument: As for :func:`batch_query_id`.
    """
    frames: Sequence[bytes] = _parsed(schema.FrameBatch, data).frames
    return frames


def join_batch(query_id: str, frames: Iterable[bytes]) -> bytes:
    """A serialized ``FrameBatch`` of encoded frames."""
    data: bytes = schema.FrameBatch(query_id=query_id, frames=frames).SerializeToString()
    return data


def push_as_batch(data: bytes) -> bytes:
    """A serialized ``PushBatch`` as a ``FrameBatch`` without a query, so that both are read in one way.

    Raises:
        InvalidArgument: The bytes are not a ``PushBatch`` (``MALFORMED``).
    """
    return join_batch("", _parsed(schema.PushBatch, data).frames)


def join_push(frames: Iterable[bytes]) -> bytes:
    """A serialized ``PushBatch`` of encoded frames."""
    data: bytes = schema.PushBatch(frames=frames).SerializeToString()
    return data


def split_inline_lanes(data: bytes) -> tuple[bytes, list[tuple[bytes, list[bytes]]]]:
    """A serialized ``ComposeRequest`` without its inline lanes, and each of these without its frames, and the frames.

    Raises:
        InvalidArgument: The bytes are not a ``ComposeRequest`` (``MALFORMED``).
    """
    request = _parsed(schema.ComposeRequest, data)
    lanes = []
    for encoded in request.inline_lanes:
        lane = _parsed(schema.InlineLane, encoded)
        frames = list(lane.frames)
        lane.ClearField("frames")
        lanes.append((lane.SerializeToString(), frames))
    request.ClearField("inline_lanes")
    return request.SerializeToString(), lanes


def inline_counts(data: bytes, stop_at: int) -> tuple[int, int]:
    """How many inline lanes a serialized ``ComposeRequest`` has, and how many frames they hold together.

    Args:
        data: The request.
        stop_at: Lanes beyond which their frames are not counted.

    Raises:
        InvalidArgument: The bytes are not a ``ComposeRequest`` (``MALFORMED``).
    """
    lanes = _parsed(schema.ComposeRequest, data).inline_lanes
    if len(lanes) > stop_at:
        return len(lanes), 0
    return len(lanes), sum(len(_parsed(schema.InlineLane, lane).frames) for lane in lanes)


def counted(data: bytes, number: int, stop_at: int) -> int:
    """How many parts an encoded message has at a field, without taking it apart: for what may hold far too many.

    Args:
        data: The message; where it does not parse, what comes before that counts.
        number: The field's number, 1 to 15.
        stop_at: Parts beyond which it is not read.

    Returns:
        Their number, at most ``stop_at`` and one.
    """
    found, at, end = 0, 0, len(data)
    while at < end and found <= stop_at:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind not in _FIXED:
            value, at = _varint(data, at)
            at += value if kind == _PART else 0
        else:
            at += _FIXED[kind]
        found += tag == number << 3 | _PART and at <= end
    return found


_PART = 2
_FIXED = {1: 8, 5: 4}
"""Bytes of values that have no length of their own, by the kind in their tag."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends; one that is cut short ends with the bytes."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            break
    return value, at


def report_size(data: bytes) -> int:
    """How many frames a serialized ``ReportAttributionRequest`` names.

    Raises:
        InvalidArgument: The bytes are not a ``ReportAttributionRequest`` (``MALFORMED``).
    """
    return len(_parsed(schema.ReportAttributionRequest, data).frames)


def _parsed(twin: Any, data: bytes) -> Any:
    try:
        return twin.FromString(data)
    except DecodeError:
        raise malformed(twin.DESCRIPTOR.name) from None


def malformed(name: str) -> InvalidArgument:
    """The error for bytes that are not a message of that name."""
    return InvalidArgument("MALFORMED", f"the message is not a {name}: its bytes do not parse, or a text is not UTF-8")
