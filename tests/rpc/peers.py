"""Peers that speak the contract in raw bytes, so that what the broker really sends and takes is what is tested."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from google.rpc import status_pb2

from broker.client.channel import end_sending, send
from broker.core.composition import Composition
from broker.core.frames import Frame
from broker.core.request import CompositionRequest
from broker.core.scores import UNIT, ScoreScale
from broker.errors import BrokerError
from broker.wire import sessions
from broker.wire.batches import join_batch
from broker.wire.compositions import CompositionReader
from broker.wire.events import Ask, Batch, Hello, Inbound, LaneEnded, Outbound, Welcome
from broker.wire.frames import frame_message
from broker.wire.listings import ListedProvider, read_providers
from broker.wire.pushes import PushHeader, push_header, push_part
from broker.wire.requests import ComposeCall, compose_request
from broker.wire.status import error_from_status

COMPOSE = "/contextbroker.v1.ContextService/Compose"
ATTACH = "/contextbroker.v1.ProviderService/Attach"
PUSH = "/contextbroker.v1.ProviderService/Push"
SAFETY = 20.0
"""Seconds after which a test that hangs is ended; no test's outcome depends on it."""


def frames(*pairs: tuple[str, float | None], content: str = "") -> list[Frame]:
    """Frames by id and score; each has content of its own unless one is given."""
    return [Frame(id=name, title=name, content=content or f"content of {name}", score=score) for name, score in pairs]


def encoded(items: Iterable[Frame]) -> list[bytes]:
    return [frame_message(frame).SerializeToString() for frame in items]


@dataclass
class Answer:
    """What a call gave: its messages, and the error that it ended with; None for OK."""

    messages: list[bytes] = field(default_factory=list)
    error: BrokerError | None = None
    details: status_pb2.Status | None = None

    @property
    def responses(self) -> list[pb.ComposeResponse]:
        return [pb.ComposeResponse.FromString(message) for message in self.messages]

    @property
    def kinds(self) -> list[str]:
        """What the messages hold, in their order; of a part all that is in it."""
        names: list[str] = []
        for response in self.responses:
            of_part = [held.name for held, _ in response.part.ListFields()]
            for held, _ in response.ListFields():
                names += of_part if held.name == "part" else [held.name]
        return names

    def composition(self) -> Composition:
        if self.error is not None:
            raise self.error
        reader = CompositionReader()
        for response in self.responses:
            reader.take(response)
        return reader.result()


async def read_all(call: grpc.aio.StreamStreamCall, *, pause: float = 0.0) -> Answer:
    """Reads a call to its end, with a pause of so many seconds after each message."""
    answer = Answer()
    try:
        async with asyncio.timeout(SAFETY):
            while (message := await call.read()) is not grpc.aio.EOF:
                answer.messages.append(message)
                if pause:
                    await asyncio.sleep(pause)
    except grpc.aio.AioRpcError:
        pass
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        found = dict(await call.trailing_metadata()).get("grpc-status-details-bin")
        answer.details = None if found is None else status_pb2.Status.FromString(found)
        answer.error = error_from_status(code.name, answer.details, await call.details())
    return answer


class Attached:
    """A provider's end of a session."""

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self.call = call
        self.session_id = ""

    async def say(self, event: Inbound) -> None:
        await self.call.write(sessions.attach_request(event))

    async def say_bytes(self, data: bytes) -> None:
        await self.call.write(data)

    async def hear(self) -> Outbound | None:
        """The next event; None once the session has ended well.

        Raises:
            BrokerError: It ended with that.
        """
        async with asyncio.timeout(SAFETY):
            try:
                message = await self.call.read()
            except grpc.aio.AioRpcError:
                message = grpc.aio.EOF
        if message is not grpc.aio.EOF:
            return sessions.read_attach_response(message)
        if (error := (await read_all(self.call)).error) is not None:
            raise error
        return None

    async def hear_ask(self) -> Ask:
        event = await self.hear()
        assert isinstance(event, Ask), event
        return event

    async def frames(self, query_id: str, items: Iterable[Frame]) -> None:
        await self.say(Batch(query_id, join_batch(query_id, encoded(items))))

    async def answer(self, items: Iterable[Frame], *, failed: bool = False, message: str = "") -> Ask:
        """Waits for a question and answers it."""
        ask = await self.hear_ask()
        await self.frames(ask.query_id, items)
        await self.say(LaneEnded(ask.query_id, failed, message))
        return ask

    async def ended(self) -> BrokerError | None:
        """What the session ended with, reading past whatever else was said."""
        return (await read_all(self.call)).error


class Composing:
    """A Compose call while it is read."""

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self.call = call
        self.read: list[bytes] = []

    async def until(self, provider: str, state: str) -> None:
        """Reads up to the update that says this of a lane, such as ``COMPLETE``."""
        while True:
            async with asyncio.timeout(SAFETY):
                message = await self.call.read()
            assert message is not grpc.aio.EOF
            self.read.append(message)
            told = {update.provider_id: update.state for update in updates_of(message)}
            if told.get(provider) == composition_pb2.LaneState.Value(f"LANE_STATE_{state}"):
                return

    async def rest(self) -> Answer:
        """Reads to the end; the answer holds what was read before, too."""
        answer = await read_all(self.call)
        answer.messages[:0] = self.read
        return answer


def updates_of(message: bytes) -> Sequence[pb.LaneUpdate]:
    """The lanes that a message of an answer tells of; none where it is of another kind."""
    return pb.ComposeResponse.FromString(message).lane_updates.updates


class Peer:
    """A client on a channel of its own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def open(self, method: str, *, deadline: float | None = None, metadata: object = None) -> grpc.aio.StreamStreamCall:
        return self.channel.stream_stream(method)(timeout=deadline, metadata=metadata)

    async def call(self, method: str, *messages: bytes, end: bool = True, deadline: float | None = None) -> Answer:
        """Sends messages and reads the answer, over a stream whatever the method is declared to be."""
        call = self.open(method, deadline=deadline)
        try:
            for message in messages:
                # Not `call.write`: where the call has ended meanwhile, that puts a status of its own over the real one.
                if not await send(call, message):
                    return await read_all(call)
            if end:
                await end_sending(call)
            return await read_all(call)
        except asyncio.CancelledError:
            # What was given up while it was sent would else stay open until the broker ends it.
            call.cancel()
            raise

    async def compose(self, *, deadline: float | None = None, **asked: object) -> Answer:
        """A Compose call; keywords are those of ``ComposeCall`` and ``CompositionRequest``."""
        return await self.call(COMPOSE, compose_bytes(**asked), deadline=deadline)

    async def composing(self, **asked: object) -> Composing:
        """A Compose call that was sent and not read yet."""
        call = self.open(COMPOSE)
        await call.write(compose_bytes(**asked))
        await call.done_writing()
        return Composing(call)

    async def attach(self, provider: str, instance: str = "one", scale: ScoreScale = UNIT, **more: object) -> Attached:
        """A session that stands; its Welcome was heard."""
        attached = Attached(self.open(ATTACH))
        await attached.say(Hello(provider, instance, scale=scale, **more))
        welcome = await attached.hear()
        assert isinstance(welcome, Welcome), welcome
        attached.session_id = welcome.session_id
        return attached

    async def providers(self) -> dict[str, ListedProvider]:
        """What ListProviders says, by name."""
        answer = await self.call("/contextbroker.v1.ContextService/ListProviders", b"")
        listed = read_providers(pb.ListProvidersResponse.FromString(answer.messages[0]))
        return {provider.provider: provider for provider in listed}

    async def until_gone(self, provider: str) -> None:
        """Returns once no instance of a provider is attached."""
        async with asyncio.timeout(SAFETY):
            while (await self.providers())[provider].instances:
                pass

    async def push(self, provider: str, request_id: str, items: Iterable[Frame], scale: ScoreScale = UNIT) -> Answer:
        return await self.call(PUSH, push_header(PushHeader(provider, request_id, scale)), push_part(encoded(items)))


def compose_call(**asked: object) -> ComposeCall:
    of_call = {name: asked.pop(name) for name in list(asked) if name in ComposeCall.__struct_fields__}
    composed = {name: of_call.pop(name) for name in ("strategy",) if name in of_call}
    asked.setdefault("max_tokens", 4000)
    of_call.setdefault("goal", "find out")
    return ComposeCall(composition=CompositionRequest(**asked), **of_call, **composed)


def compose_message(**asked: object) -> pb.ComposeRequest:
    return compose_request(compose_call(**asked))


def compose_bytes(**asked: object) -> bytes:
    return compose_message(**asked).SerializeToString()


def rows(composition: Composition) -> dict[tuple[str, str], str]:
    """Reason of every audit row, by provider and frame; empty where it was placed."""
    return {(row.provider, row.frame_id): row.reason for row in composition.audit}


def lanes(composition: Composition) -> dict[str, str]:
    """How every lane ended."""
    return {lane.provider: lane.end.value for lane in composition.summary.lanes}


def ranked(composition: Composition) -> list[str]:
    """Ids of the placed frames, best first."""
    return [placed.frame.id for placed in sorted(composition.placed, key=lambda placed: placed.rank)]
