"""``remote``: a reranker behind ``RerankService``, in any language, on any machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from broker.core.rerank import RerankCandidate, Reranked
from broker.errors import BrokerError
from broker.rerankers.reranker import RerankFailed
from broker.telemetry.spans import carried
from broker.wire.reranking import RerankText, read_rerank_response, rerank_request

RERANK = "/contextbroker.v1.RerankService/Rerank"


class RemoteReranker:
    """One address. It connects when it is first asked, and again by itself when the connection is lost.

    A reranker that is not there fails at once: the order before is an answer too, and no request waits for a
    connection that may never come.

    Args:
        address: ``host:port``, or ``unix:PATH``.
        ca: The certificates, in PEM, that its own must descend from; None: plain text.
    """

    version = ""

    def __init__(self, address: str, ca: bytes | None = None) -> None:
        self._address = address
        self._ca = ca
        self._opened: grpc.aio.Channel | None = None

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:
        """See :meth:`broker.rerankers.reranker.Reranker.score`."""
        request = rerank_request(question, [RerankText(one.title, one.content) for one in candidates])
        try:
            data: bytes = await self._channel.unary_unary(RERANK)(request, timeout=seconds, metadata=carried())
            answer = read_rerank_response(data, len(candidates))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            # Its text is the service's own, and may hold what it was sent.
            raise RerankFailed(f"it answered {error.code().name}") from None
        except BrokerError as error:
            raise RerankFailed(f"its answer is broken: {error.message}") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RerankFailed("the connection was closed") from None
        return Reranked(answer.scores, f"{answer.name} {answer.version}".strip())

    async def close(self) -> None:
        """Ends the connection."""
        channel, self._opened = self._opened, None
        if channel is not None:
            with contextlib.suppress(grpc.aio.BaseError):
                await channel.close()

    @property
    def _channel(self) -> Any:
        # Made in the loop that uses it; gRPC's types leave out that bytes need no serializer.
        if self._opened is None:
            self._opened = (
                grpc.aio.insecure_channel(self._address, options=_OPTIONS)
                if self._ca is None
                else grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials(self._ca), options=_OPTIONS)
            )
        return self._opened


_OPTIONS = [
    # A dead peer is noticed while a call is open; every call has its own deadline besides.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The core waits the longer of its two timeouts.
    ("grpc.http2.ping_timeout_ms", 10_000),
    # One that came back is found again within seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Channels to one address share each other's failures unless told not to.
    ("grpc.use_local_subchannel_pool", 1),
    # The operator named this address; a proxy for the outside has no part in it.
    ("grpc.enable_http_proxy", 0),
    # An answer has a few bytes for each candidate.
    ("grpc.max_receive_message_length", 256 * 1024),
]
