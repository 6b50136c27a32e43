"""The protocol of one attached provider, with no I/O in it.

Whoever owns the connection hands what arrives to :meth:`ProviderSession.receive`, sends what
:meth:`ProviderSession.take` gives whenever it is notified, and once the session is CLOSED and all of it was sent, ends
the connection with :attr:`ProviderSession.error`, or well where there is none. When the connection ends, for whatever
reason, it calls :meth:`ProviderSession.close`.

=========  ================  ===============================================================================
state      event             what happens
=========  ================  ===============================================================================
NEW        Hello             Welcome is sent, the session is offered to the fabric; OPEN.
                             A refusal of the fabric's ends the session with it.
NEW        Malformed         The session ends with InvalidArgument and the message's own reason.
NEW        anything else     The session ends: PROTOCOL_ORDER.
OPEN       ask               Ask is sent.
OPEN       Batch, LaneEnded  For an open query: taken; LaneEnded ends it. For any other: Rejection, with one text
                             for unknown, finished and foreign ones.
OPEN       Malformed         Rejection of that message.
OPEN       Detached          No new queries. Those not sent yet end LOST. DETACHED.
OPEN       Hello             The session ends: PROTOCOL_ORDER.
OPEN       drain             No new queries, Draining is sent; all else as before.
OPEN       renew             Draining is sent; all else as before, new queries too, until a newer session of the same
                             replica takes its place.
OPEN       retire            No new queries; with none open for a second the session ends well. All else as before.
DETACHED   Batch, LaneEnded  For a query that was open at Detached: as in OPEN. For any other the session ends:
                             PROTOCOL_ORDER.
DETACHED   Malformed         Rejection of that message.
DETACHED   anything else     The session ends: PROTOCOL_ORDER.
DETACHED   linger is over    With no query open for that long the session ends well. (Until then the provider may
                             end it, and what it still says is judged.)
any        close             Open queries end LOST; CLOSED.
CLOSED     anything          Nothing.
=========  ================  ===============================================================================

PROTOCOL_ORDER is a FailedPrecondition; open queries then end FAILED. A full outbox ends the session with
ResourceExhausted SLOW_CONSUMER and open queries end LOST: a request never waits for a slow provider.

Design: h11 (``_state.py``): a protocol as a state machine over events, tested without a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum, auto

from broker.core.scores import UNIT, ScoreScale
from broker.errors import BrokerError, FailedPrecondition, InvalidArgument, ResourceExhausted
from broker.gather.asked import Asked
from broker.gather.clock import Clock, Timer
from broker.gather.fabric import Ending, Fabric, InstanceKey, Sink
from broker.gather.outgoing import Outgoing
from broker.wire.events import (
    Batch,
    Cancel,
    Detached,
    Draining,
    Hello,
    Inbound,
    LaneEnded,
    Malformed,
    Outbound,
    Query,
    Rejection,
    Violation,
    Welcome,
)

NOT_OPEN = Violation(
    "QUERY_NOT_OPEN",
    "no query of this id is open in this session; send frames only for a query that was asked here, "
    "before its end and before its cancellation",
)
"""One text for queries that are unknown, finished or another's, so that it tells nothing of which."""

RETIRED_LINGER = 1.0
"""Seconds that a retired session with nothing open stays, so that the last verdict reaches the provider."""


class State(Enum):
    """Where a session stands."""

    NEW = auto()
    OPEN = auto()
    DETACHED = auto()
    CLOSED = auto()


def _unheard() -> None:
    """Tells no one."""


class ProviderSession:
    """One attached provider; an :class:`~broker.gather.fabric.Instance` once it said Hello.

    Attributes:
        error: What to end the connection with; None: it ended well, or has not ended.
        key: Its identity; provider and instance are empty before Hello.
        version: The provider's own version.
        kinds: Names of the kinds it can answer with.
        scale: Of its scores.
        max_in_flight: Queries that it takes at once.
        last_seen: When it was last heard from, in seconds since the epoch.
        renewing: Whether it was told to make place for a newer session of its replica, and is asked until then.
        state: Where it stands.
        take: Gives the next event to send; None: there is none now.
    """

    def __init__(
        self,
        *,
        fabric: Fabric,
        clock: Clock,
        session_id: str,
        new_query_id: Callable[[], str],
        now: Callable[[], float],
        notify: Callable[[], None] = _unheard,
        tenant: str = "",
        outbox_limit: int = 1024,
        linger: float = 10.0,
    ) -> None:
        """Makes a session that waits for its Hello.

        Args:
            fabric: Where it is offered.
            clock: Monotonic time.
            session_id: The broker's name for it.
            new_query_id: Makes ids that no other query of the broker's has or will have, and no one can guess.
            now: Seconds since the epoch.
            notify: Called when there is something to send, and when the session is over, from within other calls. It
                may close the session and nothing else.
            tenant: Whose provider it is.
            outbox_limit: Events that may wait to be sent, beside one for each query that it takes at once.
            linger: Seconds that a detached session may stay with nothing open.
        """
        self.error: BrokerError | None = None
        self.key = InstanceKey(tenant, "", "", session_id)
        self.version = ""
        self.kinds: tuple[str, ...] = ()
        self.scale: ScoreScale = UNIT
        self.max_in_flight = 0
        self.last_seen = now()
        self.renewing = False
        self._fabric = fabric
        self._clock = clock
        self._new_query_id = new_query_id
        self._now = now
        self._notify = notify
        self._linger = linger
        self._linger_timer: Timer | None = None
        self.state = State.NEW
        self._drained = False
        self._retired = False
        self._open: dict[str, Asked] = {}
        self._answerable: Container[str] = ()
        self._outbox = Outgoing(outbox_limit, clock, self._open)
        self.take: Callable[[], Outbound | None] = self._outbox.take

    @property
    def in_flight(self) -> int:
        """Queries that are open."""
        return len(self._open)

    def receive(self, event: Inbound) -> bool:
        """Acts on what the provider said; never raises. After the end it does nothing.

        Returns:
            Whether it was of any use; if not, more of the same may come as fast as the provider can send.
        """
        if self.state is State.CLOSED:
            return True
        self.last_seen = self._now()
        match event:
            case Batch() | LaneEnded():
                asked = self._open.get(event.query_id)
                if asked is None or not asked.sent:
                    self._not_asked(event)
                    return False
                if isinstance(event, Batch):
                    asked.sink.batch(event.data, False)
                    # A batch without frames takes nothing of its lane's grant.
                    return len(event.data) > len(event.query_id) + 2
                self._forget(asked)
                asked.sink.end(Ending.FAILED if event.failed else Ending.COMPLETE, event.message)
            case Hello():
                self._attach(event)
            case Detached():
                self._detach(event)
            case Malformed() if self.state is State.NEW:
                self.close(InvalidArgument(event.reason, event.message))
            case Malformed():
                self.say(Rejection(event.query_id, (Violation(event.reason, event.message),)))
                return False
        return True

    def ask(self, query: Query, deadline: float, sink: Sink, /) -> Asked:
        """Sends a query; the sink may be ended before this returns."""
        asked = Asked(self._new_query_id(), query, deadline, sink, self)
        if self.state is State.OPEN:
            self._open[asked.query_id] = asked
            self.say(asked)
        else:
            sink.end(Ending.LOST, "the instance takes no more queries")
        return asked

    def say(self, item: Outbound | Asked) -> None:
        """Has something sent; where too much waits already, the session ends."""
        if self._outbox.put(item):
            self._notify()
            return
        self._outbox.close(discard=True)
        message = f"{self._outbox.limit} events wait to be read; read the session as they come"
        self.close(ResourceExhausted("SLOW_CONSUMER", message, quota="session outbox", retry_after=1.0))

    def cancel(self, asked: Asked) -> None:
        """Takes back a query of its own; the provider is told if it was asked."""
        if self._open.get(asked.query_id) is asked:
            self._forget(asked)
            if asked.sent:
                self.say(Cancel(asked.query_id))

    def drain(self, remaining_ms: int, /) -> None:
        """Tells the provider that the broker stops in so many milliseconds; it is asked no more."""
        if self.state is State.OPEN:
            self._fabric.withdraw(self)
            self._drained = True
            self.say(Draining(remaining_ms))

    def renew(self, remaining_ms: int) -> None:
        """Tells the provider to attach anew within so many milliseconds; until it does it is asked as before."""
        if self.state is State.OPEN and not (self._drained or self._retired):
            self.renewing = True
            self.say(Draining(remaining_ms))

    def retire(self) -> None:
        """Asks no more; what is open is finished, then the session ends well. Idempotent."""
        self._fabric.withdraw(self)
        self._retired = True
        self._rest()

    def close(self, error: BrokerError | None = None, /, *, ending: Ending = Ending.LOST) -> None:
        """Ends the session; idempotent, and the first call's error stays.

        Args:
            error: What to end the connection with; None: nothing went wrong, or there is no connection any more.
            ending: How open queries end.
        """
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.error = error
        self._fabric.withdraw(self)
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._outbox.close()
        left = list(self._open.values())
        self._open.clear()
        reason = "the instance was lost before it ended its answer" if error is None else error.message
        for asked in left:
            asked.sink.end(ending, reason)
        # For the last time. Whoever carries the session holds it too: a circle, which would keep both.
        notify, self._notify = self._notify, _unheard
        notify()

    def _attach(self, hello: Hello) -> None:
        if self.state is not State.NEW:
            self._out_of_order(hello)
            return
        self.key = InstanceKey(self.key.tenant, hello.provider, hello.instance, self.key.session)
        self.version = hello.version
        self.kinds = hello.kinds
        self.scale = hello.scale
        self.max_in_flight = hello.max_in_flight
        self._outbox.limit += hello.max_in_flight
        self.state = State.OPEN
        # Queued before the offer: from then on queries may come, and Welcome is the first message.
        self.say(Welcome(self.key.session))
        try:
            self._fabric.offer(self)
        except BrokerError as error:
            self._outbox.close(discard=True)
            self.close(error)

    def _not_asked(self, event: Batch | LaneEnded) -> None:
        if self.state is State.NEW or (self.state is State.DETACHED and event.query_id not in self._answerable):
            self._out_of_order(event)
        else:
            self.say(Rejection(event.query_id, (NOT_OPEN,)))

    def _detach(self, event: Detached) -> None:
        if self.state is not State.OPEN:
            self._out_of_order(event)
            return
        self.state = State.DETACHED
        self._fabric.withdraw(self)
        unsent = [asked for asked in self._open.values() if not asked.sent]
        for asked in unsent:
            del self._open[asked.query_id]
        self._answerable = frozenset(self._open)
        self._rest()
        for asked in unsent:
            asked.sink.end(Ending.LOST, "the instance detached before it was asked")

    def _out_of_order(self, event: Inbound) -> None:
        said = type(event).__name__
        state = "before Hello" if self.state is State.NEW else f"in state {self.state.name}"
        message = f"{said} {state}: say Hello first and once, and after Detach only what finishes open queries"
        self.close(FailedPrecondition("PROTOCOL_ORDER", message), ending=Ending.FAILED)

    def _forget(self, asked: Asked) -> None:
        del self._open[asked.query_id]
        if self._retired or self.state is State.DETACHED:
            self._rest()

    def _rest(self) -> None:
        """With nothing left to answer, a session that is asked no more is given a while, then ends."""
        detached = self.state is State.DETACHED
        leaving = detached or (self._retired and self.state is State.OPEN)
        if leaving and not self._open and self._linger_timer is None:
            linger = self._linger if detached else RETIRED_LINGER
            self._linger_timer = self._clock.call_at(self._clock.time() + linger, self.close)
