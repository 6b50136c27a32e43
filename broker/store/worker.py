"""A thread that does what it is given, one thing after the other.

An executor of one thread does as much; it takes longer to hand over, which every recorded answer waits for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Args = TypeVarTuple("Args")

Given = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]
"""Who waits for what, and what is called with what."""


class Worker:
    """One thread, started with the first thing that it is given."""

    def __init__(self, name: str) -> None:
        """Starts nothing yet; ``name`` is the thread's."""
        self._name = name
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Callable[[*Args], T], *args: *Args) -> asyncio.Future[T]:
        """What ``work`` gives, called in the thread. Where no one waits for it any more it is not begun.

        Raises:
            RuntimeError: The thread was closed.
        """
        if self._closed:
            raise RuntimeError(f"the thread {self._name} was closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._given.put((loop, future, work, args))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return future

    def close(self) -> None:
        """Returns when all that was given is done; idempotent. Not to be called in the thread of the loop."""
        self._closed = True
        if self._thread is not None:
            self._given.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (given := self._given.get()) is not None:
            _do(*given)
            # The last one's arguments are not kept until the next comes.
            del given


def _do(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], work: Callable[..., T], args: tuple[Any, ...]
) -> None:
    if future.cancelled():
        return
    came, error = _outcome(work, args)
    try:
        loop.call_soon_threadsafe(_settle, future, came, error)
    except RuntimeError:
        # A loop that was closed waits for nothing.
        return


def _outcome(work: Callable[..., T], args: tuple[Any, ...]) -> tuple[T | None, BaseException | None]:
    try:
        return work(*args), None
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        return None, error


def _settle(future: asyncio.Future[Any], came: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(came)
    else:
        future.set_exception(error)
