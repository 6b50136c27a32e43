"""The load generator: requests in flight for a time, and how long each took."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc.aio

COMPOSE = "/contextbroker.v1.ContextService/Compose"
_LANE_UPDATES, _PART = 0x12, 0x22
"""Tags of fields of a ComposeResponse."""


@dataclass(slots=True)
class Asked:
    """What came of it.

    Attributes:
        seconds: Of each request, from its first byte to its end.
        first: Seconds from the last news of a lane to the first part of the composition.
        bytes: Of the messages of one answer.
        wall: Seconds in all.
    """

    seconds: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    bytes: int = 0
    wall: float = 0.0

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.seconds) / self.wall


async def ask_for(
    channel: grpc.aio.Channel, request: bytes, *, concurrency: int, seconds: float, at_most: int | None = None
) -> Asked:
    """Asks for so many seconds, or so many times where that is sooner; what has begun is finished."""
    asked, numbers = Asked(), itertools.count()
    began = time.perf_counter()

    async def again_and_again() -> None:
        while time.perf_counter() - began < seconds and next(numbers) < (math.inf if at_most is None else at_most):
            await _ask(channel, request, asked)

    await asyncio.gather(*(again_and_again() for _ in range(concurrency)))
    asked.wall = time.perf_counter() - began
    return asked


async def _ask(channel: grpc.aio.Channel, request: bytes, asked: Asked) -> None:
    began, told, size, first = time.perf_counter(), 0.0, 0, True
    call = channel.unary_stream(COMPOSE)(request, timeout=120)
    while (message := await call.read()) is not grpc.aio.EOF:
        size += len(message)
        if first:
            now, tags = time.perf_counter(), _tags(message)
            told = now if _LANE_UPDATES in tags else told
            if _PART in tags:
                first = False
                asked.first.append(now - told)
    asked.seconds.append(time.perf_counter() - began)
    asked.bytes = size


def _tags(message: bytes) -> list[int]:
    """The tags of a message's fields, of which each is a message, too."""
    tags, at = [], 0
    while at < len(message):
        tags.append(message[at])
        size = shift = 0
        while True:
            at += 1
            size |= (message[at] & 0x7F) << shift
            shift += 7
            if message[at] < 0x80:
                break
        at += 1 + size
    return tags


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which that part of them lies (nearest rank)."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]
