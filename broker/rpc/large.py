"""Work that may be large, done in a thread where it is, so that other calls are not held up by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

from google.protobuf.message import Message

from broker.core.lanes import Lane

THREAD_FRAMES = 500
THREAD_TOKENS = 10_000
"""From so many frames or tokens on a composition is made and encoded in a thread: below them it takes less than 50 ms,
whatever the frames hold."""

P = ParamSpec("P")
T = TypeVar("T")


def is_large(lanes: Sequence[Lane]) -> bool:
    """Whether what is made of these lanes is made in a thread."""
    frames = sum(lane.offered for lane in lanes)
    return frames >= THREAD_FRAMES or sum(c.tokens for lane in lanes for c in lane.candidates) >= THREAD_TOKENS


def encoded(messages: Iterator[Message]) -> bytes | None:
    """The next message; None after the last. Each is made when the one before is on its way: all may be many."""
    message = next(messages, None)
    return None if message is None else serialized(message)


def serialized(message: Message) -> bytes:
    """A message's bytes. Maps have no order of their own: the same message gives the same bytes in every process."""
    return message.SerializeToString(deterministic=True)


async def in_thread_if(large: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``work`` gives, called in a thread where it is large, else at once."""
    return await asyncio.to_thread(work, *args, **kwargs) if large else work(*args, **kwargs)
