"""In any history of sessions and requests each frame has one fate, each asking one ending, and nothing is left behind.

A frame's fate is: it is in the outcome of the lane that it was taken for, or the lane discarded it because another
instance was asked too or in its place, or its request was cancelled, or its sender was told that it was not taken or
has been closed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from broker.core.lanes import LaneEnd
from broker.core.scores import UNIT
from broker.errors import AlreadyExists
from broker.gather.collect import Collection
from broker.gather.fabric import Push, PushKey
from broker.gather.gathering import Gathering, WantedLane
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry
from broker.gather.session import NOT_OPEN, ProviderSession, State
from broker.wire.events import Ask, Batch, Cancel, Detached, Hello, LaneEnded, Malformed, Query, Rejection, Welcome
from tests.gather.support import FakeClock, batch, frame, read
from tests.limits.support import holding

PROVIDERS = ("a", "b")
SECONDS = 2.0
HEDGES = {"b": 0.5}


class CountedSink:
    """Passes on what it gets, and checks that there is one ending and nothing after it."""

    def __init__(self, sink) -> None:
        self._sink = sink
        self.ended = False

    def batch(self, data, last, /):
        assert not self.ended
        self._sink.batch(data, last)

    def end(self, ending, message, /):
        assert not self.ended
        self.ended = True
        self._sink.end(ending, message)


class CountedHandle:
    def __init__(self, handle, sink, request, provider) -> None:
        self._handle = handle
        self.lane = (request, provider)
        self.query_id = handle.instance.query_id
        self._sink = sink
        self.cancelled = False
        self.reject = handle.reject

    def cancel(self):
        self.cancelled = True
        self._handle.cancel()

    @property
    def settled(self) -> bool:
        return self.cancelled or self._sink.ended


class CountedFabric(LocalFabric):
    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.handles: list[CountedHandle] = []
        self._sinks: list[object] = []

    def ask(self, ref, query, deadline, sink, /):
        assert all(sink is not known for known in self._sinks), "another asking has a sink of its own"
        self._sinks.append(sink)
        counted = CountedSink(sink)
        handle = CountedHandle(super().ask(ref, query, deadline, counted), counted, query.goal, ref.key.provider)
        self.handles.append(handle)
        return handle


@dataclass
class Sent:
    """One query as a provider got it, and the frames that the broker took for it."""

    session: ProviderSession
    taken: list[str] = field(default_factory=list)


@dataclass
class Request:
    name: str
    deadline: float
    collection: Collection | None = None
    done: bool = False
    over: bool = False


class World:
    """A broker without its wire, and what must be true of it. Each step takes two numbers to choose by."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pushes = Pushes(self.clock)
        self.fabric = CountedFabric(self.clock, Registry(), self.pushes)
        self.conduct = Conduct(self.clock)
        self.numbers = itertools.count()
        self.sent: dict[str, Sent] = {}
        self.pushed: dict[str, list[str]] = {}
        self.requests: list[Request] = []
        self.sessions: list[ProviderSession] = []
        self.outcomes: dict[str, str] = {}
        self.endings: dict[tuple[str, str], int] = {}
        for number in range(4):
            self.attach(number, 2)

    @property
    def running(self) -> list[Request]:
        return [request for request in self.requests if not request.over]

    # Sessions

    def attach(self, which, limit):
        session = ProviderSession(
            fabric=self.fabric,
            clock=self.clock,
            session_id=f"s{next(self.numbers)}",
            new_query_id=lambda: f"q{next(self.numbers)}",
            now=self.clock.time,
        )
        self.sessions.append(session)
        session.receive(Hello(PROVIDERS[which % 2], str(which // 2 % 2), max_in_flight=limit % 3 + 1))
        self.clock.settle()
        if session.state is State.CLOSED:
            assert session.error.reason == "FLAPPING"
            event("flapping")
        else:
            assert session.take() == Welcome(session.key.session)

    def deliver(self, *_):
        """The connections carry what waits."""
        for session in self.sessions:
            self._deliver(session)

    def _deliver(self, session) -> list[Rejection]:
        rejections = []
        while (event := session.take()) is not None:
            if isinstance(event, Ask):
                assert event.query_id not in self.sent
                assert 0 <= event.remaining_ms <= SECONDS * 1000
                self.sent[event.query_id] = Sent(session)
            elif isinstance(event, Cancel):
                assert self.sent[event.query_id].session is session
            elif isinstance(event, Rejection):
                rejections.append(event)
        return rejections

    def _choose(self, which, how) -> tuple[ProviderSession, str]:
        """Mostly an open query by the session that got it; else any by any, or one that no one got."""
        open_ids = {handle.query_id for handle in self.fabric.handles if not handle.settled}
        wanted = [(sent.session, query_id) for query_id, sent in self.sent.items() if query_id in open_ids]
        if wanted and how % 8:
            return wanted[which % len(wanted)]
        queries = [*self.sent, "nonsense"]
        return self.sessions[which % len(self.sessions)], queries[how // 8 % len(queries)]

    def send(self, which, how):
        session, query_id = self._choose(which, how)
        self._deliver(session)
        names = [f"f{next(self.numbers)}" for _ in range(how % 2 + 1)]
        more = {"token_cost": 999} if how % 17 == 16 else {}
        sent = self.sent.get(query_id)
        if sent is not None:
            # Noted before it is known, since the batch may be what ends the lane.
            before = list(sent.taken)
            sent.taken += names
        session.receive(Batch(query_id, batch(*(frame(name, **more) for name in names))))
        self.clock.settle()
        not_taken = Rejection(query_id, (NOT_OPEN,)) in self._deliver(session) or session.state is State.CLOSED
        if not_taken and sent is not None:
            sent.taken = before
        assert not_taken or sent.session is session
        event("batch not taken" if not_taken else "batch taken")

    def end(self, which, how):
        session, query_id = self._choose(which, how)
        self._deliver(session)
        session.receive(LaneEnded(query_id, how % 3 == 0, "could not" if how % 3 == 0 else ""))
        self.clock.settle()

    def mangle(self, which, _):
        self.sessions[which % len(self.sessions)].receive(Malformed("MALFORMED", "does not parse"))

    def detach(self, which, _):
        self.sessions[which % len(self.sessions)].receive(Detached())
        self.clock.settle()

    def renew(self, which, _):
        self.sessions[which % len(self.sessions)].renew(10_000)

    def die(self, which, _):
        self.sessions[which % len(self.sessions)].close()
        self.clock.settle()

    # Requests

    def ask(self, which, deliver):
        name = f"r{next(self.numbers)}"
        wanted = [WantedLane(provider) for provider in PROVIDERS]
        if which % 3 == 0:
            wanted.append(WantedLane("p", PushKey("", name, "p")))
        request = Request(name, self.clock.time() + SECONDS)
        request.collection = Collection(
            wanted,
            Gathering(
                fabric=self.fabric,
                conduct=self.conduct,
                clock=self.clock,
                read=read,
                held=holding(),
                lane_bytes=2**20,
                query=Query(goal=name, max_frames=6, max_tokens=100),
                deadline=request.deadline,
                on_update=lambda update: self._note(name, update),
                on_lie=lambda report: None,
                hedges=HEDGES,
            ),
            lambda: self._done(request),
        )
        self.requests.append(request)
        request.collection.start()
        self.clock.settle()
        if deliver % 4:
            self.deliver()

    def _note(self, name, update):
        if update.end is not None:
            key = (name, update.provider)
            self.endings[key] = self.endings.get(key, 0) + 1

    def _done(self, request) -> None:
        assert not request.done
        request.done = True

    def push(self, which, _):
        if self.requests:
            request = self.requests[which % len(self.requests)]
            name = f"f{next(self.numbers)}"
            # Noted before it is known, since the request may end with it.
            before = self.pushed.get(request.name)
            try:
                self.pushed[request.name] = [name]
                self.fabric.hold(PushKey("", request.name, "p"), Push(UNIT, (batch(frame(name)),)), 30)
            except AlreadyExists:
                self.pushed[request.name] = before
                event("push repeated")
            self.clock.settle()

    def cancel(self, which, _):
        if self.running:
            request = self.running[which % len(self.running)]
            request.collection.close()
            request.collection.close()
            request.over = True

    def pause(self, *_):
        self.clock.advance(0.3)

    def wait(self, which, _):
        self.clock.advance((2.0, 70.0)[which % 2])

    # What holds after every step

    def check(self):
        for request in self.running:
            if request.done:
                request.over = True
                for lane in request.collection.lanes():
                    assert self.endings[request.name, lane.provider] == 1
                    self._account(request, lane)
                request.collection.close()
            else:
                assert request.deadline > self.clock.time()
        listed = self.fabric.instances()
        assert all(0 <= status.in_flight <= status.max_in_flight for status in listed)
        assert len({(status.key.provider, status.key.instance) for status in listed}) == len(listed)

    def _account(self, request, lane):
        names = [candidate.frame.id for candidate in lane.candidates]
        for name in names:
            assert name not in self.outcomes, "one frame in two lanes"
            self.outcomes[name] = request.name
        event(f"lane {lane.end.value}")
        if lane.provider == "p":
            assert names == (self.pushed[request.name] if lane.end is LaneEnd.COMPLETE else [])
            return
        askings = [handle for handle in self.fabric.handles if handle.lane == (request.name, lane.provider)]
        if len(askings) > 1:
            event("another instance was asked")
        # All that was taken for the last asking, and nothing of the ones before; of two at once, for one of them.
        taken = [self.sent[asking.query_id].taken if asking.query_id in self.sent else [] for asking in askings]
        if lane.provider not in HEDGES:
            taken = taken[-1:]
        if lane.end is LaneEnd.REFUSED:
            assert names in [each[: len(names)] for each in taken]
        else:
            assert names in (taken or [[]])

    def finish(self):
        """Everything ends; nothing may be left."""
        for request in self.running:
            request.collection.close()
        assert all(handle.settled for handle in self.fabric.handles)
        assert all(session.in_flight == 0 for session in self.sessions)
        assert not self.fabric._answers
        assert self.pushes.waiting == 0
        for session in self.sessions:
            session.close()
        assert self.fabric.instances() == ()
        self.clock.advance(100)
        assert self.clock.pending == 0
        assert self.pushes.bytes == 0
        assert all(record.trial is None for record in self.conduct._records.values())


OFTEN = ["ask", "send", "send", "send", "end", "end", "pause"]
SELDOM = ["attach", "renew", "die", "detach", "push", "cancel", "wait", "mangle", "deliver"]
STEPS = st.tuples(st.sampled_from(3 * OFTEN + SELDOM), st.integers(0, 1000), st.integers(0, 1000))


@settings(max_examples=150)
@given(st.lists(STEPS, min_size=20, max_size=60))
def test_in_any_history_every_frame_has_one_fate_and_every_asking_one_ending(history):
    world = World()
    for step, which, how in history:
        getattr(world, step)(which, how)
        world.check()
    world.finish()
