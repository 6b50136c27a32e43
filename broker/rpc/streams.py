"""One call as the services see it: whole messages of bytes in, whole messages of bytes out, both bounded.

grpc.aio leaves five things to its user, and this module is where they are kept:

* A read that is cancelled breaks the stream (and lets the core write into freed memory): one task reads, nothing ever
  cancels it, and it ends by itself when the call does.
* Two writers on one stream raise: one task writes, while there is something to write.
* Backpressure starts only after megabytes, and a queue of one's own is the unbounded part: both queues have bounds, a
  full inbox stops the reader, and a full outbox holds its sender up to ``stall_seconds``. What a peer that reads
  nothing keeps after that, for as long as its connection lasts, is the one message that the core has in hand.
* A peer that was killed shows itself in a write as an error of the core's own: it becomes :class:`ClientGone`.
* A status that overtakes the head of the answer is lost, and the peer hears nothing: whoever ends a call with an error
  waits until it is :meth:`Stream.settled`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import grpc.aio

from broker.auth.caller import Caller
from broker.errors import PermissionDenied, ResourceExhausted
from broker.gather.changed import Changed
from broker.limits.shares import Holding
from broker.rpc.tasks import Tasks

INBOX = 4
INBOX_BYTES = 128 * 1024
"""Messages read ahead of the service, and their bytes: beyond either no more are read, so that one large one waits."""

OUTBOX = 128 * 1024
"""Bytes of messages that may wait for the writer before a sender waits too; so one more message may be there."""

_PREFIX = 5
"""Bytes that a message takes besides its own."""


class ClientGone(Exception):
    """The peer is not there any more; nothing can be answered."""


def slow_consumer(seconds: float) -> ResourceExhausted:
    """What ends a call whose peer took nothing for so long."""
    return ResourceExhausted(
        "SLOW_CONSUMER",
        f"nothing of the answer was read for {seconds:g} s; read it as it comes",
        quota="server.stall_seconds",
        retry_after=1.0,
    )


class Core(Protocol):
    """What is used of grpc.aio's ServicerContext."""

    async def read(self) -> Any:
        """The next message, or ``grpc.aio.EOF``."""

    async def send_initial_metadata(self, metadata: Sequence[tuple[str, str]], /) -> None:
        """Sends the head of the answer, which a write would do by itself."""

    async def write(self, message: bytes) -> None:
        """Sends a message."""

    def time_remaining(self) -> float | None:
        """Seconds until the call's deadline, by the wall clock."""


class Stream:
    """A call's messages.

    Attributes:
        caller: Who calls, by its credential.
        claims: The provider names that it speaks for in this call.
        disowned: Whether the call is ended because its credential does not hold any more.
        held: Bytes that are held for the call, of its caller's share; given back when it is over.
        deadline: Moment on the loop's clock when the caller stops waiting; None where it named none. Read once: the
            core measures it by the wall clock.
        noted: What the log says of the call besides, should it fail; nothing of any content.
    """

    def __init__(self, context: Core, tasks: Tasks, *, caller: Caller, held: Holding, stall_seconds: float) -> None:
        self.caller = caller
        self.claims: tuple[str, ...] = ()
        self.disowned = False
        self.held = held
        self._context = context
        self._tasks = tasks
        self._stall_seconds = stall_seconds
        remaining = context.time_remaining()
        self.deadline = None if remaining is None else asyncio.get_running_loop().time() + remaining
        self.noted: dict[str, object] = {}
        # Lists: thousands of idle sessions have one each, and an empty deque takes 0.8 kB.
        self._inbox: list[bytes] = []
        self._unread = 0
        self._arrived = Changed()
        self._taken = Changed()
        self._ended = False
        self._reading = False
        self._outbox: list[bytes] = []
        self._unwritten = 0
        self._opened = False
        self._opening = False
        self._wrote = Changed()
        self._wrote_at = 0.0
        self._writing = False
        self._gone = False
        self._closed = False

    def claim(self, provider: str) -> None:
        """Notes that the call speaks for a provider, which its credential must allow.

        Raises:
            PermissionDenied: It does not (``PROVIDER_NOT_ALLOWED``), whether or not there is such a provider.
        """
        if provider not in self.caller.providers:
            raise PermissionDenied(
                "PROVIDER_NOT_ALLOWED",
                f"this credential may not speak for the provider {provider!a}; use the provider's own credential, or "
                "have the operator allow the name",
            )
        self.claims = (*self.claims, provider)

    async def read(self) -> bytes | None:
        """The next message, as the core gives it; None once the caller has ended its side, or the call is over.

        For one task that nothing cancels, in place of :meth:`receive`: nothing is read ahead, and no other task woken.
        """
        if self._closed:
            return None
        try:
            message: Any = await self._context.read()
        except Exception:  # noqa: BLE001 - the core says in many ways that a call is over
            return None
        return None if message is grpc.aio.EOF else message

    async def write(self, message: bytes) -> None:
        """Hands a message to the core; for one task that nothing cancels, in place of :meth:`send`.

        Raises:
            ClientGone: The peer is not there, or the call is over.
        """
        if self._closed:
            raise ClientGone
        try:
            if not self._opened:
                await self._open()
            await self._context.write(message)
        except Exception:  # noqa: BLE001 - the core says in many ways that a peer is gone
            raise ClientGone from None

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """The next message; None once the caller has ended its side.

        Args:
            seconds: How long to wait; None: for ever. Giving up loses nothing: the message stays for the next call.

        Raises:
            TimeoutError: None came in time.
        """
        if not self._reading:
            self._reading = True
            self._tasks.start(self._read(), "rpc-reader")
        while not self._inbox:
            if self._ended:
                return None
            if not await self._arrived.wait(seconds):
                raise TimeoutError
        if self._taken.waiting:
            self._taken.tell()
        message = self._inbox.pop(0)
        self._unread -= len(message)
        return message

    async def confirm(self) -> None:
        """Returns where the caller is still there, whom it tells that the answer begins; for before the first message.

        To a reader a call that was broken off ends like one whose caller has said everything: the core tells the two
        apart only later, or when something is sent.

        Raises:
            ClientGone: The peer is not there: what it sent is no whole.
        """
        try:
            await self._open()
        except Exception:  # noqa: BLE001 - the core says in many ways that a peer is gone
            raise ClientGone from None

    def open(self) -> None:
        """Has the head of the answer sent, so that the first message need not wait for it."""
        if not self._opened:
            self._begin_to_write()

    async def send(self, message: bytes) -> None:
        """Queues a message, waiting for room.

        Raises:
            ClientGone: The peer is not there.
            ResourceExhausted: Nothing was taken for ``stall_seconds`` (``SLOW_CONSUMER``).
        """
        await self.room()
        self.post(message)

    @property
    def full(self) -> bool:
        """Whether there is no room for one more message."""
        return self._unwritten >= OUTBOX

    async def room(self) -> None:
        """Returns when there is room for one more message; raises like :meth:`send`."""
        if self._gone or self._unwritten >= OUTBOX:
            await self._until(OUTBOX - 1)

    def post(self, message: bytes) -> None:
        """Queues a message for which there is :meth:`room`."""
        self._outbox.append(message)
        self._unwritten += len(message) + _PREFIX
        self._begin_to_write()

    async def flush(self) -> None:
        """Returns when everything queued was handed to the transport; raises like :meth:`send`."""
        if self._gone or self._unwritten:
            await self._until(0)

    async def settled(self) -> None:
        """Returns when no head of the answer is on its way, or after ``stall_seconds``; once the stream is closed."""
        while self._opening:
            if not await self._wrote.wait(self._stall_seconds):
                return

    def close(self) -> None:
        """No more is read, written or held. Tasks that wait for the core end when the call does; idempotent."""
        self._closed = True
        self._outbox.clear()
        self.held.release()
        self._taken.tell()

    async def _until(self, unwritten: int) -> None:
        """Returns when at most so many bytes wait, prefixes included.

        The time allowed starts again whenever a message was taken.
        """
        since: float | None = None
        while self._unwritten > unwritten and not self._gone:
            now = asyncio.get_running_loop().time()
            since = now if since is None else max(since, self._wrote_at)
            left = since + self._stall_seconds - now
            if left <= 0:
                raise slow_consumer(self._stall_seconds)
            await self._wrote.wait(left)
        if self._gone:
            raise ClientGone

    async def _read(self) -> None:
        try:
            while not self._closed:
                message = await self._context.read()
                if message is grpc.aio.EOF:
                    return
                self._inbox.append(message)
                self._unread += len(message)
                self._arrived.tell()
                while (len(self._inbox) >= INBOX or self._unread >= INBOX_BYTES) and not self._closed:
                    await self._taken.wait()
        except Exception:  # noqa: BLE001, S110 - the core says in many ways that a call is over
            pass
        finally:
            self._ended = True
            self._arrived.tell()

    async def _open(self) -> None:
        """Sends the head of the answer, once."""
        if not self._opened:
            self._opened = self._opening = True
            try:
                await self._context.send_initial_metadata(())
            finally:
                self._opening = False
                self._wrote.tell()

    def _begin_to_write(self) -> None:
        if not self._writing:
            self._writing = True
            self._tasks.start(self._write(), "rpc-writer")

    async def _write(self) -> None:
        """Writes what is queued. It ends with the last of it: a session that has nothing to say keeps no task."""
        time = asyncio.get_running_loop().time
        try:
            # By itself, for it passes where a peer takes no message: a status cannot be sent while it waits with one.
            if not self._opened and not self._closed:
                await self._open()
            while self._outbox and not self._closed:
                message = self._outbox.pop(0)
                await self._context.write(message)
                self._unwritten -= len(message) + _PREFIX
                self._wrote_at = time()
                if self._wrote.waiting:
                    self._wrote.tell()
        except Exception:  # noqa: BLE001 - the core says in many ways that a peer is gone
            self._gone = True
        finally:
            self._writing = False
            self._outbox.clear()
            self._wrote.tell()
