"""Waiting for a change, at no cost while nobody waits."""

from __future__ import annotations

import asyncio


class Changed:
    """Wakes whoever waits. It remembers nothing: look first, and wait with nothing awaited in between.

    An ``asyncio.Event`` does as much and takes 0.8 kB from the start; every session has five of these.

    Attributes:
        waiting: Those who wait now; where there are none, nobody has to be told.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: tuple[asyncio.Future[bool], ...] = ()

    def tell(self) -> None:
        """Wakes all who wait now."""
        if self.waiting:
            waiting, self.waiting = self.waiting, ()
            for each in waiting:
                if not each.done():
                    each.set_result(True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Returns once it is told, or the time is over: whether it was told. Safe to cancel.

        Args:
            seconds: How long to wait; None: for ever.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self.waiting = (*self.waiting, future)
        # A timer alone: ``asyncio.timeout`` costs several times as much, for cancelling a task.
        timer = None if seconds is None else loop.call_later(seconds, _give_up, future)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if self.waiting:
                self.waiting = tuple(each for each in self.waiting if each is not future)


def _give_up(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
