"""What waits to be sent to one provider: a queue with a bound, one reader, and an end."""

from __future__ import annotations

from typing import Generic, TypeVar

from broker.gather.changed import Changed

T = TypeVar("T")


class Outbox(Generic[T]):
    """Items in the order put. Putting never waits; a full outbox says so, and its owner decides."""

    def __init__(self, limit: int) -> None:
        """Makes an empty outbox that holds at most ``limit`` items."""
        self.limit = limit
        # Most are empty nearly always, and an empty deque takes 0.8 kB.
        self._items: list[T] = []
        self._changed = Changed()
        self._closed = False

    def put(self, item: T) -> bool:
        """Appends an item; False: it is full, and nothing was appended. After :meth:`close` items vanish."""
        if self._closed:
            return True
        if len(self._items) >= self.limit:
            return False
        self._items.append(item)
        self._changed.tell()
        return True

    def take(self) -> T | None:
        """The next item; None: there is none now."""
        return self._items.pop(0) if self._items else None

    async def get(self) -> T | None:
        """The next item, waiting for one; None: it is closed and empty. For one reader; safe to cancel."""
        while not self._items:
            if self._closed:
                return None
            await self._changed.wait()
        return self._items.pop(0)

    def close(self, *, discard: bool = False) -> None:
        """Takes no more items; those it holds are still given out, unless they are to be discarded. Idempotent."""
        if discard:
            self._items.clear()
        self._closed = True
        self._changed.tell()
