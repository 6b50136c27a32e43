"""One thread per provider that does its heavy work, so that the event loop stays free and sqlite3 sees one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from broker.errors import FailedPrecondition

T = TypeVar("T")


class Stopped(Exception):
    """The work was given up since no one waits for it any more."""


class Stop:
    """Tells work in the thread that its answer is no longer wanted."""

    def __init__(self) -> None:
        self._event = Event()

    def set(self) -> None:
        """Asks the work to end at its next check."""
        self._event.set()

    @property
    def wanted(self) -> bool:
        """Whether the work should end."""
        return self._event.is_set()

    def check(self) -> None:
        """Ends the work here if it should end.

        Raises:
            Stopped: It should.
        """
        if self.wanted:
            raise Stopped


class Worker:
    """A thread of its own. Work is done one piece at a time, in the order asked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"provider-{name}")
        self._closed = False

    def call(self, work: Callable[[], T]) -> T:
        """Does the work in the thread and waits for it."""
        return self._executor.submit(work).result()

    async def run(self, work: Callable[[Stop], T]) -> T:
        """Does the work in the thread. A caller's cancellation drops work not begun and stops work that runs.

        Raises:
            FailedPrecondition: ``PROVIDER_CLOSED``: the provider was closed before.
        """
        if self._closed:
            raise FailedPrecondition("PROVIDER_CLOSED", f"the provider {self._name!r} is closed; open it again")
        stop = Stop()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work, stop)
        finally:
            stop.set()

    def close(self, last: Callable[[], None]) -> None:
        """Does one last piece of work in the thread and ends it. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.call(last)
        finally:
            self._executor.shutdown()
