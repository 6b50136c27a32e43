"""What the caller of one Compose call is told, in as few messages as keep no one waiting.

A message costs its sender and its reader some 0.1 ms, whatever it holds. So what there is to tell waits a moment for
what comes next: a small answer is one message, and a lane's news reach the caller while slower lanes are waited for.
"""

from __future__ import annotations

import asyncio
from itertools import islice

from broker.core.lanes import LaneUpdate
from broker.gather.changed import Changed
from broker.rpc.streams import Stream
from broker.wire.compositions import response_of
from broker.wire.updates import lane_updates_message

TOGETHER_SECONDS = 0.02
"""How long what there is to tell waits for more that goes in the same message; to people it is at once."""

TOGETHER_BYTES = 64 * 1024
"""Bytes of parts of the composition that wait for more, or go with what was told of lanes; larger ones go at once."""

TOLD_AT_ONCE = 256
"""Lanes in one message, at most: what is said of each may take some 1 KiB."""


class Answer:
    """The messages of one answer.

    In the order in which it is told: that the request was taken, how its lanes fare, and the composition. Of a lane
    that changes more than once before a message leaves, the message tells the latest alone.

    Args:
        stream: The caller's.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._accepted = b""
        self._updates: dict[str, LaneUpdate] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._overdue = False
        self._gathered = False
        self._changed = Changed()

    def accept(self, accepted: bytes) -> None:
        """The request was taken: the encoded beginning of the answer."""
        self._accepted = accepted
        # Passes to the caller while providers are asked.
        self._stream.open()
        self._wait()

    def update(self, update: LaneUpdate) -> None:
        """A lane has changed."""
        self._updates[update.provider] = update
        if self._timer is None:
            self._wait()

    def end(self) -> None:
        """The last lane has ended."""
        self._gathered = True
        self._changed.tell()

    async def tell(self) -> None:
        """Tells how lanes fare until the last has ended; what is then untold goes with what comes next.

        Raises:
            ClientGone: The peer is not there.
            ResourceExhausted: It took nothing of what it was told (``SLOW_CONSUMER``).
        """
        while not self._gathered:
            if self._overdue:
                self._overdue = False
                await self.flush()
            else:
                await self._changed.wait()
        if self._timer is None and (self._accepted or self._updates):
            # Its time was over as the last lane ended; what comes next may take long.
            self._wait()

    async def snapshot(self, message: bytes) -> None:
        """Tells a message of a snapshot, once all before it was handed to the transport; raises like :meth:`tell`."""
        await self.flush()
        self._stream.post(message)

    async def part(self, data: bytes) -> None:
        """Tells a part of the composition, encoded, once no lane is told of any more; raises like :meth:`tell`."""
        if self._size + len(data) > TOGETHER_BYTES:
            await self._push()
        self._parts.append(data)
        self._size += len(data)
        if self._size > TOGETHER_BYTES:
            await self._push()
        elif self._timer is None:
            self._wait()

    async def flush(self) -> None:
        """Returns when everything told so far was handed to the transport; raises like :meth:`tell`."""
        await self._push()
        await self._stream.flush()

    def close(self) -> None:
        """Nothing more is told; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _push(self) -> None:
        self.close()
        while self._accepted or self._updates or self._parts:
            await self._stream.room()
            self._post()

    def _post(self) -> None:
        """Hands on a message of what waits, or nothing where all of it has left meanwhile."""
        pieces: list[bytes] = []
        if self._accepted:
            pieces.append(self._accepted)
            self._accepted = b""
        if self._updates:
            told = [self._updates.pop(name) for name in list(islice(self._updates, TOLD_AT_ONCE))]
            pieces.append(lane_updates_message(told).SerializeToString())
        if self._parts and not self._updates and (not pieces or self._size <= TOGETHER_BYTES):
            pieces.append(response_of(b"".join(self._parts)))
            self._parts.clear()
            self._size = 0
        if pieces:
            self._stream.post(b"".join(pieces))

    def _wait(self) -> None:
        self._timer = self._loop.call_later(TOGETHER_SECONDS, self._waited)

    def _waited(self) -> None:
        """Something has waited long enough."""
        self._timer = None
        if not self._gathered:
            self._overdue = True
            self._changed.tell()
        else:
            # Whoever tells does something else that takes its time. A caller that reads slowly hears of it later.
            while not self._stream.full and (self._accepted or self._updates or self._parts):
                self._post()
