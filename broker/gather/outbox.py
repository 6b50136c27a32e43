"""What waits to be sent to one provider: a queue with a bound, one reader, and an end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Items in the order put. Putting never waits; a full outbox says so, and its owner decides."""

    def __init__(self, limit: int) -> None:
        """Makes an empty outbox that holds at most ``limit`` items."""
        self.limit = limit
        self._items: deque[T] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, item: T) -> bool:
        """Appends an item; False: it is full, and nothing was appended. After :meth:`close` items vanish."""
        if self._closed:
            return True
        if len(self._items) >= self.limit:
            return False
        self._items.append(item)
        self._changed.set()
        return True

    def take(self) -> T | None:
        """The next item; None: there is none now."""
        return self._items.popleft() if self._items else None

    async def get(self) -> T | None:
        """The next item, waiting for one; None: it is closed and empty. For one reader; safe to cancel."""
        while not self._items:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._items.popleft()

    def close(self, *, discard: bool = False) -> None:
        """Takes no more items; those it holds are still given out, unless they are to be discarded. Idempotent."""
        if discard:
            self._items.clear()
        self._closed = True
        self._changed.set()
