"""A query of one session's, and the asker's handle on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from broker.gather.fabric import Sink
from broker.wire.events import Query, Rejection, Violation


class Session(Protocol):
    """Where a query is open."""

    def cancel(self, asked: Asked) -> None:
        """Takes it out, and tells the provider if it was asked."""

    def say(self, event: Rejection) -> None:
        """Sends beside it."""


class Asked(Struct, eq=False):
    """One query.

    Attributes:
        query_id: Its name in the session.
        query: What is asked.
        deadline: Moment of the clock.
        sink: Takes the answer.
        sent: Whether it has left: from then on the provider may answer it.
    """

    query_id: str
    query: Query
    deadline: float
    sink: Sink
    _session: Session
    sent: bool = False

    def cancel(self) -> None:
        """Stops the answer; the provider is told if it was asked."""
        self._session.cancel(self)

    def reject(self, violations: Sequence[Violation], /) -> None:
        """Tells the provider what was not taken."""
        if violations and self.sent:
            self._session.say(Rejection(self.query_id, tuple(violations)))
