"""Work in threads that no one has to wait for: neither a request whose time is up, nor the process at its end.

A thread cannot be stopped. The event loop's own pool would lose a worker to every scorer that hangs, until no request
was composed any more, and the interpreter would wait for them all when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from broker.rerankers.reranker import RerankFailed

T = TypeVar("T")


class Threads:
    """At most so many threads at once; work beyond waits, for as long as its caller does.

    A thread holds its place until its work is done, whether or not anyone still waits for it.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(limit)

    async def run(self, work: Callable[[], T]) -> T:
        """Does the work in a thread.

        Raises:
            RerankFailed: It raised; its text is not told, for it may hold anything.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, failure: RerankFailed | None) -> None:
            self._places.release()
            if done.done():
                return
            if failure is not None:
                done.set_exception(failure)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def body() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - not even SystemExit may reach the loop
                failure = RerankFailed(f"it failed with {type(error).__name__}")
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                return  # The loop is closed: no one waits any more.

        try:
            Thread(target=body, name=self._name, daemon=True).start()
        except RuntimeError:
            self._places.release()
            raise RerankFailed("no thread could be started for it") from None
        return await done
