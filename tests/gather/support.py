"""What the tests of gathering share: a clock moved by hand, a codec without a wire, instances that do as told."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.core.frames import Frame
from broker.core.lanes import Unreadable
from broker.core.scores import UNIT, ScoreScale
from broker.errors import BrokerError, InvalidArgument
from broker.gather.fabric import Ending, InstanceKey, Sink
from broker.wire.events import Query, Violation
from tests.contract.link import Link

QUERY = Query(goal="why", max_frames=5, max_tokens=100)


class FakeTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Time stands still until it is moved; callbacks run in :meth:`settle` and :meth:`advance`, never by themselves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._soon: list[FakeTimer] = []
        self._count = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def call_soon(self, callback: Callable[[], object], /) -> FakeTimer:
        timer = FakeTimer(callback)
        self._soon.append(timer)
        return timer

    def settle(self) -> None:
        while self._soon:
            soon, self._soon = self._soon, []
            for timer in soon:
                self._run(timer)

    def advance(self, seconds: float) -> None:
        self.settle()
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            self._run(timer)
            self.settle()
        self.now = until

    @property
    def pending(self) -> int:
        """Callbacks that still wait."""
        return sum(timer.callback is not None for _, _, timer in self._timers) + len(self._soon)

    @staticmethod
    def _run(timer: FakeTimer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()


def frame(frame_id: str, content: str = "x", score: float | None = 0.5, **more: object) -> bytes:
    """One frame as bytes of the tests' own codec."""
    return json.dumps({"id": frame_id, "title": "t", "content": content, "score": score, **more}).encode()


def batch(*frames: bytes) -> bytes:
    return b"\n".join(frames)


def read(data: bytes) -> list[Frame | Unreadable]:
    if data.startswith(b"!"):
        raise InvalidArgument("MALFORMED", "the message is no batch")
    return [read_frame(part) for part in data.split(b"\n")] if data else []


def read_frame(data: bytes) -> Frame | Unreadable:
    try:
        return Frame(**json.loads(data))
    except (ValueError, TypeError):
        return Unreadable(len(data), "sha256:" + "0" * 64, "FRAME_MALFORMED")


@dataclass
class Recorder:
    """A sink, of an answer or of a push, that remembers."""

    calls: list[tuple[object, ...]] = field(default_factory=list)

    def begin(self, scale: ScoreScale, /) -> None:
        self.calls.append(("begin", scale))

    def batch(self, data: bytes, last: bool, /) -> None:
        self.calls.append(("batch", data, last))

    def end(self, ending: Ending, message: str, /) -> None:
        self.calls.append(("end", ending, message))

    @property
    def batches(self) -> list[bytes]:
        return [call[1] for call in self.calls if call[0] == "batch"]

    @property
    def endings(self) -> list[Ending]:
        return [call[1] for call in self.calls if call[0] == "end"]


@dataclass
class Exchange:
    """One query, as a scripted instance holds it."""

    query: Query
    deadline: float
    sink: Sink
    link: Link
    owner: ScriptedInstance
    cancelled: int = 0
    rejected: list[Violation] = field(default_factory=list)

    def send(self, *frames: bytes) -> None:
        self.sink.batch(batch(*frames), False)

    def end(self, ending: Ending = Ending.COMPLETE, message: str = "") -> None:
        self.owner.open.discard(id(self))
        self.sink.end(ending, message)

    def cancel(self) -> None:
        self.owner.open.discard(id(self))
        self.cancelled += 1

    def reject(self, violations, /) -> None:
        self.rejected.extend(violations)


class ScriptedInstance:
    """An instance that answers nothing by itself; what it was asked stands in ``asked``."""

    def __init__(
        self,
        provider: str = "a",
        instance: str = "1",
        session: str = "s",
        scale: ScoreScale = UNIT,
        max_in_flight: int = 64,
        on_ask: Callable[[Exchange], None] = lambda _: None,
    ) -> None:
        self.key = InstanceKey("", provider, instance, session)
        self.version = "1.0"
        self.kinds = ("doc",)
        self.scale = scale
        self.max_in_flight = max_in_flight
        self.last_seen = 12.0
        self.asked: list[Exchange] = []
        self.open: set[int] = set()
        self.drained: list[int] = []
        self.draining = asyncio.Event()
        self.closed: list[BrokerError | None] = []
        self.renewing = False
        self.retired = 0
        self._on_ask = on_ask

    @property
    def in_flight(self) -> int:
        return len(self.open)

    def ask(self, query: Query, deadline: float, sink: Sink, /) -> Exchange:
        exchange = Exchange(query, deadline, sink, Link(sink), self)
        self.asked.append(exchange)
        self.open.add(id(exchange))
        self._on_ask(exchange)
        return exchange

    def drain(self, remaining_ms: int, /) -> None:
        self.drained.append(remaining_ms)
        self.draining.set()

    def retire(self) -> None:
        self.retired += 1

    def close(self, error: BrokerError | None = None, /) -> None:
        self.closed.append(error)
        for exchange in self.asked:
            if id(exchange) in self.open:
                exchange.end(Ending.LOST, "gone")
