"""A reranker as a service: a function from a question and texts to scores becomes a ``RerankService``."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio
from contextbroker.v1 import rerank_service_pb2 as pb

from broker.addresses import UNIX, address_problem
from broker.client.running import until_signal
from broker.errors import BrokerError, FieldViolation, InvalidArgument
from broker.wire.reranking import MAX_NAME, RerankText, read_rerank_request, rerank_response
from broker.wire.status import status_proto
from broker.wire.typed import require

DEFAULT_ADDRESS = "127.0.0.1:7434"
"""Where a reranker listens unless it was told otherwise."""

SERVICE = pb.DESCRIPTOR.services_by_name["RerankService"].full_name

Scores: TypeAlias = Sequence[float | None]
"""A number for each text, in their order, higher is better; None, NaN or an infinity: it has none."""

ScoreFunction: TypeAlias = Callable[[str, Sequence[RerankText]], Scores | Awaitable[Scores]]
"""What a user writes: an async function, or a plain one, which is called in a thread."""

log = logging.getLogger("broker.client")


class Reranker:
    """A reranker that brokers may ask.

    A broker asks it where its operator configures it, as in ``[rerankers.mine]`` with ``kind = "remote"`` and its
    ``address``; a request then names it with ``Rerank("mine")``. A function that raises, or gives another number of
    scores, fails that call alone: the broker keeps the order that it had, and the error is in the log of
    ``broker.client``.

    Args:
        name: What it calls itself, 1 to 64 characters; it stands in every audit.
        score: The function; it scores every text itself, so that its numbers share one scale.
        version: Its version, such as a model's revision, at most 64 characters.
        max_concurrent: Calls that score at once, at least 1; more wait, for as long as their broker does.

    Raises:
        InvalidArgument: An argument is of another type or out of its range, with its name.
    """

    def __init__(self, name: str, score: ScoreFunction, *, version: str = "", max_concurrent: int = 8) -> None:
        require(
            ("name", name, str),
            ("score", score, Callable[..., object]),
            ("version", version, str),
            ("max_concurrent", max_concurrent, int),
        )
        if not 1 <= len(name) <= MAX_NAME or len(version) > MAX_NAME:
            text = f"a name has 1 to {MAX_NAME} characters, and a version at most as many"
            raise InvalidArgument.of([FieldViolation("name", "RERANKER_NAME", text)])
        if max_concurrent < 1:
            text = f"{max_concurrent} is out of range; give at least 1"
            raise InvalidArgument.of([FieldViolation("max_concurrent", "OUT_OF_RANGE", text)])
        self.name = name
        self.version = version
        self._score = score
        self._places = asyncio.Semaphore(max_concurrent)
        self._stopping: asyncio.Event | None = None
        self._ended = asyncio.Event()
        self._grace = 0.0

    async def serve(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        on_serving: Callable[[str], None] | None = None,
    ) -> None:
        """Listens and answers until :meth:`stop`.

        Args:
            address: ``host:port``, where port 0 takes a free one; or ``unix:PATH``.
            tls_cert: File of the certificate chain, in PEM; with ``tls_key`` it turns TLS on.
            tls_key: File of its key.
            on_serving: Told the address, with the port that was bound, once calls are taken.

        Raises:
            InvalidArgument: The address has another form (``ADDRESS``), one of ``tls_cert`` and ``tls_key`` is missing
                (``TLS_CERT``), or an argument is of another type (``FIELD_INVALID``).
            OSError: The address cannot be bound, or a file cannot be read.
            RuntimeError: It is serving already.
        """
        if self._stopping is not None:
            raise RuntimeError("this reranker is serving already; make another one for another address")
        if problem := address_problem(address, unix=True, any_port=True):
            raise InvalidArgument.of([FieldViolation("address", "ADDRESS", problem)])
        require(
            ("tls_cert", tls_cert, str | Path | None),
            ("tls_key", tls_key, str | Path | None),
            ("on_serving", on_serving, Callable[[str], None] | None),
        )
        credentials = _credentials(tls_cert, tls_key)
        self._stopping, self._ended = asyncio.Event(), asyncio.Event()
        # A second server on the port must fail, not take every other connection in silence.
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            bound = _bind(server, address, credentials)
            await server.start()
            log.info("%s serves at %s", self.name, bound)
            if on_serving is not None:
                on_serving(bound)
            await self._stopping.wait()
        finally:
            await server.stop(self._grace)
            self._stopping = None
            self._ended.set()

    async def stop(self, grace: float = 5.0) -> None:
        """Takes no more calls, finishes those that run within ``grace`` seconds, and lets :meth:`serve` return.

        Call it in the event loop that serves; idempotent.

        Raises:
            InvalidArgument: ``grace`` is not a number (``FIELD_INVALID``).
        """
        require(("grace", grace, float))
        if self._stopping is not None:
            self._grace = grace
            self._stopping.set()
            await self._ended.wait()

    def run(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        on_serving: Callable[[str], None] | None = None,
        grace: float = 5.0,
    ) -> None:
        """:meth:`serve` for a program of its own: blocks until Ctrl-C or SIGTERM, which stop it within ``grace``.

        A second signal ends it at once.

        Raises:
            InvalidArgument: As :meth:`serve`.
            OSError: As :meth:`serve`.
        """
        require(("grace", grace, float))

        async def serving() -> None:
            serve = self.serve(address, tls_cert=tls_cert, tls_key=tls_key, on_serving=on_serving)
            await until_signal(serve, lambda: self.stop(grace))

        asyncio.run(serving())

    def _handlers(self) -> grpc.GenericRpcHandler:
        # Served as a stream of raw bytes: grpc.aio never answers a unary call that ends without a message, and answers
        # bytes that do not parse with UNKNOWN.
        behaviour: Any = self._rerank
        return grpc.method_handlers_generic_handler(
            SERVICE, {"Rerank": grpc.stream_stream_rpc_method_handler(behaviour)}
        )

    async def _rerank(self, _: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        try:
            data: Any = await context.read()
            if data is grpc.aio.EOF:
                raise InvalidArgument("NO_MESSAGE", "the call ended without a message; send one before ending it")  # noqa: TRY301
            question, texts = read_rerank_request(data)
            async with self._places:
                scores = await self._scored(question, texts)
            answer = rerank_response(scores, self.name, self.version)
        except BrokerError as error:
            details = (("grpc-status-details-bin", status_proto(error).SerializeToString()),)
            await context.abort(grpc.StatusCode[error.code], error.message, details)
        except Exception:
            log.exception("%s could not score a request", self.name)
            await context.abort(grpc.StatusCode.INTERNAL, "the reranker failed; its log has the particulars")
        else:
            await context.write(answer)

    async def _scored(self, question: str, texts: Sequence[RerankText]) -> Scores:
        if inspect.iscoroutinefunction(self._score):
            scores: Scores = await self._score(question, texts)
        else:
            found: Any = await asyncio.to_thread(self._score, question, texts)
            scores = await found if inspect.isawaitable(found) else found
        if len(scores) != len(texts):
            raise ValueError(f"{len(scores)} scores for {len(texts)} texts")
        return scores


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> str:
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, f"the address cannot be bound; is it in use? ({error})", address) from None
    return address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{port}"


def _credentials(cert: str | Path | None, key: str | Path | None) -> grpc.ServerCredentials | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise InvalidArgument.of([FieldViolation("tls_cert", "TLS_CERT", "tls_cert and tls_key go together")])
    return grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(cert).read_bytes())])
