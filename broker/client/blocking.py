"""The client of whoever asks, for threads: no event loop is needed, and one that runs is not disturbed."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
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
from broker.client.channel import DEFAULT_ADDRESS, check_timeout, open_blocking_channel, translated
from broker.client.handshakes import explained
from broker.client.traces import calling, carried
from broker.core.composition import Composition
from broker.core.frames import Frame, FrameRef
from broker.core.records import Observation, ProviderStatistics
from broker.core.scores import UNIT, ScoreScale
from broker.errors import BrokerError, Cancelled
from broker.wire.listings import ListedProvider, ListedStrategy, read_providers, read_strategies
from broker.wire.records import ListedComposition, Record, RecordReader, read_statistics
from broker.wire.typed import held


class BlockingContextClient:
    """:class:`~broker.client.context.ContextClient` without an event loop; methods, arguments and errors are the same.

    It may be shared between threads. Called where an event loop runs it works, and holds that loop up meanwhile.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.
        tls_cert: File of this client's own certificate chain, in PEM, where the broker asks for one.
        tls_key: File of its key.
        token: A bearer token. Without TLS it goes to this machine's own broker alone.
        token_file: File of a bearer token, read for each call, so that it can be renewed.

    Raises:
        InvalidArgument: The address has another form (``ADDRESS``), a certificate cannot be read (``TLS_CA``,
            ``TLS_CERT``), or the token cannot be used (``TOKEN``, ``TOKEN_FILE``).
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
        self.address = address
        self._access = Access(tls_ca, tls_cert, tls_key, token, token_file)
        # gRPC's types leave out that bytes need no serializer.
        self._opened: Any = open_blocking_channel(address, self._access)
        self._closed = False

    def compose(self, goal: str, *, timeout: float | None = None, **options: Unpack[ComposeOptions]) -> Composition:
        """See :meth:`~broker.client.context.ContextClient.compose`; options: :class:`broker.client.ComposeOptions`."""
        with closing(self.stream(goal, timeout=timeout, **options)) as events:
            for event in events:
                if isinstance(event, Composition):
                    return event
        raise AssertionError("a stream that does not raise ends with a composition")

    def stream(
        self, goal: str, *, timeout: float | None = None, **options: Unpack[ComposeOptions]
    ) -> Generator[Event, None, None]:
        """See :meth:`~broker.client.context.ContextClient.stream`; options: :class:`broker.client.ComposeOptions`."""
        check_timeout(timeout)
        request = compose_data(goal, options)
        answer = Answer()
        with calling(COMPOSE, self._access.metadata()) as metadata:
            call = self._channel.unary_stream(COMPOSE)(request, timeout=timeout, metadata=metadata)
            try:
                for data in call:
                    yield from answer.take(data)
            except grpc.RpcError as error:
                raise self._failure(error) from None
            finally:
                call.cancel()
        yield answer.result()

    def providers(self, *, tenant: str = "", timeout: float | None = 10.0) -> tuple[ListedProvider, ...]:
        """See :meth:`~broker.client.context.ContextClient.providers`."""
        data = self._ask(LIST_PROVIDERS, records.providers_data(tenant), timeout)
        return read_providers(parsed(pb.ListProvidersResponse, data))

    def strategies(self, *, timeout: float | None = 10.0) -> tuple[ListedStrategy, ...]:
        """See :meth:`~broker.client.context.ContextClient.strategies`."""
        data = self._ask(LIST_STRATEGIES, pb.ListStrategiesRequest().SerializeToString(), timeout)
        return read_strategies(parsed(pb.ListStrategiesResponse, data))

    def push(
        self,
        provider: str,
        request_id: str,
        frames: Iterable[Frame],
        *,
        scale: ScoreScale = UNIT,
        timeout: float | None = 30.0,
    ) -> int:
        """See :meth:`~broker.client.context.ContextClient.push`."""
        check_timeout(timeout)
        parts = push_data(provider, request_id, frames, scale)
        try:
            data = self._channel.stream_unary(PUSH)(
                iter(parts), timeout=timeout, metadata=carried(self._access.metadata())
            )
        except grpc.RpcError as error:
            raise self._failure(error) from None
        return parsed(provider_service_pb2.PushResponse, data).frames

    def composition(self, composition_id: str, *, tenant: str = "", timeout: float | None = 30.0) -> Record:
        """See :meth:`~broker.client.context.ContextClient.composition`."""
        check_timeout(timeout)
        request, reader = records.composition_data(composition_id, tenant), RecordReader()
        call = self._channel.unary_stream(records.GET_COMPOSITION)(
            request, timeout=timeout, metadata=carried(self._access.metadata())
        )
        try:
            for data in call:
                reader.take(parsed(pb.GetCompositionResponse, data))
        except grpc.RpcError as error:
            raise self._failure(error) from None
        finally:
            call.cancel()
        return reader.result()

    def compositions(
        self,
        *,
        page_size: int = records.PAGE,
        timeout: float | None = 10.0,
        **wanted: Unpack[records.CompositionFilter],
    ) -> Generator[ListedComposition, None, None]:
        """See :meth:`~broker.client.context.ContextClient.compositions`."""
        pages = records.Pages(wanted, page_size)
        while pages.more:
            yield from pages.take(self._ask(records.LIST_COMPOSITIONS, pages.request(), timeout))

    def report(
        self,
        composition_id: str,
        observations: Iterable[Observation] = (),
        *,
        cited: Iterable[str | FrameRef] = (),
        timeout: float | None = 10.0,
    ) -> None:
        """See :meth:`~broker.client.context.ContextClient.report`."""
        observations, cited = held(observations), records.cited_names(cited)
        if cited:
            record = self.composition(composition_id, timeout=timeout)
            observations = records.with_cited(observations, record, cited)
        self._ask(records.REPORT_ATTRIBUTION, records.report_data(composition_id, observations), timeout)

    def provider_statistics(
        self,
        *,
        made_from: float | None = None,
        made_before: float | None = None,
        tenant: str = "",
        timeout: float | None = 30.0,
    ) -> tuple[ProviderStatistics, ...]:
        """See :meth:`~broker.client.context.ContextClient.provider_statistics`."""
        request = records.statistics_data(made_from, made_before, tenant)
        data = self._ask(records.PROVIDER_STATISTICS, request, timeout)
        return read_statistics(parsed(pb.GetProviderStatisticsResponse, data))

    def close(self) -> None:
        """Ends every call and the connection; idempotent, and final."""
        self._closed = True
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _channel(self) -> Any:
        if self._closed:
            raise Cancelled("CLOSED", "the client is closed; make another one")
        return self._opened

    def _failure(self, error: grpc.RpcError) -> BrokerError:
        return explained(translated(error, self.address), self.address, self._access)

    def _ask(self, method: str, request: bytes, timeout: float | None) -> bytes:
        check_timeout(timeout)
        try:
            data: bytes = self._channel.unary_unary(method)(
                request, timeout=timeout, metadata=carried(self._access.metadata())
            )
        except grpc.RpcError as error:
            raise self._failure(error) from None
        return data
