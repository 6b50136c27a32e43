"""A broker whose every word a test decides: real gRPC, the generated servicers, and nothing behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc
import grpc.aio
from contextbroker.v1 import (
    context_service_pb2,
    context_service_pb2_grpc,
    provider_service_pb2,
    provider_service_pb2_grpc,
)

from broker.errors import BrokerError
from broker.wire.status import status_proto

SAFETY = 20.0
"""Seconds after which a test that hangs is ended; no test's outcome depends on it."""


class FakeSession:
    """The broker's end of one Attach call.

    Attributes:
        hello: What the provider said of itself.
        gone: Set when the call is over.
        listening: While it is not set, at most one more message is read.
        polite: Whether the call ends well as soon as the provider ends its side.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._inbox: asyncio.Queue[provider_service_pb2.AttachRequest | None] = asyncio.Queue()
        self._verdict: asyncio.Future[BrokerError | grpc.StatusCode | None] = asyncio.Future()
        self.gone = asyncio.Event()
        self.polite = True
        self.listening = asyncio.Event()
        self.listening.set()
        self.hello = provider_service_pb2.Hello()

    async def run(self) -> None:
        reader = asyncio.create_task(self._read())
        try:
            verdict = await self._verdict
        finally:
            # First, since the wait below may itself be cancelled.
            self.gone.set()
            reader.cancel()
            await asyncio.wait({reader})
        if isinstance(verdict, BrokerError):
            details = ("grpc-status-details-bin", status_proto(verdict).SerializeToString())
            await self._context.abort(grpc.StatusCode[verdict.code], verdict.message, (details,))
        elif verdict is not None:
            await self._context.abort(verdict, "so it is")

    async def _read(self) -> None:
        while (message := await self._context.read()) is not grpc.aio.EOF:
            self._inbox.put_nowait(message)
            await self.listening.wait()
        self._inbox.put_nowait(None)
        if self.polite:
            self.end()

    async def say(self, **message: Any) -> None:
        await self._context.write(provider_service_pb2.AttachResponse(**message))

    async def hear(self) -> provider_service_pb2.AttachRequest | None:
        """The next message; None: the provider has ended its side."""
        return await asyncio.wait_for(self._inbox.get(), SAFETY)

    async def hears(self, name: str) -> Any:
        """The next message, which must be of that name."""
        message = await self.hear()
        assert message is not None, f"the provider ended its side; {name} was to come"
        assert message.WhichOneof("message") == name, message
        return getattr(message, name)

    async def welcome(self, **limits: int) -> FakeSession:
        self.hello = await self.hears("hello")
        told = provider_service_pb2.Limits(**limits) if limits else None
        await self.say(welcome=provider_service_pb2.Welcome(session_id="s1", limits=told))
        return self

    async def ask(self, query_id: str = "q1", **query: Any) -> None:
        fields = {"goal": "g", "max_frames": 256, "max_tokens": 1_000_000, "remaining_ms": 60_000, **query}
        await self.say(query=provider_service_pb2.Query(query_id=query_id, **fields))

    async def answer(self, query_id: str = "q1") -> tuple[list[list[str]], provider_service_pb2.LaneEnd]:
        """The ids of each batch of an answer, and its end."""
        batches = []
        while True:
            message = await self.hear()
            assert message is not None
            if message.WhichOneof("message") == "lane_end":
                assert message.lane_end.query_id == query_id
                return batches, message.lane_end
            assert message.frame_batch.query_id == query_id
            batches.append([frame.id for frame in message.frame_batch.frames])

    def end(self, verdict: BrokerError | grpc.StatusCode | None = None) -> None:
        """Ends the call: well, with an error of the broker's, or with a bare status."""
        if not self._verdict.done():
            self._verdict.set_result(verdict)


class FakeBroker(provider_service_pb2_grpc.ProviderServiceServicer, context_service_pb2_grpc.ContextServiceServicer):
    """The server.

    Attributes:
        address: Where it listens.
        sessions: Attach calls as they come.
        compose: What Compose answers with: messages, then an error if one stands last.
        requests: What Compose and Push were sent.
        cancelled: Set when a Compose was cancelled by its caller.
        verdict: What Push and the lists end with, where it is an error.
        options: The server's channel arguments.
    """

    def __init__(self, **options: int) -> None:
        self.address = ""
        self.sessions: asyncio.Queue[FakeSession] = asyncio.Queue()
        self.compose: Callable[[], Iterable[Any] | AsyncIterator[Any]] = lambda: ()
        self.requests: list[Any] = []
        self.cancelled = asyncio.Event()
        self.verdict: BrokerError | grpc.StatusCode | None = None
        self._options = [("grpc.so_reuseport", 0), *((f"grpc.{k}", v) for k, v in options.items())]
        self._server: grpc.aio.Server | None = None

    async def start(self, address: str = "127.0.0.1:0") -> FakeBroker:
        self._server = grpc.aio.server(options=self._options)
        provider_service_pb2_grpc.add_ProviderServiceServicer_to_server(self, self._server)
        context_service_pb2_grpc.add_ContextServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(address)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0)

    async def attached(self, **limits: int) -> FakeSession:
        """The next session, welcomed."""
        return await (await self.called()).welcome(**limits)

    async def called(self) -> FakeSession:
        """The next session, to which nothing was said."""
        return await asyncio.wait_for(self.sessions.get(), SAFETY)

    async def Attach(self, _: Any, context: Any) -> None:  # noqa: N802
        session = FakeSession(context)
        self.sessions.put_nowait(session)
        await session.run()

    async def Push(self, requests: Any, context: Any) -> provider_service_pb2.PushResponse:  # noqa: N802
        await self._judge(context)
        read = 0
        async for request in requests:
            self.requests.append(request)
            read += len(request.batch.frames)
        return provider_service_pb2.PushResponse(frames=read)

    async def Compose(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        script = self.compose()
        try:
            if hasattr(script, "__aiter__"):
                async for message in script:
                    yield message
                return
            for message in script:
                if isinstance(message, BrokerError):
                    details = ("grpc-status-details-bin", status_proto(message).SerializeToString())
                    await context.abort(grpc.StatusCode[message.code], message.message, (details,))
                yield message
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise

    async def ListProviders(self, _: Any, context: Any) -> context_service_pb2.ListProvidersResponse:  # noqa: N802
        await self._judge(context)
        return context_service_pb2.ListProvidersResponse(
            providers=[context_service_pb2.ProviderInfo(provider_id="notes", kinds=[1])]
        )

    async def ListStrategies(self, _: Any, context: Any) -> context_service_pb2.ListStrategiesResponse:  # noqa: N802
        await self._judge(context)
        return context_service_pb2.ListStrategiesResponse(
            strategies=[context_service_pb2.StrategyInfo(name="round_robin", default=True, allowed=True)]
        )

    async def _judge(self, context: Any) -> None:
        if isinstance(self.verdict, BrokerError):
            details = ("grpc-status-details-bin", status_proto(self.verdict).SerializeToString())
            await context.abort(grpc.StatusCode[self.verdict.code], self.verdict.message, (details,))
        elif self.verdict is not None:
            await context.abort(self.verdict, "so it is")
