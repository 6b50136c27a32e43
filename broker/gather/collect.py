"""One request's lanes, gathered: all asked at once, one deadline, nothing left behind.

Everything happens in the callbacks of the event loop, in the order in which things arrive: no lane has a task of its
own, and a request has one timer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.core.lanes import Lane, LaneUpdate
from broker.gather.clock import Clock, Timer
from broker.gather.fabric import Fabric
from broker.gather.gathering import Gathering, LieReport, ReadBatch, WantedLane
from broker.gather.lane import OpenLane
from broker.gather.quarantine import Conduct
from broker.limits.shares import Holding
from broker.wire.events import Query


class Collector:
    """Gathers for all requests of a broker."""

    def __init__(
        self,
        *,
        fabric: Fabric,
        conduct: Conduct,
        clock: Clock,
        read: ReadBatch,
        lane_bytes: int,
        hedges: Mapping[str, float],
    ) -> None:
        """Makes a collector; the arguments are those of :class:`~broker.gather.gathering.Gathering`."""
        self._fabric = fabric
        self._conduct = conduct
        self._clock = clock
        self.configure(read=read, lane_bytes=lane_bytes, hedges=hedges)

    def configure(self, *, read: ReadBatch, lane_bytes: int, hedges: Mapping[str, float]) -> None:
        """Gathers by other rules what begins from now on."""
        self._read = read
        self._lane_bytes = lane_bytes
        self._hedges = hedges

    def collection(
        self,
        wanted: Sequence[WantedLane],
        query: Query,
        deadline: float,
        *,
        held: Holding,
        on_update: Callable[[LaneUpdate], None],
        on_lie: Callable[[LieReport], None],
        on_done: Callable[[], None],
        on_lane: Callable[[Lane], None] | None = None,
    ) -> Collection:
        """One request's lanes, to be started.

        A provider that is late, lost, silent or hostile is named by how its lane ended and is never an error here.

        Args:
            wanted: The lanes, each provider once.
            query: What is asked of the providers. Its ``max_frames`` and ``max_tokens`` are the grant of every lane
                that has none of its own, and of every push.
            deadline: Moment of the clock at which collecting ends.
            held: What the request holds; what is gathered takes its room of it, for as long as the request lasts.
            on_update: Called for every lane when its first frames came, now and then while more come, and when it
                ended, from within the event loop; it must return at once and not raise.
            on_lie: Called for every lie that was found, likewise.
            on_done: Called once, when the last lane has ended, at the deadline at the latest; likewise.
            on_lane: Called with every lane as it ends, after ``on_update``, likewise; None: no one waits for them.
        """
        gathering = Gathering(
            fabric=self._fabric,
            conduct=self._conduct,
            clock=self._clock,
            read=self._read,
            held=held,
            lane_bytes=self._lane_bytes,
            hedges=self._hedges,
            query=query,
            deadline=deadline,
            on_update=on_update,
            on_lie=on_lie,
        )
        return Collection(wanted, gathering, on_done, on_lane)


class Collection:
    """One request's lanes while they are gathered, without a task: it calls back when the last has ended."""

    def __init__(
        self,
        wanted: Sequence[WantedLane],
        gathering: Gathering,
        on_done: Callable[[], None],
        on_lane: Callable[[Lane], None] | None = None,
    ) -> None:
        """Makes a collection that asks no one before :meth:`start`; ``on_done`` is called once, from there or later."""
        self._clock = gathering.clock
        self._deadline = gathering.deadline
        self._on_done = on_done
        self._on_lane = on_lane
        self._ended: dict[str, Lane] = {}
        self._lanes = [OpenLane(lane, gathering, self._lane_ended) for lane in wanted]
        self._timer: Timer | None = None

    def start(self) -> None:
        """Opens every lane; pushed ones first, since only these can be refused.

        Raises:
            AlreadyExists: ``PUSH_EXPECTED``: another request waits for one of the pushes; no provider was asked. To be
                closed like one that started.
        """
        if not self._lanes:
            self._on_done()
            return
        self._timer = self._clock.call_at(self._deadline, self._expire)
        for lane in self._lanes:
            if lane.wanted.push is not None:
                lane.open()
        for lane in self._lanes:
            if lane.wanted.push is None:
                lane.open()

    def lanes(self) -> list[Lane]:
        """The lanes in the order wanted; once all have ended and before :meth:`close`."""
        return [self._ended[lane.wanted.provider] for lane in self._lanes]

    def close(self) -> None:
        """Stops whatever still runs, tells every provider that is still asked, and lets go of all; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if len(self._ended) < len(self._lanes):
            for lane in self._lanes:
                lane.abandon()
        self._lanes = []
        self._ended = {}

    def _expire(self) -> None:
        for lane in self._lanes:
            lane.expire()

    def _lane_ended(self, lane: Lane) -> None:
        self._ended[lane.provider] = lane
        if self._on_lane is not None:
            self._on_lane(lane)
        if len(self._ended) == len(self._lanes):
            self._on_done()
