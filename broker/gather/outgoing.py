"""What waits to be sent in one session: events, and queries, which become events when they leave."""

from __future__ import annotations

from collections.abc import Container

from broker.gather.asked import Asked
from broker.gather.clock import Clock
from broker.wire.events import Ask, Outbound


class Outgoing:
    """A queue with a bound and an end. Putting never waits; a full one says so, and its owner decides.

    It says of each query how much time it has left when it is sent, and skips those that are over.

    Attributes:
        limit: How many items it holds at most.
    """

    __slots__ = ("_clock", "_closed", "_items", "_open_ids", "limit")

    def __init__(self, limit: int, clock: Clock, open_ids: Container[str]) -> None:
        """Makes an empty one that holds at most ``limit`` items; ``open_ids`` are the queries that are open, always."""
        self.limit = limit
        # Most are empty nearly always, and an empty deque takes 0.8 kB.
        self._items: list[Outbound | Asked] = []
        self._clock = clock
        self._open_ids = open_ids
        self._closed = False

    def put(self, item: Outbound | Asked) -> bool:
        """Appends an item; False: it is full, and nothing was appended. After :meth:`close` items vanish."""
        if self._closed:
            return True
        if len(self._items) >= self.limit:
            return False
        self._items.append(item)
        return True

    def take(self) -> Outbound | None:
        """The next event to send; None: there is none now."""
        while self._items:
            item = self._items.pop(0)
            if not isinstance(item, Asked):
                return item
            if item.query_id in self._open_ids:
                item.sent = True
                left = int((item.deadline - self._clock.time()) * 1000)
                return Ask(item.query_id, item.query, max(0, left))
        return None

    def close(self, *, discard: bool = False) -> None:
        """Takes no more items; those it holds are still given out, unless they are to be discarded. Idempotent."""
        if discard:
            self._items.clear()
        self._closed = True
