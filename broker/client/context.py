"""The client of whoever asks: one question in, a composition out."""

# A timeout here is the call's deadline, which the broker is told of; cancelling from outside would say less.
# ruff: noqa: ASYNC109

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
import grpc.aio
from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import provider_service_pb2

from broker.client import records
from broker.client.access import Access
from broker.client.calls import (
    COMPOSE,
    LIST_PROVIDERS,
    LIST_STRATEGIES,
    PUSH,
    Answer,
    ComposeOptions,
    Event,
    compose_data,
    parsed,
    push_data,
)
from broker.client.channel import (
    DEFAULT_ADDRESS,
    check_place,
    check_timeout,
    end_sending,
    open_channel,
    send,
    translated,
)
from broker.client.handshakes import explained_soon
from broker.client.traces import calling, carried
from broker.core.composition import Composition
from broker.core.frames import Frame, FrameRef
from broker.core.records import Observation, ProviderStatistics
from broker.core.scores import UNIT, ScoreScale
from broker.errors import Cancelled, Internal
from broker.wire.listings import ListedProvider, ListedStrategy, read_providers, read_strategies
from broker.wire.records import ListedComposition, Record, RecordReader, read_statistics
from broker.wire.typed import held


class ContextClient:
    """Asks a broker, from an event loop. Use it with ``async with``, or :meth:`close` it.

    Every method raises the errors of :mod:`broker.errors`: the broker's own as they are, and
    :class:`~broker.errors.Unavailable` (``UNREACHABLE``, ``CONNECTION_LOST``) or
    :class:`~broker.errors.DeadlineExceeded` where none came. A call that is cancelled is cancelled at the broker and at
    every provider that it asked.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.
        tls_cert: File of this client's own certificate chain, in PEM, where the broker asks for one.
        tls_key: File of its key.
        token: A bearer token. Without TLS it goes to this machine's own broker alone.
        token_file: File of a bearer token, read for each call, so that it can be renewed.

    Raises:
        InvalidArgument: The address has another form (``ADDRESS``), or what proves the client's identity cannot be used
            (``TLS_CERT``, ``TOKEN``, ``TOKEN_FILE``).
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_ca: str | Path | None = None,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        token: str | None = None,
        token_file: str | Path | None = None,
    ) -> None:
        self._access = Access(tls_ca, tls_cert, tls_key, token, token_file)
        check_place(address, self._access)
        self.address = address
        self._opened: grpc.aio.Channel | None = None

    async def compose(
        self, goal: str, *, timeout: float | None = None, **options: Unpack[ComposeOptions]
    ) -> Composition:
        """Gathers, ranks, packs and places evidence for a goal.

        Args:
            goal: What the agent is trying to do.
            timeout: Seconds that the whole call may take; None: what the broker takes to collect and to compose.
            options: Those of :class:`broker.client.ComposeOptions`, of which ``help()`` tells each; ``max_tokens`` is
                required.

        Raises:
            BrokerError: As the class says.
        """
        async with aclosing(self.stream(goal, timeout=timeout, **options)) as events:
            async for event in events:
                if isinstance(event, Composition):
                    return event
        raise AssertionError("a stream that does not raise ends with a composition")

    async def stream(
        self, goal: str, *, timeout: float | None = None, **options: Unpack[ComposeOptions]
    ) -> AsyncGenerator[Event, None]:
        """As :meth:`compose`, with the same options (:class:`broker.client.ComposeOptions`), as it happens.

        Yields:
            One ``Accepted``, any number of ``LaneUpdate`` and, with ``snapshots``, of ``Snapshot``; every ``Placed`` in
            prompt order, last the ``Composition``.

        Raises:
            BrokerError: As the class says; also :class:`~broker.errors.Internal` when the answer ends without its end.
        """
        check_timeout(timeout)
        request = compose_data(goal, options)
        answer = Answer()
        with calling(COMPOSE, self._access.metadata()) as metadata:
            async with self._typed():
                call = self._channel.unary_stream(COMPOSE)(request, timeout=timeout, metadata=metadata)
            try:
                while True:
                    async with self._typed():
                        data = await call.read()
                    if data is grpc.aio.EOF:
                        break
                    for event in answer.take(data):
                        yield event
            finally:
                call.cancel()
        yield answer.result()

    async def providers(self, *, tenant: str = "", timeout: float | None = 10.0) -> tuple[ListedProvider, ...]:
        """The providers that the broker knows, in lane order; ``tenant`` is as in :meth:`composition`."""
        data = await self._ask(LIST_PROVIDERS, records.providers_data(tenant), timeout)
        return read_providers(parsed(pb.ListProvidersResponse, data))

    async def strategies(self, *, timeout: float | None = 10.0) -> tuple[ListedStrategy, ...]:
        """The ranking policies, by name."""
        data = await self._ask(LIST_STRATEGIES, pb.ListStrategiesRequest().SerializeToString(), timeout)
        return read_strategies(parsed(pb.ListStrategiesResponse, data))

    async def push(
        self,
        provider: str,
        request_id: str,
        frames: Iterable[Frame],
        *,
        scale: ScoreScale = UNIT,
        timeout: float | None = 30.0,
    ) -> int:
        """Delivers frames for one request, before or after it is asked.

        Args:
            provider: Whose frames these are.
            request_id: The request that they are for.
            frames: The frames.
            scale: Of their scores.
            timeout: Seconds that the delivery may take.

        Returns:
            Frames that the broker read; it does not say whether a request waits for them.
        """
        check_timeout(timeout)
        parts = push_data(provider, request_id, frames, scale)
        async with self._typed():
            call = self._channel.stream_stream(PUSH)(timeout=timeout, metadata=carried(self._access.metadata()))
            sender = asyncio.create_task(_deliver(call, parts), name="push")
            try:
                data = await call.read()
            finally:
                call.cancel()
                sender.cancel()
                await asyncio.wait({sender})
        if data is grpc.aio.EOF:
            raise Internal("ANSWER_BROKEN", f"the broker at {self.address} did not say what it read; push again")
        return parsed(provider_service_pb2.PushResponse, data).frames

    async def composition(self, composition_id: str, *, tenant: str = "", timeout: float | None = 30.0) -> Record:
        """A composition as it was recorded.

        Args:
            composition_id: Its id.
            tenant: For operators: whose it is; empty: of the caller's own tenant.
            timeout: Seconds that it may take.

        Raises:
            NotFound: The tenant has none of this id (``COMPOSITION_UNKNOWN``); old ones are forgotten.
            FailedPrecondition: The broker keeps no records (``NOT_KEPT``).
            Unavailable: The records cannot be read now (``AUDIT_UNAVAILABLE``).
            BrokerError: As the class says.
        """
        check_timeout(timeout)
        request, reader = records.composition_data(composition_id, tenant), RecordReader()
        async with self._typed():
            call = self._channel.unary_stream(records.GET_COMPOSITION)(
                request, timeout=timeout, metadata=carried(self._access.metadata())
            )
            try:
                while (data := await call.read()) is not grpc.aio.EOF:
                    reader.take(parsed(pb.GetCompositionResponse, data))
            finally:
                call.cancel()
        return reader.result()

    async def compositions(
        self,
        *,
        page_size: int = records.PAGE,
        timeout: float | None = 10.0,
        **wanted: Unpack[records.CompositionFilter],
    ) -> AsyncGenerator[ListedComposition, None]:
        """The recorded compositions that a filter means, newest first, over all pages; raises as :meth:`composition`.

        Args:
            page_size: Compositions that are fetched at once, 1 to 1000.
            timeout: Seconds that fetching a page may take.
            wanted: See :class:`~broker.client.records.CompositionFilter`.
        """
        pages = records.Pages(wanted, page_size)
        while pages.more:
            for listed in pages.take(await self._ask(records.LIST_COMPOSITIONS, pages.request(), timeout)):
                yield listed

    async def report(
        self,
        composition_id: str,
        observations: Iterable[Observation] = (),
        *,
        cited: Iterable[str | FrameRef] = (),
        timeout: float | None = 10.0,
    ) -> None:
        """Records what became of a composition's placed frames, all of it or nothing; what was seen once stays seen.

        Args:
            composition_id: The composition.
            observations: What was seen, frame by frame.
            cited: Frames that the answer cites, and that were rendered and selected therefore: by their labels, as
                ``provider/id``, or as :func:`broker.client.verify_citations` found them. The record is fetched first.
            timeout: Seconds that each call may take.

        Raises:
            InvalidArgument: A frame that is cited was not rendered, or one that is rendered not selected
                (``INCOHERENT``); the composition did not place it (``FRAME_NOT_PLACED``), or several that it placed
                share the label (``LABEL_AMBIGUOUS``).
            BrokerError: As :meth:`composition`.
        """
        observations, cited = held(observations), records.cited_names(cited)
        if cited:
            record = await self.composition(composition_id, timeout=timeout)
            observations = records.with_cited(observations, record, cited)
        await self._ask(records.REPORT_ATTRIBUTION, records.report_data(composition_id, observations), timeout)

    async def provider_statistics(
        self,
        *,
        made_from: float | None = None,
        made_before: float | None = None,
        tenant: str = "",
        timeout: float | None = 30.0,
    ) -> tuple[ProviderStatistics, ...]:
        """How each provider fared in a window of seconds since the epoch, by name; raises as :meth:`composition`."""
        request = records.statistics_data(made_from, made_before, tenant)
        data = await self._ask(records.PROVIDER_STATISTICS, request, timeout)
        return read_statistics(parsed(pb.GetProviderStatisticsResponse, data))

    async def close(self) -> None:
        """Ends every call and the connection; idempotent. The client opens a new one when it is used again."""
        channel, self._opened = self._opened, None
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> Self:
        _ = self._channel
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _channel(self) -> Any:
        # Made in the loop that uses it; gRPC's types leave out that bytes need no serializer.
        if self._opened is None:
            self._opened = open_channel(self.address, self._access)
        return self._opened

    async def _ask(self, method: str, request: bytes, timeout: float | None) -> bytes:
        check_timeout(timeout)
        async with self._typed():
            data: bytes = await self._channel.unary_unary(method)(
                request, timeout=timeout, metadata=carried(self._access.metadata())
            )
        return data

    @asynccontextmanager
    async def _typed(self) -> AsyncIterator[None]:
        """Turns what gRPC raises into the broker's errors."""
        try:
            yield
        except grpc.RpcError as error:
            raise await explained_soon(translated(error, self.address), self.address, self._access) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this task: the call was, by closing the client.
            raise Cancelled("CLOSED", "the client was closed while the call was open") from None


async def _deliver(call: Any, parts: Iterable[bytes]) -> None:
    for part in parts:
        if not await send(call, part):
            return
    await end_sending(call)
