"""A query of one session's, and the asker's handle on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.gather.fabric import Sink
from broker.wire.events import Query, Rejection, Violation


class Session(Protocol):
    """Where a query is open."""

    def cancel(self, asked: Asked) -> None:
        """Takes it out, and tells the provider if it was asked."""

    def say(self, event: Rejection) -> None:
        """Sends beside it."""


class Asked:
    """One query.

    Attributes:
        query_id: Its name in the session.
        query: What is asked.
        deadline: Moment of the clock.
        sink: Takes the answer.
        sent: Whether it has left: from then on the provider may answer it.
    """

    __slots__ = ("_session", "deadline", "query", "query_id", "sent", "sink")

    def __init__(self, query_id: str, query: Query, deadline: float, sink: Sink, session: Session) -> None:
        """A query that was not sent."""
        self.query_id = query_id
        self.query = query
        self.deadline = deadline
        self.sink = sink
        self.sent = False
        self._session = session

    def cancel(self) -> None:
        """Stops the answer; the provider is told if it was asked."""
        self._session.cancel(self)

    def reject(self, violations: Sequence[Violation], /) -> None:
        """Tells the provider what was not taken."""
        if violations and self.sent:
            self._session.say(Rejection(self.query_id, tuple(violations)))
