"""Batches of frames as bytes: counted, cut apart and put together without parsing a frame.

Counting comes before parsing: a message of one mebibyte can hold half a million empty frames.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    query_id: str = _parsed(schema.FrameBatch, data).query_id
    return query_id


def batch_size(data: bytes) -> int:
    """How many frames a serialized ``FrameBatch`` holds.

    Raises:
        InvalidArgument: As for :func:`batch_query_id`.
    """
    return len(_parsed(schema.FrameBatch, data).frames)


def split_batch(data: bytes) -> list[bytes]:
    """The encoded frames of a serialized ``FrameBatch``, in the order sent.

    Raises:
        InvalidArgument: As for :func:`batch_query_id`.
    """
    return list(_parsed(schema.FrameBatch, data).frames)


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


def _parsed(twin: Any, data: bytes) -> Any:
    try:
        return twin.FromString(data)
    except DecodeError:
        raise malformed(twin.DESCRIPTOR.name) from None


def malformed(name: str) -> InvalidArgument:
    """The error for bytes that are not a message of that name."""
    return InvalidArgument("MALFORMED", f"the message is not a {name}: its bytes do not parse, or a text is not UTF-8")
