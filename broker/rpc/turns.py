"""Turns of the event loop: what becomes ready together is not done all at once.

In one turn the loop does all that is ready, and only then looks who else has something to say or has waited for its
time. Sixteen providers answer within a millisecond of each other, and to check what they sent takes each of them some:
whoever can wait asks here whether it should.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_SECONDS = 0.002
"""How long a turn may last before whoever can wait leaves the rest of it to others."""

LOOK_AT_ONCE = 16
"""Of those who wait, so many look at a turn at most: to have all of a thousand look takes longer than a turn."""


class Turns:
    """The turns of the running loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """No turn is measured before :attr:`over` is read in it for the first time."""
        self._clock = clock
        self._began: float | None = None
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._in_vain = 0

    @property
    def over(self) -> bool:
        """Whether this turn has lasted long enough; whoever can wait then waits for :meth:`another`."""
        now = self._clock()
        if self._began is None:
            self._began = now
            asyncio.get_running_loop().call_soon(self._end)
        return now - self._began > TURN_SECONDS

    async def another(self) -> None:
        """Returns in a turn that has room; those who wait have it in the order in which they came.

        The first of them has the next turn whether or not it has room: others may have filled it before it could look.
        """
        first = woken = False
        while not first and self.over:
            future = asyncio.get_running_loop().create_future()
            if woken:
                # Those who looked in vain stay at the head, in the order in which they were.
                self._waiting.insert(self._in_vain, future)
                self._in_vain += 1
            else:
                self._waiting.append(future)
            try:
                first = await future
            except asyncio.CancelledError:
                # Whoever waits behind it is woken by the end of a turn that someone has looked at.
                _ = self.over
                raise
            woken = True

    def _end(self) -> None:
        self._began = None
        self._in_vain = 0
        woken = 0
        while self._waiting and woken < LOOK_AT_ONCE:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(not woken)
                woken += 1
