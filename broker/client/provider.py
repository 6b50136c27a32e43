"""The client of whoever has evidence: an async function from a question to frames becomes a service."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from broker.client.answering import AnswerFunction
from broker.client.backoff import Backoff
from broker.client.calls import ATTACH
from broker.client.channel import DEFAULT_ADDRESS, open_channel
from broker.client.session import Session
from broker.core.names import provider_name_problem
from broker.core.scores import UNIT, ScoreScale
from broker.errors import (
    Aborted,
    BrokerError,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
    Unimplemented,
)
from broker.gather.events import Hello, Rejection
from broker.wire.frames import kind_number

GOOD_SESSION_SECONDS = 5.0
"""A session that stood this long was a good one: the next failure waits as briefly as the first."""

MAX_IN_FLIGHT = 10_000
"""Queries that a provider may take at once, at most."""

log = logging.getLogger("broker.client")


class Provider:
    """A provider of evidence.

    It attaches to a broker, answers what it is asked, several questions at once, stops answering what the broker no
    longer wants, and attaches again when the connection is lost, after waits with jitter of at most 10 s, or longer
    where the broker asks for it. An answer that raises ends its own lane as failed and nothing else; the error is in
    the log of ``broker.client``.

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
        InvalidArgument: The name, a kind, the instance id or ``max_in_flight`` is none, with the field.
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
        if problem := provider_name_problem(name):
            raise InvalidArgument.of([FieldViolation("name", "PROVIDER_NAME", problem)])
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            text = f"{max_in_flight} is out of range; give 1 to {MAX_IN_FLIGHT}"
            raise InvalidArgument.of([FieldViolation("max_in_flight", "OUT_OF_RANGE", text)])
        instance = _instance_id() if instance_id is None else instance_id
        if not 1 <= len(instance.encode()) <= 128:
            raise InvalidArgument.of([FieldViolation("instance_id", "INSTANCE_ID", "give 1 to 128 bytes")])
        kinds = tuple(kinds)
        for i, kind in enumerate(kinds):
            kind_number(kind, f"kinds[{i}]")
        self._hello = Hello(name, instance, version, kinds, scale, max_in_flight)
        self._answer = answer
        self._reject = on_rejected
        self._serving: _Serving | None = None

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
        on_attached: Callable[[str], None] | None = None,
    ) -> None:
        """Attaches and answers until :meth:`stop`, attaching again whenever the session ends otherwise.

        Args:
            address: ``host:port`` of the broker.
            tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.
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
        self._serving = serving = _Serving()
        backoff = Backoff()
        try:
            while serving.grace is None:
                started = time.monotonic()
                pause = None
                try:
                    await self._attach(serving, address, tls_ca, on_attached)
                except BrokerError as error:
                    if serving.grace is not None:
                        break
                    if _is_final(error):
                        raise
                    log.warning("%s is not attached to %s and will try again: %s", self.name, address, error)
                    pause = error.retry_after
                if time.monotonic() - started >= GOOD_SESSION_SECONDS:
                    backoff.reset()
                await serving.pause(backoff.wait(pause))
        finally:
            self._serving = None
            serving.ended.set()

    async def stop(self, grace: float = 5.0) -> None:
        """Detaches, finishes what is open within ``grace`` seconds, and lets :meth:`serve` return; idempotent.

        Call it in the event loop that serves.
        """
        serving = self._serving
        if serving is not None:
            serving.stop(grace)
            await serving.ended.wait()

    def run(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        tls_ca: str | Path | None = None,
        on_attached: Callable[[str], None] | None = None,
        grace: float = 5.0,
    ) -> None:
        """:meth:`serve` for a program of its own: blocks until Ctrl-C or SIGTERM, which stop it within ``grace``.

        A second signal ends it at once.

        Raises:
            BrokerError: As :meth:`serve`.
        """
        asyncio.run(self._run(address, tls_ca, on_attached, grace))

    async def _run(
        self,
        address: str,
        tls_ca: str | Path | None,
        on_attached: Callable[[str], None] | None,
        grace: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self.serve(address, tls_ca=tls_ca, on_attached=on_attached))
        stops: list[asyncio.Task[None]] = []

        def on_signal() -> None:
            if stops:
                serving.cancel()
            else:
                stops.append(asyncio.create_task(self.stop(grace)))

        # Only the main thread may take signals; elsewhere whoever runs that thread stops the provider.
        signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        for number in signals:
            loop.add_signal_handler(number, on_signal)
        try:
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            serving.cancel()
            await asyncio.wait({serving, *stops})

    async def _attach(
        self,
        serving: _Serving,
        address: str,
        tls_ca: str | Path | None,
        on_attached: Callable[[str], None] | None,
    ) -> None:
        """One session, from its connection to its end."""

        def attached(session_id: str) -> None:
            log.info("%s is attached to %s as %s", self.name, address, session_id)
            _tell(on_attached, session_id)

        channel = open_channel(address, tls_ca)
        try:
            call: Any = channel.stream_stream(ATTACH)()
            serving.session = Session(call, address, self._hello, self._answer, attached, self._rejected)
            await serving.session.run()
        finally:
            serving.session = None
            await channel.close()

    def _rejected(self, rejection: Rejection) -> None:
        for violation in rejection.violations:
            frame = f" (frame {violation.frame_id!a})" if violation.frame_id else ""
            log.warning(
                "the broker did not take something of %s: %s%s: %s",
                self.name,
                violation.reason,
                frame,
                violation.message,
            )
        _tell(self._reject, rejection)


class _Serving:
    """What one call of :meth:`Provider.serve` keeps.

    Attributes:
        grace: Seconds that a stop allows; None while none was asked for.
        session: The session that stands; None between two.
        ended: Set when the call has returned or raised.
    """

    def __init__(self) -> None:
        self.grace: float | None = None
        self.session: Session | None = None
        self.ended = asyncio.Event()
        self._woken = asyncio.Event()

    def stop(self, grace: float) -> None:
        self.grace = grace
        self._woken.set()
        if self.session is not None:
            self.session.end(grace)

    async def pause(self, seconds: float) -> None:
        """Waits, or less where a stop is asked for."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return


Told = TypeVar("Told")


def _tell(listener: Callable[[Told], None] | None, news: Told) -> None:
    if listener is None:
        return
    try:
        listener(news)
    except Exception:
        log.exception("a callback failed")


def _is_final(error: BrokerError) -> bool:
    """Whether trying again is sure to end the same way, or to do harm."""
    if isinstance(error, InvalidArgument | PermissionDenied | Unauthenticated | Unimplemented):
        return True
    if isinstance(error, FailedPrecondition):
        return error.reason == "SCALE_CONFLICT"
    return isinstance(error, Aborted) and error.reason == "FENCED"


def _instance_id() -> str:
    host = socket.gethostname().encode()[:64].decode(errors="ignore")
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
