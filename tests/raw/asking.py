"""What the suite asks for: calls that are right, and the time within which every answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from broker.wire.requests import InlineLane
from tests.raw.http2 import message
from tests.rpc.peers import compose_bytes, frames

ANSWER = 2.0
"""Seconds within which whatever was sent is answered, and another client is served."""

LIST = "/contextbroker.v1.ContextService/ListProviders"

T = TypeVar("T")


def inline(**more: object) -> dict[str, object]:
    """A question that needs no provider, as keywords of a ComposeCall."""
    return {"no_providers": True, "inline_lanes": (InlineLane("mine", frames=tuple(frames(("x", 0.5)))),)} | more


QUESTION = compose_bytes(**inline())
"""A request that is answered with one frame."""

BODY = message(QUESTION)
"""The same as the body of a call."""


async def answered(waiting: Awaitable[T]) -> T:
    """What is waited for; it must come in time."""
    async with asyncio.timeout(ANSWER):
        return await waiting
