"""Who makes each call, and whether it still may while the call runs.

A call is let in by what it presents and by the method that was registered for it, before anything that it says is
read. While it runs it is watched: once its credential expires, is revoked, or loses what the call needs of it, the call
ends UNAUTHENTICATED. All refusals of one kind have one text, which may name the method and what that asks for; the true
reason is for the log, which never holds the credential, but the first characters of its hash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import grpc.aio
import structlog

from broker.auth.authenticator import Authenticator
from broker.auth.caller import Caller
from broker.auth.methods import OPEN, may_call, needed
from broker.auth.parts import Presented, Refused
from broker.auth.tenants import tenant_of
from broker.errors import PermissionDenied, Unauthenticated
from broker.rpc.streams import Stream

POLL_SECONDS = 1.0
"""How often expiry and the operator's files are looked at. A change of a file is taken at the second look."""

REVIEWED_AT_ONCE = 100
"""Calls that are judged anew before others get their turn: a signature takes 0.1 ms to check."""

log = structlog.get_logger("broker.rpc")


class Admission:
    """A call that was let in.

    Attributes:
        caller: Who makes it.
        method: Which method it calls, by the name that this was registered under.
        presented: What it brought.
        expires: When its credential ends, in seconds since the epoch; None: it does not.
    """

    __slots__ = ("caller", "expires", "method", "presented")

    def __init__(self, caller: Caller, method: str, presented: Presented, expires: float | None) -> None:
        self.caller = caller
        self.method = method
        self.presented = presented
        self.expires = expires


class Watched:
    """A call while it runs, which is a ``with`` block of its task; :meth:`Callers.watching` makes it."""

    __slots__ = ("_cancelling", "_running", "_task", "admission", "stream")

    def __init__(self, running: set[Watched], admission: Admission, stream: Stream) -> None:
        task = asyncio.current_task()
        assert task is not None, "a call runs in a task"
        self.admission = admission
        self.stream = stream
        self._running = running
        self._task = task
        self._cancelling = task.cancelling()

    def __enter__(self) -> None:
        self._running.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._running.discard(self)
        # Who cancels the call besides has it cancelled.
        if self.stream.disowned and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise _unauthenticated() from None

    def end(self) -> None:
        """Ends the block, from within, for its credential does not hold any more."""
        self._running.discard(self)
        self.stream.disowned = True
        self._task.cancel()


class Callers:
    """Lets calls in, and watches those that run."""

    def __init__(self, authenticator: Authenticator, *, now: Callable[[], float] = time.time) -> None:
        """Lets in whom ``authenticator`` knows; ``now`` gives seconds since the epoch."""
        self._authenticator = authenticator
        self._now = now
        self._running: set[Watched] = set()
        self._replaced = False

    def configure(self, authenticator: Authenticator) -> None:
        """Knows callers by another authenticator; the calls that run are judged by it within :data:`POLL_SECONDS`."""
        self._authenticator = authenticator
        self._replaced = True

    def admit(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> Admission:
        """Who calls a method.

        Args:
            method: The name that its handler was registered under.
            context: The call's.

        Raises:
            Unauthenticated: The caller showed no credential, or one that does not hold (``CREDENTIALS``).
            PermissionDenied: It may not call this method (``METHOD``).
        """
        presented = _presented(context)
        if method in OPEN:
            return Admission(Caller("", "", frozenset(), (), presented.connection), method, presented, None)
        try:
            caller, expires = self._authenticator.caller(presented, self._now())
        except Refused as refused:
            _refused("credential refused", method, presented, str(refused))
            raise _unauthenticated() from None
        if not may_call(caller, method):
            _refused("call denied", method, presented, "role", subject=caller.subject)
            text = f"{method} needs {needed(method)}, and this credential does not have it; use one that has"
            raise PermissionDenied("METHOD", text)
        return Admission(caller, method, presented, expires)

    def tenant_of(self, caller: Caller, asked: str) -> str:
        """The tenant that a call is about; see :func:`broker.auth.tenants.tenant_of`."""
        return tenant_of(caller, asked, self._authenticator.tenants)

    def watching(self, admission: Admission, stream: Stream) -> Watched:
        """Has the running task's call ended when its credential does not hold any more: a ``with`` block.

        Raises:
            Unauthenticated: It was (``CREDENTIALS``).
        """
        return Watched(self._running, admission, stream)

    async def watch(self) -> None:
        """Looks at files and running calls again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                # In a thread: ten thousand principals take a second to read, in which calls go on.
                changed, problems = await asyncio.to_thread(self._authenticator.refresh)
                for problem in problems:
                    log.error("what callers are known by changed and cannot be used; the old stays", problem=problem)
                if changed:
                    log.info("what callers are known by was read again")
                replaced, self._replaced = self._replaced, False
                await self.review(changed=changed or replaced)
            except Exception as fault:  # noqa: BLE001 - revocation must not end with one fault
                log.error("callers could not be looked at again", kind=type(fault).__name__)  # noqa: TRY400

    async def review(self, *, changed: bool) -> None:
        """Ends the running calls whose credential does not hold any more.

        Args:
            changed: Whether to judge all of them anew, and not only those that have expired.
        """
        judged = 0
        for watched in list(self._running):
            admission = watched.admission
            if not changed and (admission.expires is None or self._now() < admission.expires):
                continue
            judged += 1
            if judged % REVIEWED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if watched in self._running and (why := self._fault(admission, watched.stream)) is not None:
                who = admission.caller.subject
                _refused("running call ended", admission.method, admission.presented, why, subject=who)
                watched.end()

    def _fault(self, admission: Admission, stream: Stream) -> str | None:
        """Why a running call may not go on; None: it may."""
        if admission.method in OPEN:
            return None
        old = admission.caller
        try:
            new, admission.expires = self._authenticator.caller(admission.presented, self._now())
        except Refused as refused:
            return str(refused)
        except Exception as fault:  # noqa: BLE001 - who cannot be judged may not go on, and others are judged all the same
            return f"it could not be judged: {type(fault).__name__}"
        if (new.tenant, new.subject) != (old.tenant, old.subject) or not may_call(new, admission.method):
            return "role or tenant changed"
        if not all(name in new.providers for name in stream.claims):
            return "provider no longer allowed"
        return None


def _presented(context: grpc.aio.ServicerContext[Any, Any]) -> Presented:
    certificates = context.auth_context().get("x509_pem_cert", ())
    values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    return Presented(
        context.peer(),
        tuple([value.decode("latin-1") if isinstance(value, bytes) else value for value in values]) if values else (),
        b"".join(certificates),
    )


def _unauthenticated() -> Unauthenticated:
    return Unauthenticated(
        "CREDENTIALS",
        "no valid credential was shown; present the client certificate or the one bearer token that this broker takes",
    )


def _refused(event: str, method: str, presented: Presented, why: str, **more: str) -> None:
    log.warning(
        event, method=method, why=why, credential=presented.fingerprint, connection=presented.connection, **more
    )
