"""The frames of a batch as values. One that cannot be read costs no other, though most batches are parsed in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contextbroker.v1 import provider_service_pb2 as pb
from google.protobuf.message import DecodeError

from broker.core.frames import Frame
from broker.core.lanes import Unreadable
from broker.wire.batches import split_batch
from broker.wire.frames import MAX_LISTED, frame_values, read_frames

TOGETHER_BYTES = 64 * 1024
"""Bytes of a batch up to which its frames are parsed in one go. A larger one is cut apart first: beside its parsing
that costs little, and half a million empty frames are then not parsed to find that they are too many."""


class BatchFrames:
    """The frames of a serialized ``FrameBatch``, in the order sent; a part of them is read when it is asked for."""

    __slots__ = ("_frames", "_max_bytes", "_parsed")

    def __init__(self, data: bytes, max_bytes: int) -> None:
        """Looks into a batch.

        Args:
            data: The batch.
            max_bytes: How many bytes each encoded frame may have.

        Raises:
            InvalidArgument: The bytes are not a ``FrameBatch`` (``MALFORMED``).
        """
        self._max_bytes = max_bytes
        self._parsed = False
        self._frames: Any
        # In a batch of no more bytes than a frame may have, no frame has more.
        if len(data) <= min(TOGETHER_BYTES, max_bytes):
            try:
                self._frames = pb.FrameBatch.FromString(data).frames
                self._parsed = True
            except DecodeError:
                self._frames = split_batch(data)
        else:
            self._frames = split_batch(data)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._frames)

    def __getitem__(self, part: slice, /) -> Sequence[Frame | Unreadable]:
        """What :func:`~broker.wire.frames.read_frame` gives of each of a part."""
        frames = self._frames[part]
        return frame_values(frames, MAX_LISTED) if self._parsed else read_frames(frames, self._max_bytes)
