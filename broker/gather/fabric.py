"""The fabric port: the one narrow way in which a request reaches provider instances, wherever they are attached.

A fabric knows which instances can be asked, asks them, and carries their answers back as bytes. It knows nothing of
frames, scores or compositions, and no call, queue or message object of a transport crosses it. These rules hold for
every implementation, and one contract suite checks them on each:

* :meth:`Fabric.ask` never raises and never awaits. A sink is never called before the call that it was given to has
  returned; after that it is called synchronously, in order, and ended exactly once, unless its handle is cancelled
  first: then it is silent from that moment on.
* A batch that was lost on the way becomes the ending ``LOST``, never a hole: what a sink got before its ending is a
  prefix of what the instance sent, and all of it where the ending is ``COMPLETE``.
* Asking another instance after ``LOST`` is a new attempt with a new sink; nothing of the old one comes with it.
* A query crosses without its id, a deadline as the time that remains, a batch as the bytes that were sent.
* An instance is one session of one replica: the same replica attaching again is another instance, and takes the place
  of the old one, which from then on is heard in no lane. Only one that was told to renew itself finishes what is open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from broker.core.scores import ScoreScale
from broker.errors import BrokerError, Unavailable
from broker.wire.events import Query, Violation


class InstanceKey(Struct, frozen=True, gc=False, order=True):
    """Names one session of one replica of one provider.

    Attributes:
        tenant: Whose provider it is; empty where there are no tenants.
        provider: The provider.
        instance: The replica, stable over reconnects.
        session: The broker's name for this session of it.
    """

    tenant: str
    provider: str
    instance: str
    session: str


class PushKey(Struct, frozen=True, gc=False, order=True):
    """Names what one provider delivers for one request.

    Attributes:
        tenant: Whose request it is; empty where there are no tenants.
        request_id: The request's name.
        provider: The provider.
    """

    tenant: str
    request_id: str
    provider: str


class Push(Struct, frozen=True, gc=False):
    """A one-shot delivery, whole.

    Attributes:
        scale: Of its scores.
        parts: Its batches, as the bytes that were sent.
    """

    scale: ScoreScale
    parts: tuple[bytes, ...]


class Ending(Enum):
    """How an instance's answer ended."""

    COMPLETE = "COMPLETE"
    """The provider sent all that it had."""
    FAILED = "FAILED"
    """The provider said that it could not, or broke the protocol."""
    LOST = "LOST"
    """The instance, or a batch of its, was lost on the way; another instance may be asked."""


class Sink(Protocol):
    """Takes one answer. Both methods return at once and raise nothing."""

    def batch(self, data: bytes, last: bool, /) -> None:
        """Takes one batch, as sent. ``last`` is set where it is known that none follows; the ending still comes."""

    def end(self, ending: Ending, message: str, /) -> None:
        """Takes the ending, once; ``message`` says why where it is not ``COMPLETE``."""


class PushSink(Sink, Protocol):
    """Takes one push."""

    def begin(self, scale: ScoreScale, /) -> None:
        """Takes the scale that the push declared, before anything else."""


class Handle(Protocol):
    """What the asker holds of an instance that it asked."""

    def cancel(self) -> None:
        """Stops the answer and tells the instance so. Idempotent, harmless after the ending; the sink is silent."""

    def reject(self, violations: Sequence[Violation], /) -> None:
        """Tells the instance what of its answer was not taken; also after the ending. Lost with the instance."""


class Ref(Protocol):
    """An instance that can be asked; opaque but for whose it is and what its scores are. Hashable."""

    @property
    def key(self) -> InstanceKey:
        """Whose it is."""

    @property
    def scale(self) -> ScoreScale:
        """Of its scores."""


class Instance(Protocol):
    """What is offered to a fabric: one attached session."""

    @property
    def key(self) -> InstanceKey:
        """Its identity."""

    @property
    def version(self) -> str:
        """The provider's own version."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds it can answer with; empty: any."""

    @property
    def scale(self) -> ScoreScale:
        """Of its scores."""

    @property
    def in_flight(self) -> int:
        """Queries that it is answering."""

    @property
    def max_in_flight(self) -> int:
        """Queries that it takes at once, at least 1."""

    @property
    def last_seen(self) -> float:
        """When it was last heard from, in seconds since the epoch."""

    @property
    def renewing(self) -> bool:
        """Whether it was told to make place for a newer session of its replica, which then retires it."""

    def ask(self, query: Query, deadline: float, sink: Sink, /) -> Handle:
        """Asks it. The sink may be ended before this returns; it never raises."""

    def drain(self, remaining_ms: int, /) -> None:
        """Tells it that the broker is stopping; what is open may still be answered."""

    def retire(self) -> None:
        """Another has taken its place: it is asked no more, finishes what is open, then ends. Idempotent."""

    def close(self, error: BrokerError | None = None, /) -> None:
        """Ends the session, with that status; open queries end ``LOST``. Idempotent."""


class InstanceStatus(Struct, frozen=True, gc=False, kw_only=True):
    """One attached instance, as listed; the fields are those of :class:`Instance`."""

    key: InstanceKey
    version: str
    kinds: tuple[str, ...]
    scale: ScoreScale
    in_flight: int
    max_in_flight: int
    last_seen: float


class Fabric(Protocol):
    """All that a request knows of where providers are."""

    def offer(self, instance: Instance, /) -> None:
        """Makes an instance one that can be asked; an older session of the same replica makes place for it.

        The older one is retired where it is renewing, and else closed, ``FENCED``.

        Raises:
            FailedPrecondition: ``SCALE_CONFLICT``: the provider's other instances declare another scale.
            ResourceExhausted: ``FLAPPING``: the replica was replaced too often in the last minute;
                ``PROVIDERS_LIMIT``: too many providers are attached.
            Unavailable: ``STOPPING``: the broker takes no new instances.
        """

    def withdraw(self, instance: Instance, /) -> None:
        """Makes it one that is not asked any more; idempotent. Queries that are open stay open."""

    def pick(self, provider: str, tried: Collection[Ref], /) -> tuple[Ref | None, int]:
        """The provider's least busy instance that has room and was not tried, and how many queries it is answering.

        Local ones win ties, then the one that was asked longest ago. Without any the answer is ``(None, n)``: n is 0
        when no untried instance is attached, else the queries in flight at those that are, all at their limits.
        """

    def ask(self, ref: Ref, query: Query, deadline: float, sink: Sink, /) -> Handle:
        """Asks an instance; ``deadline`` is a moment of this node's monotonic clock. See the module for the rules."""

    def hold(self, key: PushKey, push: Push, ttl: float, /) -> None:
        """Delivers a push to whoever expects it, or holds it for ``ttl`` seconds.

        Raises:
            AlreadyExists: ``PUSH_REPEATED``: the same key was pushed less than its ``ttl`` ago.
            FailedPrecondition: ``SCALE_CONFLICT``: the provider's attached instances declare another scale.
            ResourceExhausted: ``PUSH_BYTES``: too much is held.
        """

    def expect(self, key: PushKey, sink: PushSink, /) -> None:
        """Hands over the push of that key, now held or still to come, once: scale, batches, ending.

        Raises:
            AlreadyExists: ``PUSH_EXPECTED``: another request expects it.
        """

    def unexpect(self, key: PushKey, /) -> None:
        """Expects it no more; idempotent, and the sink is silent."""

    def quarantine(self, provider: str, seconds: float, /) -> None:
        """Lets a provider sit out; a longer time that is running stays."""

    def release(self, provider: str, /) -> None:
        """Lets a provider sit out no more."""

    def quarantined(self, provider: str, /) -> float:
        """Seconds that a provider still sits out; 0.0: it does not."""

    def instances(self) -> tuple[InstanceStatus, ...]:
        """All that can be asked, by key."""

    async def start(self) -> None:
        """Makes the fabric ready."""

    async def stop(self, grace: float, /) -> None:
        """Takes no new instances, drains all, waits for open answers at most ``grace`` seconds, closes all."""


def stopping() -> Unavailable:
    """What ends the sessions of a broker that stops, and what refuses new ones."""
    return Unavailable("STOPPING", "the broker is stopping; attach again in a moment", retry_after=1.0)
