"""What waits to be sent in one session: events, and queries, which become events when they leave."""

from __future__ import annotations

from collections.abc import Container

from broker.gather.asked import Asked
from broker.gather.clock import Clock
from broker.gather.outbox import Outbox
from broker.wire.events import Ask, Outbound


class Outgoing(Outbox[Outbound | Asked]):
    """An outbox that says of each query how much time it has left when it is sent, and skips those that are over."""

    def __init__(self, limit: int, clock: Clock, open_ids: Container[str]) -> None:
        """Makes an empty one that holds at most ``limit`` items; ``open_ids`` are the queries that are open, always."""
        super().__init__(limit)
        self._clock = clock
        self._open_ids = open_ids

    def event(self) -> Outbound | None:
        """The next event to send; None: there is none now."""
        while (item := self.take()) is not None:
            if (event := self._event(item)) is not None:
                return event
        return None

    async def next_event(self) -> Outbound | None:
        """The next event to send, waiting for one; None: it is closed and empty. For one reader; safe to cancel."""
        while (item := await self.get()) is not None:
            if (event := self._event(item)) is not None:
                return event
        return None

    def _event(self, item: Outbound | Asked) -> Outbound | None:
        if not isinstance(item, Asked):
            return item
        if item.query_id not in self._open_ids:
            return None
        item.sent = True
        return Ask(item.query_id, item.query, max(0, int((item.deadline - self._clock.time()) * 1000)))
