"""Frames on their way out: encoded one by one, and gathered into batches that a broker takes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from broker.core.frames import Frame
from broker.wire.batches import MAX_BATCH_BYTES
from broker.wire.frames import encode_frame
from broker.wire.sessions import DEFAULT_LIMITS, Limits

MAX_BATCH_FRAMES = 64
"""Frames that a batch is filled to: enough to make messages cheap, few enough to send the first ones early."""

_OVERHEAD = 1024
"""Bytes of a message beside its frames: names, tags and lengths."""

_FRAME_TAG = 6
"""Bytes of one frame's tag and length, at most."""

log = logging.getLogger("broker.client")


class Filling:
    """A batch as it fills.

    Args:
        limits: What the broker takes.
    """

    def __init__(self, limits: Limits) -> None:
        self._room = max(0, min(MAX_BATCH_BYTES, limits.max_message_bytes) - _OVERHEAD)
        self._count = max(1, min(MAX_BATCH_FRAMES, limits.max_batch_frames))
        self._cut = max(0, min(self._room - _FRAME_TAG, limits.max_frame_bytes + 1))
        self._frames: list[bytes] = []
        self._size = 0

    def fits(self, frame: bytes) -> bool:
        """Whether a frame may be added before the batch must be taken."""
        return len(self._frames) < self._count and (not self._frames or self._size + _weight(frame) <= self._room)

    def add(self, frame: bytes) -> None:
        """Adds a frame that fits. One that no message can hold is cut to what the broker still counts as too large."""
        if _weight(frame) > self._room:
            log.warning("a frame of %d bytes does not fit one message; the broker will drop it", len(frame))
            frame = frame[: self._cut]
        self._frames.append(frame)
        self._size += _weight(frame)

    def take(self) -> list[bytes]:
        """The frames added since the last time."""
        frames, self._frames, self._size = self._frames, [], 0
        return frames

    def __len__(self) -> int:
        return len(self._frames)


def batches_of(frames: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[list[bytes]]:
    """Encoded frames in batches; no batch is empty."""
    filling = Filling(limits)
    for frame in frames:
        if not filling.fits(frame):
            yield filling.take()
        filling.add(frame)
    if len(filling):
        yield filling.take()


def encoded(frames: Iterable[Frame]) -> Iterator[bytes]:
    """Frames encoded, each when it is asked for.

    Raises:
        InvalidArgument: One has a value that the wire cannot carry, with its path.
    """
    for i, frame in enumerate(frames):
        yield encode_frame(frame, f"frames[{i}]")


def _weight(frame: bytes) -> int:
    return len(frame) + _FRAME_TAG
