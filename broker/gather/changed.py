"""Waiting for a change, at no cost while nobody waits."""

from __future__ import annotations

import asyncio


class Changed:
    """Wakes whoever waits. It remembers nothing: look first, and wait with nothing awaited in between.

    An ``asyncio.Event`` does as much and takes 0.8 kB from the start; every session has five of these.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: tuple[asyncio.Future[bool], ...] = ()

    def tell(self) -> None:
        """Wakes all who wait now."""
        waiting, self._waiting = self._waiting, ()
        for each in waiting:
            _wake(each, told=True)

    async def wait(self, seconds: float | None = None) -> bool:
        """Returns once it is told, or the time is over: whether it was told. Safe to cancel.

        Args:
            seconds: How long to wait; None: for ever.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting = (*self._waiting, future)
        # A timer alone: ``asyncio.timeout`` costs several times as much, for cancelling a task.
        timer = None if seconds is None else loop.call_later(seconds, _wake, future)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting:
                self._waiting = tuple(each for each in self._waiting if each is not future)


def _wake(future: asyncio.Future[bool], *, told: bool = False) -> None:
    if not future.done():
        future.set_result(told)
