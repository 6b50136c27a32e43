"""The client of whoever has evidence: an async function from a question to frames becomes a service."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from broker.client.access import Access
from broker.client.answering import Answerer, AnswerFunction, answer_problem
from broker.client.attachment import Attachment
from broker.client.calls import ATTACH
from broker.client.channel import DEFAULT_ADDRESS, open_channel
from broker.client.running import until_signal
from broker.client.session import Session
from broker.client.standing import Standing
from broker.core.names import provider_name_problem
from broker.core.scores import UNIT, ScoreScale
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.events import Hello, Rejection
from broker.wire.frames import kind_number
from broker.wire.typed import held, require

MAX_IN_FLIGHT = 10_000
"""Queries that a provider may take at once, at most."""

log = logging.getLogger("broker.client")


class Provider:
    """A provider of evidence.

    It attaches to a broker, answers what it is asked, several questions at once, stops answering what the broker no
    longer wants, and attaches again when the connection is lost, after waits with jitter of at most 10 s, or longer
    where the broker asks for it. Where the broker renews the session, a new one stands before the old one ends. An
    answer that raises ends its own lane as failed and nothing else; the error is in the log of ``broker.client``.

    Args:
        name: The provider's name: lower-case letters, digits, ``.``, ``_``, ``-``, at most 63.
        answer: An async function that returns frames, or an async generator that yields them.
        scale: Of the frames' scores; all instances of a provider declare the same.
        kinds: Kinds of frames it can answer with; empty: any.
        instance_id: This replica's name, 1 to 128 bytes; None: made of host, process and a random part. Two that
            attach under one name replace each other.
        version: The provider's own version, for people.
        max_in_flight: Questions answered at once, 1 to 10,000.
        on_rejected: Told of everything that the broker did not take; it is logged as a warning in any case.

    Raises:
        InvalidArgument: An argument is not what it should be, with its name: ``PROVIDER_NAME``, ``ANSWER``,
            ``KIND_UNKNOWN``, ``INSTANCE_ID``, ``OUT_OF_RANGE``; of another type: ``FIELD_INVALID``.
    """

    def __init__(
        self,
        name: str,
        answer: AnswerFunction,
        *,
        scale: ScoreScale = UNIT,
        kinds: Iterable[str] = (),
        instance_id: str | None = None,
        version: str = "",
        max_in_flight: int = 64,
        on_rejected: Callable[[Rejection], None] | None = None,
    ) -> None:
        kinds = held(kinds)
        require(
            ("name", name, str),
            ("scale", scale, ScoreScale),
            ("kinds", kinds, Iterable[str]),
            ("instance_id", instance_id, str | None),
            ("version", version, str),
            ("max_in_flight", max_in_flight, int),
            ("on_rejected", on_rejected, Callable[[Rejection], None] | None),
        )
        if problem := answer_problem(answer):
            raise InvalidArgument.of([FieldViolation("answer", "ANSWER", problem)])
        if problem := provider_name_problem(name):
            raise InvalidArgument.of([FieldViolation("name", "PROVIDER_NAME", problem)])
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            text = f"{max_in_flight} is out of range; give 1 to {MAX_IN_FLIGHT}"
            raise InvalidArgument.of([FieldViolation("max_in_flight", "OUT_OF_RANGE", text)])
        instance = _instance_id() if instance_id is None else instance_id
        if not 1 <= len(instance.encode(errors="replace")) <= 128:
            raise InvalidArgument.of([FieldViolation("instance_id", "INSTANCE_ID", "give 1 to 128 bytes")])
        for field, text in (("instance_id", instance), ("version", version), ("scale.id", scale.id)):
            if not _is_text(text):
                raise InvalidArgument.of([FieldViolation(field, "TEXT_MALFORMED", "has a lone surrogate")])
        for i, kind in enumerate(kinds):
            kind_number(kind, f"kinds[{i}]")
        self._hello = Hello(name, instance, version, tuple(kinds), scale, max_in_flight)
        self._answerer = Answerer(name, answer)
        self._on_rejected = on_rejected
        self._serving: Attachment | None = None
        self._announces = False

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._hello.provider

    @property
    def instance_id(self) -> str:
        """This replica's name."""
        return self._hello.instance

    async def serve(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_ca: str | Path | None = None,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        token: str | None = None,
        token_file: str | Path | None = None,
        on_attached: Callable[[str], None] | None = None,
    ) -> None:
        """Attaches and answers until :meth:`stop`, attaching again whenever the session ends otherwise.

        Args:
            address: The broker's, ``host:port`` or ``unix:PATH``.
            tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.
            tls_cert: File of this client's own certificate chain, in PEM, where the broker asks for one.
            tls_key: File of its key.
            token: A bearer token. Without TLS it goes to this machine's own broker alone.
            token_file: File of a bearer token, read for each session, so that it can be renewed.
            on_attached: Told the session's id each time that the provider has attached.

        Raises:
            BrokerError: Attaching again cannot help: the broker refuses this provider
                (:class:`~broker.errors.InvalidArgument`, :class:`~broker.errors.PermissionDenied`,
                :class:`~broker.errors.Unauthenticated`, :class:`~broker.errors.Unimplemented`,
                :class:`~broker.errors.FailedPrecondition` ``SCALE_CONFLICT``), or another of the same instance id
                took its place (:class:`~broker.errors.Aborted` ``FENCED``).
            RuntimeError: It is serving already.
        """
        if self._serving is not None:
            raise RuntimeError("this provider is serving already; make another one for another broker")
        require(("on_attached", on_attached, Callable[[str], None] | None))
        access = Access(tls_ca, tls_cert, tls_key, token, token_file)
        standing = Standing(self.name, address, announces=self._announces)
        # Of all sessions together: while one takes over from another, both have questions open.
        room = asyncio.Semaphore(self._hello.max_in_flight)

        def attached(session_id: str) -> None:
            standing.attached(session_id)
            _tell(on_attached, session_id)

        def rejected(rejection: Rejection) -> None:
            standing.rejected(rejection)
            _tell(self._on_rejected, rejection)

        def session(channel: Any, changed: Callable[[], None]) -> Session:
            call = channel.stream_stream(ATTACH)(metadata=access.metadata())
            return Session(call, address, self._hello, self._answerer, attached, rejected, changed, room, access)

        self._serving = serving = Attachment(
            lambda: open_channel(address, access),
            session,
            standing,
            renews=token_file is not None or tls_cert is not None,
            reconnects=tls_cert is not None,
        )
        try:
            await serving.run()
        finally:
            self._serving = None

    async def stop(self, grace: float = 5.0) -> None:
        """Detaches, finishes what is open within ``grace`` seconds, and lets :meth:`serve` return; idempotent.

        Call it in the event loop that serves.

        Raises:
            InvalidArgument: ``grace`` is not a number (``FIELD_INVALID``).
        """
        require(("grace", grace, float))
        serving = self._serving
        if serving is not None:
            serving.stop(grace)
            await serving.ended.wait()

    def run(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_ca: str | Path | None = None,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        token: str | None = None,
        token_file: str | Path | None = None,
        on_attached: Callable[[str], None] | None = None,
        grace: float = 5.0,
    ) -> None:
        """:meth:`serve` for a program of its own: blocks until Ctrl-C or SIGTERM, which stop it within ``grace``.

        A second signal ends it at once. Each time that it has attached, it says so on standard error, unless the
        program has set up logging, or ``on_attached`` is given.

        Raises:
            BrokerError: As :meth:`serve`.
        """
        require(("grace", grace, float))

        self._announces = on_attached is None

        async def main() -> None:
            serving = self.serve(
                address,
                tls_ca=tls_ca,
                tls_cert=tls_cert,
                tls_key=tls_key,
                token=token,
                token_file=token_file,
                on_attached=on_attached,
            )
            await until_signal(serving, lambda: self.stop(grace))

        try:
            asyncio.run(main())
        finally:
            self._announces = False


Told = TypeVar("Told")


def _tell(listener: Callable[[Told], None] | None, news: Told) -> None:
    if listener is None:
        return
    try:
        listener(news)
    except Exception:
        log.exception("a callback failed")


def _is_text(value: str) -> bool:
    return value == value.encode(errors="ignore").decode()


def _instance_id() -> str:
    host = socket.gethostname().encode()[:64].decode(errors="ignore")
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
