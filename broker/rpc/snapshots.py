"""Compositions of the lanes that have ended, made and sent while others are collected.

They take from nothing else that the request does. Collecting goes on beside them. A lane that ends while one is made or
sent waits for the next, and the next for a while in which other requests have their turn. One is not begun where making
it might last until collecting ends, and whatever is unsent then is dropped. Where collecting ends early while one is
made, that goes on in its thread beside the composition itself, which is late by as long: none is begun that could take
more than :data:`MOST_SECONDS`. At most one part waits to be written, so that little stands before the composition where
the caller reads slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from broker.core.composition import Composition
from broker.core.lanes import Lane
from broker.errors import ResourceExhausted
from broker.rpc.answering import Answer
from broker.rpc.large import in_thread_if, is_large
from broker.rpc.streams import ClientGone
from broker.wire.snapshots import Snapshot, snapshot_messages

FRAME_SECONDS = 1e-4
"""What composing a frame may take: twice what was measured for small ones."""

TOKEN_SECONDS = 1e-6
"""What each token of its content may add: what was measured for contents of nothing but emoji and joiners."""

MOST_SECONDS = 1.0
"""What making a snapshot may take."""

RESTS = 3
"""As many times as long as one took to make nothing is made behind it: the event loop is shared by all requests."""

log = structlog.get_logger("broker.rpc")


class Snapshots:
    """One request's snapshots.

    Args:
        answer: Whose messages they go between.
        wanted: The lanes that are collected, in lane order.
        inline: Lanes that are there from the start.
        until: Moment on the loop's clock at which collecting ends at the latest.
        is_answer: Whether such lanes, were they all, would be an answer to the request.
        compose: Makes a composition of such lanes; the second argument is whether they are large.
    """

    def __init__(
        self,
        answer: Answer,
        wanted: Sequence[str],
        inline: Sequence[Lane],
        until: float,
        *,
        is_answer: Callable[[Sequence[Lane]], bool],
        compose: Callable[[Sequence[Lane], bool], Awaitable[Composition]],
    ) -> None:
        self._answer = answer
        self._collecting = dict.fromkeys(wanted)
        self._ended = list(inline)
        self._until = until
        self._is_answer = is_answer
        self._compose = compose
        self._changed = asyncio.Event()

    def lane_ended(self, lane: Lane) -> None:
        """To be called with every lane as it ends."""
        del self._collecting[lane.provider]
        self._ended.append(lane)
        self._changed.set()

    async def run(self) -> None:
        """Sends snapshots until no lane is left to wait for; to be cancelled when collecting has ended.

        What goes wrong with a snapshot ends them and nothing else: it will show again in what must be sent, or was
        theirs alone.
        """
        try:
            await self._run()
        except (ClientGone, ResourceExhausted):
            return
        except Exception:
            log.exception("snapshot failed; the request goes on without any")

    async def _run(self) -> None:
        time = asyncio.get_running_loop().time
        number, took = 0, 0.0
        while self._collecting:
            await self._changed.wait()
            self._changed.clear()
            lanes, collecting = tuple(self._ended), tuple(self._collecting)
            if not collecting or not self._is_answer(lanes):
                continue
            started = time()
            expected = max(took, _seconds(lanes))
            if expected > MOST_SECONDS or started + expected > self._until:
                return
            large = is_large(lanes)
            number += 1
            composition = await self._compose(lanes, large)
            took = time() - started
            messages = snapshot_messages(Snapshot(number, collecting, composition))
            # Each is made when the one before is on its way: all may be many.
            while self._collecting and (message := await in_thread_if(large, next, messages, None)) is not None:
                await self._answer.snapshot(message)
            await asyncio.sleep(RESTS * took)


def _seconds(lanes: Sequence[Lane]) -> float:
    """What making a snapshot of these may take."""
    tokens = sum(candidate.tokens for lane in lanes for candidate in lane.candidates)
    return FRAME_SECONDS * sum(lane.offered for lane in lanes) + TOKEN_SECONDS * tokens
