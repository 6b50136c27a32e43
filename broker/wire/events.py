"""What crosses a provider's session, as plain values: what :mod:`broker.wire.sessions` makes of bytes, and bytes of it.

No protobuf is imported here: gathering speaks in these values and is to need none. Values inbound have passed the
schema's constraints; what did not arrives as :class:`Malformed`.
"""

from __future__ import annotations

from msgspec import Struct

from broker.core.scores import UNIT, ScoreScale


class Query(Struct, frozen=True, gc=False, kw_only=True):
    """A question as providers see it, and what one answer may hold.

    Attributes:
        goal: What the agent is trying to do.
        query_text: The question as retrieval should read it; empty: the goal.
        kinds: Names of the frame kinds wanted; empty: any.
        anchors: Resources at hand, as URIs.
        max_frames: Frames granted.
        max_tokens: Tokens of content granted.
        as_of: Moment that the evidence should hold for, ``YYYY-MM-DDTHH:MM:SS[.f]Z``; empty: now.
        traceparent: W3C trace context of the request; empty: none.
    """

    goal: str
    query_text: str = ""
    kinds: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    max_frames: int
    max_tokens: int
    as_of: str = ""
    traceparent: str = ""


class Violation(Struct, frozen=True, gc=False):
    """One thing that a provider sent and the broker did not take, for whoever must mend it.

    Attributes:
        reason: Stable UPPER_SNAKE reason.
        message: What was wrong and what to do.
        frame_id: The frame concerned; empty: the whole message or lane.
    """

    reason: str
    message: str
    frame_id: str = ""


class Hello(Struct, frozen=True, gc=False):
    """Provider: who is attaching.

    Attributes:
        provider: Its name.
        instance: This replica's name, stable over reconnects.
        version: The provider's own version, for people.
        kinds: Names of the kinds it can answer with; empty: any.
        scale: Of its scores.
        max_in_flight: Queries that it takes at once, at least 1.
    """

    provider: str
    instance: str
    version: str = ""
    kinds: tuple[str, ...] = ()
    scale: ScoreScale = UNIT
    max_in_flight: int = 64


class Batch(Struct, frozen=True, gc=False):
    """Provider: frames for an open query.

    Attributes:
        query_id: The query.
        data: The serialized ``FrameBatch``, as received.
    """

    query_id: str
    data: bytes


class LaneEnded(Struct, frozen=True, gc=False):
    """Provider: the end of an open query's frames.

    Attributes:
        query_id: The query.
        failed: Whether the provider could not answer in full.
        message: Why, when it failed.
    """

    query_id: str
    failed: bool = False
    message: str = ""


class Detached(Struct, frozen=True, gc=False):
    """Provider: send no more queries; open ones may still be answered."""


class Malformed(Struct, frozen=True, gc=False):
    """Provider: a message that could not be read, or that breaks the schema's constraints.

    Attributes:
        reason: Stable UPPER_SNAKE reason.
        message: What was wrong and what to do.
        query_id: The query that it was for; empty where that could not be read.
    """

    reason: str
    message: str
    query_id: str = ""


Inbound = Hello | Batch | LaneEnded | Detached | Malformed
"""Anything that a provider says."""


class Welcome(Struct, frozen=True, gc=False):
    """Broker: the session stands.

    Attributes:
        session_id: The broker's name for it.
    """

    session_id: str


class Ask(Struct, frozen=True, gc=False):
    """Broker: a question.

    Attributes:
        query_id: Names it in this session.
        query: The question, and what its answer may hold.
        remaining_ms: Milliseconds left to answer in, from now.
    """

    query_id: str
    query: Query
    remaining_ms: int


class Cancel(Struct, frozen=True, gc=False):
    """Broker: stop answering a question."""

    query_id: str


class Rejection(Struct, frozen=True, gc=False):
    """Broker: something sent was not taken. The session stands.

    Attributes:
        query_id: The query that it was sent for; empty where that could not be read.
        violations: What was wrong.
    """

    query_id: str
    violations: tuple[Violation, ...]


class Draining(Struct, frozen=True, gc=False):
    """Broker: it is stopping; finish open queries, then detach.

    Attributes:
        remaining_ms: Milliseconds until it closes the session.
    """

    remaining_ms: int


Outbound = Welcome | Ask | Cancel | Rejection | Draining
"""Anything that the broker says."""
