"""What lanes are made of: what a request wants, what all its lanes share, and what is reported of a lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from broker.core.frames import Frame
from broker.core.lanes import Grant, LaneUpdate, Lie, Unreadable
from broker.core.scores import ScoreScale
from broker.gather.clock import Clock
from broker.gather.fabric import Fabric, InstanceKey, PushKey
from broker.gather.quarantine import Conduct
from broker.limits.shares import Holding
from broker.wire.events import Query


class Unread(Protocol):
    """The frames of one batch, in the order sent; a part of them is read when it is asked for.

    Their texts are decoded from UTF-8, so that none holds what that cannot.
    """

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, part: slice, /) -> Sequence[Frame | Unreadable]:
        """A part of them; what cannot be read costs nothing beside it."""


ReadBatch = Callable[[bytes], Unread]
"""Looks into a batch; raises ``BrokerError`` for bytes that are none."""


class WantedLane(Struct, frozen=True, gc=False):
    """One lane that a request wants.

    Attributes:
        provider: The provider.
        push: What it will push under; None: it is asked.
        scale: Its scale as far as known, for a lane in which it says nothing.
        grant: What it may hold; None: what the query says. Whoever is asked is told of it. Whoever pushes may not be
            able to know it: a push is held to what the query says, and trimmed to this when it is composed.
        traceparent: W3C trace context of the lane, which whoever is asked is told of; empty: none.
    """

    provider: str
    push: PushKey | None = None
    scale: ScoreScale | None = None
    grant: Grant | None = None
    traceparent: str = ""

    def granted(self, query: Query) -> Grant:
        """What it may hold of a query."""
        return self.grant if self.grant is not None else Grant(query.max_frames, query.max_tokens)


class LieReport(Struct, frozen=True, gc=False):
    """A provider lied. To be reported loudly; it holds nothing of any frame's content.

    Attributes:
        provider: The provider; as a whole it sits out.
        instance: Which of its instances lied; None: it pushed.
        lie: What was proven.
        offered: Frames that it had offered by then.
        sits_out: Seconds from now; 0.0: it sat out already.
    """

    provider: str
    instance: InstanceKey | None
    lie: Lie
    offered: int
    sits_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """What every lane of a request shares.

    Attributes:
        fabric: Where instances and pushes are.
        conduct: Who lied how often.
        clock: Monotonic time.
        read: The frames of one batch; raises ``BrokerError`` for bytes that are no batch.
        held: What the request holds: the bytes of every batch take their room of it, and its owner gives it back.
        lane_bytes: Of all batches of one answer.
        query: What is asked, and the grant of every lane that has none of its own.
        deadline: Moment of the clock at which collecting ends.
        on_update: Told of every lane's first frames, now and then of how many came, and of its end; must not raise.
        on_lie: Told of every lie; must not raise.
        hedges: By provider, seconds after which a second instance is asked too, if the first has not ended its answer;
            of one that is not named, none is.
    """

    fabric: Fabric
    conduct: Conduct
    clock: Clock
    read: ReadBatch
    held: Holding
    lane_bytes: int
    query: Query
    deadline: float
    on_update: Callable[[LaneUpdate], None]
    on_lie: Callable[[LieReport], None]
    hedges: Mapping[str, float] = field(default_factory=dict)
