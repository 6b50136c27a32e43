"""Random histories of providers and orchestrators against a real broker, over real connections, all written down.

A history is some providers, some requests and a few dozen steps, drawn from its seed. What it did stands in the
recording; the checker judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import grpc.aio
from msgspec.structs import replace

from broker.client.channel import end_sending, send
from broker.core.composition import Composition
from broker.core.frames import Frame, digest_of
from broker.errors import BrokerError
from broker.wire import sessions
from broker.wire.batches import join_batch
from broker.wire.events import Ask, Batch, Cancel, Detached, LaneEnded, Rejection
from broker.wire.requests import InlineLane
from tests.faults.connections import connections
from tests.faults.recording import Recording, audit_of, placed_of, shown
from tests.rpc.peers import COMPOSE, SAFETY, Attached, Peer, compose_bytes, encoded, read_all

BROKEN = b"\xff\xff"
"""A frame that does not parse."""


class RecordedSession:
    """A provider's session that writes down what it says and hears."""

    def __init__(self, history: str, provider: str, recording: Recording) -> None:
        self.provider = provider
        self.open: dict[str, str] = {}
        self.heard: list[str] = []
        self._fresh: asyncio.Queue[str | None] = asyncio.Queue()
        self._history = history
        self._recording = recording
        self._attached: Attached | None = None
        self._reader: asyncio.Task[None] | None = None

    async def attach(self, peer: Peer, instance: str, **more: object) -> bool:
        """Whether the broker took it."""
        try:
            self._attached = await peer.attach(self.provider, instance, **more)
        except BrokerError:
            return False
        self._reader = asyncio.create_task(self._read(self._attached))
        return True

    async def next_query(self) -> str | None:
        """The next question; None once the session is over."""
        return await self._fresh.get()

    async def send(self, query: str, frames: Sequence[Frame], *, broken: int = 0, times: int = 1) -> None:
        """Sends a batch, the same bytes so many times."""
        lines = shown(frames) + broken * [["", digest_of(BROKEN)]]
        data = join_batch(query, [*encoded(frames), *broken * [BROKEN]])
        for _ in range(times):
            self._recording.write(self._history, "sent", query=query, frames=lines)
            await self._say(Batch(query, data))

    async def end(self, query: str, *, failed: bool = False) -> None:
        self.open.pop(query, None)
        self._recording.write(self._history, "ended", query=query, failed=failed)
        await self._say(LaneEnded(query, failed, "could not" if failed else ""))

    async def detach(self) -> None:
        await self._say(Detached())

    def die(self) -> None:
        """Without a word."""
        if self._attached is not None:
            self._attached.call.cancel()

    async def finish(self) -> None:
        """Ends in order, hearing the broker's last word first."""
        if self._attached is None or self._reader is None:
            return
        await self.detach()
        await end_sending(self._attached.call)
        await asyncio.wait_for(self._reader, SAFETY)

    async def _say(self, event: Batch | LaneEnded | Detached) -> None:
        assert self._attached is not None
        # A session that is over takes no more; the reader notes its end.
        with contextlib.suppress(asyncio.CancelledError):
            await send(self._attached.call, sessions.attach_request(event))

    async def _read(self, attached: Attached) -> None:
        why = "ended"
        try:
            while (event := await self._hear(attached)) is not None:
                if isinstance(event, Ask):
                    asked = {"request": event.query.goal, "provider": self.provider, "query": event.query_id}
                    self._recording.write(self._history, "asked", session=attached.session_id, **asked)
                    self.open[event.query_id] = event.query.goal
                    self.heard.append(event.query_id)
                    self._fresh.put_nowait(event.query_id)
                elif isinstance(event, Cancel | Rejection):
                    self.open.pop(event.query_id, None)
                    self._recording.write(self._history, "told", query=event.query_id, what=type(event).__name__)
        except BrokerError as error:
            why = error.reason
        except asyncio.CancelledError:
            why = "died"
        self.open.clear()
        self._fresh.put_nowait(None)
        if why != "ended":
            self._recording.write(self._history, "gone", session=attached.session_id, why=why)

    async def _hear(self, attached: Attached) -> object:
        # Not `hear`, which gives up after a time: a session may be quiet for as long as it likes.
        try:
            message = await attached.call.read()
        except grpc.RpcError:
            message = grpc.aio.EOF
        if message is grpc.aio.EOF:
            if (error := (await read_all(attached.call)).error) is not None:
                raise error
            return None
        return sessions.read_attach_response(message)


class Asking:
    """A request of an orchestrator's, from its question to its answer or to where it does not wait any more."""

    def __init__(self, history: str, request: str, call: grpc.aio.StreamStreamCall, recording: Recording) -> None:
        self._history = history
        self._request = request
        self._call = call
        self._recording = recording
        self.task: asyncio.Task[None]
        self.composition: Composition | None = None
        self.error: BrokerError | None = None
        self.seconds = 0.0

    def start(
        self, *, inline: Mapping[str, Sequence[Frame]] | None = None, pause: float = 0.0, **asked: object
    ) -> None:
        """Asks, and waits ``pause`` seconds before it reads each message; more keywords are ``compose_bytes``'s."""
        given = inline or {}
        told = {name: shown(frames) for name, frames in given.items()}
        seconds = asked.get("collect_timeout")
        self._recording.write(self._history, "asks", request=self._request, seconds=seconds, inline=told)
        lanes = tuple(InlineLane(name, frames=tuple(frames)) for name, frames in given.items())
        data = compose_bytes(goal=self._request, request_id=self._request, inline_lanes=lanes, **asked)
        self.task = asyncio.create_task(self._run(data, pause))

    def cancel(self) -> None:
        if self.task.cancel():
            self._recording.write(self._history, "left", request=self._request)

    async def _run(self, data: bytes, pause: float) -> None:
        started = time.monotonic()
        try:
            if await send(self._call, data):
                await end_sending(self._call)
            answer = await read_all(self._call, pause=pause)
        except asyncio.CancelledError:
            self._call.cancel()
            raise
        self.seconds = time.monotonic() - started
        told: dict[str, object] = {"request": self._request, "seconds": self.seconds}
        self.error = answer.error
        if answer.error is None:
            composition = self.composition = answer.composition()
            self._recording.write(self._history, "answered", code="OK", placed=placed_of(composition), **told)
            self._recording.write(self._history, "audit", request=self._request, **audit_of(composition))
        else:
            code = f"{answer.error.code} {answer.error.reason}"
            self._recording.write(self._history, "answered", code=code, placed=[], **told)


class History:
    """One history: ``await History(...).run()``."""

    def __init__(self, name: str, seed: int, connect: Callable[[], Peer], recording: Recording) -> None:
        self._name = name
        self._random = random.Random(seed)
        self._connect = connect
        self._recording = recording
        self._providers = [f"p{name}-{i}" for i in range(self._random.randint(1, 3))]
        self._sessions: list[RecordedSession] = []
        self._requests: list[Asking] = []
        self._pushes: list[asyncio.Task[None]] = []
        self._frames = 0
        # Some actors answer at once and in full, so that whole lanes are in every mix.
        self._steps: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._ask, 4),
            (self._send, 24),
            (self._end, 10),
            (self._pause, 8),
            (self._die, 1),
            (self._attach, 1),
            (self._detach, 1),
            (self._cancel, 1),
            (self._push, 1),
            (self._send_late, 2),
        ]

    async def run(self) -> None:
        """Everything, to the end of the last session."""
        for provider in self._providers:
            for instance in range(self._random.choice((1, 1, 2))):
                await self._attach(provider, f"i{instance}")
        await self._ask()
        steps, weights = zip(*self._steps, strict=True)
        for step in self._random.choices(steps, weights, k=self._random.randint(15, 40)):
            await step()
        for session in self._sessions:
            for query in list(session.open):
                if self._random.random() < 0.7:
                    await session.end(query)
        if self._requests or self._pushes:
            asking = (request.task for request in self._requests)
            await asyncio.wait_for(asyncio.gather(*asking, *self._pushes, return_exceptions=True), SAFETY)
        await asyncio.gather(*(session.finish() for session in self._sessions))

    async def _attach(self, provider: str = "", instance: str = "") -> None:
        session = RecordedSession(self._name, provider or self._random.choice(self._providers), self._recording)
        limit = self._random.choice((1, 8, 64))
        if await session.attach(self._connect(), instance or f"i{self._random.randrange(2)}", max_in_flight=limit):
            self._sessions.append(session)

    def _made(self, provider: str) -> list[Frame]:
        made = []
        for _ in range(self._random.choice((1, 1, 2, 3, 5))):
            self._frames += 1
            # Some evidence is found by several.
            content = f"shared {self._random.randrange(4)}" if self._random.random() < 0.2 else f"text {self._frames}"
            frame = Frame(f"{self._name}.{self._frames}", "a title", f"{self._name} {content}", self._random.random())
            kind = self._random.random()
            if kind < 0.05:
                frame = replace(frame, score=7.0)
            elif kind < 0.08:
                frame = replace(frame, title="")
            elif kind < 0.095:
                frame = replace(frame, token_cost=999)
            made.append(frame)
        return made

    def _some_open(self) -> tuple[RecordedSession, str] | None:
        found = [(session, query) for session in self._sessions for query in session.open]
        return self._random.choice(found) if found else None

    async def _send(self) -> None:
        if (chosen := self._some_open()) is not None:
            session, query = chosen
            again, broken = self._random.random() < 0.05, self._random.random() < 0.05
            await session.send(query, self._made(session.provider), broken=int(broken), times=2 if again else 1)

    async def _send_late(self) -> None:
        """For a question that may be over, or another session's."""
        heard = [query for session in self._sessions for query in session.heard]
        if heard:
            session = self._random.choice(self._sessions)
            query = self._random.choice(session.heard or heard)
            if query in session.heard:
                await session.send(query, self._made(session.provider))
            else:
                # Nothing of it is written down for that question: it was never this one's to answer.
                stranger = Frame("stranger", "a title", f"{self._name} of a stranger", 0.5)
                await session._say(Batch(query, join_batch(query, encoded([stranger]))))

    async def _end(self) -> None:
        if (chosen := self._some_open()) is not None:
            await chosen[0].end(chosen[1], failed=self._random.random() < 0.1)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.002, 0.01, 0.03)))

    async def _die(self) -> None:
        if self._sessions:
            self._random.choice(self._sessions).die()

    async def _detach(self) -> None:
        if self._sessions:
            await self._random.choice(self._sessions).detach()

    async def _cancel(self) -> None:
        if self._requests:
            self._random.choice(self._requests).cancel()

    async def _push(self) -> None:
        number = max(0, len(self._requests) - self._random.randrange(2))
        request = f"{self._name}.r{number}"
        frames = [replace(frame, token_cost=None) for frame in self._made("pusher")]
        self._pushes.append(asyncio.create_task(self._pushing(request, frames)))

    async def _pushing(self, request: str, frames: list[Frame]) -> None:
        provider = f"p{self._name}-push"
        answer = await self._connect().push(provider, request, frames)
        told = {"request": request, "provider": provider, "frames": shown(frames), "taken": answer.error is None}
        self._recording.write(self._name, "pushed", **told)

    async def _ask(self) -> None:
        request = f"{self._name}.r{len(self._requests)}"
        asked: dict[str, object] = {
            "providers": self._attached_providers(),
            # Long against a loopback, short against a history: both whole and cut lanes come of it.
            "collect_timeout": self._random.choice((0.1, 0.3, 0.6)),
            "max_tokens": self._random.choice((200, 4000)),
        }
        if self._random.random() < 0.2:
            asked["expect_pushes"] = (f"p{self._name}-push",)
        inline: dict[str, list[Frame]] = {}
        if self._random.random() < 0.2:
            inline["memory"] = [Frame(f"{request}.m{i}", "mine", f"{request} mine {i}", 0.5) for i in range(2)]
        if not (asked["providers"] or inline or "expect_pushes" in asked):
            return
        asked["no_providers"] = not asked["providers"]
        asking = Asking(self._name, request, self._connect().open(COMPOSE), self._recording)
        asking.start(inline=inline, **asked)
        self._requests.append(asking)

    def _attached_providers(self) -> tuple[str, ...]:
        known = {session.provider for session in self._sessions}
        return tuple(name for name in self._providers if name in known)


async def run_histories(
    address: str, recording: Recording, numbers: range, *, seed: int, at_once: int, channels: int = 4
) -> None:
    """Runs histories, so many at once, over a few connections."""
    waiting = iter(numbers)
    async with connections(address, channels) as connect, asyncio.TaskGroup() as group:

        async def worker() -> None:
            for number in waiting:
                await History(str(number), seed + number, connect, recording).run()

        for _ in range(at_once):
            group.create_task(worker())
