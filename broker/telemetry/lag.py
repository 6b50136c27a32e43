"""How late the event loop is: what a call that becomes ready has to wait until it is its turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

BEAT_SECONDS = 0.04
"""Between two looks. What holds the loop for as long is seen by one of them, and what does so for a part of it by that
part of them. A broker that has nothing to do takes 0.3 % of a processor for it, to wake up each time."""

WORST_SECONDS = 30.0
"""For so long at least, and at most twice as long, the latest look is remembered."""


class LoopLag:
    """Looks how late the running loop is, again and again from :meth:`start` to :meth:`stop`."""

    def __init__(self, lagged: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Tells ``lagged`` of each look: seconds, from 0."""
        self._lagged = lagged
        self._clock = clock
        self._due = 0.0
        self._since = 0.0
        self._latest = self._latest_before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to look."""
        self._since = self._clock()
        self._wait()

    def stop(self) -> None:
        """Looks no more; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def worst(self) -> float:
        """How late it was at most of late, in seconds."""
        return max(self._latest, self._latest_before)

    def _wait(self) -> None:
        self._due = self._clock() + BEAT_SECONDS
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._look)

    def _look(self) -> None:
        now = self._clock()
        late = max(0.0, now - self._due)
        if now - self._since >= WORST_SECONDS:
            self._since, self._latest_before, self._latest = now, self._latest, 0.0
        self._latest = max(self._latest, late)
        self._lagged(late)
        self._wait()
