"""One call as the services see it: whole messages of bytes in, whole messages of bytes out, both bounded.

grpc.aio leaves four things to its user, and this module is where they are kept:

* A read that is cancelled breaks the stream (and lets the core write into freed memory): one task reads, nothing ever
  cancels it, and it ends by itself when the call does.
* Two writers on one stream raise: one task writes.
* Backpressure starts only after megabytes, and a queue of one's own is the unbounded part: both queues have bounds, a
  full inbox stops the reader, and a full outbox holds its sender up to ``stall_seconds``.
* A peer that was killed shows itself in a write as an error of the core's own: it becomes :class:`ClientGone`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import grpc.aio

from broker.errors import ResourceExhausted

INBOX = 4
"""Messages read ahead of the service; at most 1 MiB each."""

OUTBOX = 4
"""Messages that wait for the writer; at most 512 KiB each."""


class ClientGone(Exception):
    """The peer is not there any more; nothing can be answered."""


class Context(Protocol):
    """What is used of grpc.aio's ServicerContext."""

    async def read(self) -> Any:
        """The next message, or ``grpc.aio.EOF``."""

    async def send_initial_metadata(self, metadata: Sequence[tuple[str, str]], /) -> None:
        """Sends the head of the answer, which a write would do by itself."""

    async def write(self, message: bytes) -> None:
        """Sends a message."""

    def time_remaining(self) -> float | None:
        """Seconds until the call's deadline, by the wall clock."""


class Tasks:
    """The tasks that read and write for calls, so that a stop can wait for the last of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Runs ``work`` as a task of its own, held until it ends."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self, seconds: float) -> None:
        """Returns when all have ended, or after ``seconds``."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)


class Stream:
    """A call's messages.

    Attributes:
        deadline: Moment on the loop's clock when the caller stops waiting; None where it named none. Read once: the
            core measures it by the wall clock.
        noted: What the log says of the call besides, should it fail; nothing of any content.
    """

    def __init__(self, context: Context, tasks: Tasks, *, stall_seconds: float) -> None:
        self._context = context
        self._tasks = tasks
        self._stall_seconds = stall_seconds
        remaining = context.time_remaining()
        self.deadline = None if remaining is None else asyncio.get_running_loop().time() + remaining
        self.noted: dict[str, object] = {}
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = False
        self._reading = False
        self._outbox: deque[bytes] = deque()
        self._queued = asyncio.Event()
        self._written = asyncio.Event()
        self._writing = False
        self._gone = False
        self._closed = False

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
        async with asyncio.timeout(seconds):
            while not self._inbox:
                if self._ended:
                    return None
                self._arrived.clear()
                await self._arrived.wait()
        self._taken.set()
        return self._inbox.popleft()

    async def confirm(self) -> None:
        """Returns where the caller is still there, whom it tells that the answer begins; for before the first message.

        To a reader a call that was broken off ends like one whose caller has said everything: the core tells the two
        apart only later, or when something is sent.

        Raises:
            ClientGone: The peer is not there: what it sent is no whole.
        """
        try:
            await self._context.send_initial_metadata(())
        except Exception:  # noqa: BLE001 - the core says in many ways that a peer is gone
            raise ClientGone from None

    async def send(self, message: bytes) -> None:
        """Queues a message, waiting for room.

        Raises:
            ClientGone: The peer is not there.
            ResourceExhausted: Nothing was taken for ``stall_seconds`` (``SLOW_CONSUMER``).
        """
        await self._until(OUTBOX - 1)
        if not self._writing:
            self._writing = True
            self._tasks.start(self._write(), "rpc-writer")
        self._outbox.append(message)
        self._queued.set()

    async def flush(self) -> None:
        """Returns when everything queued was handed to the transport; raises like :meth:`send`."""
        await self._until(0)

    def close(self) -> None:
        """No more is read or written. Tasks that wait for the core end when the call does; idempotent."""
        self._closed = True
        self._taken.set()
        self._queued.set()

    async def _until(self, waiting: int) -> None:
        """Returns when at most so many messages wait. The time allowed starts again whenever one was taken."""
        while len(self._outbox) > waiting and not self._gone:
            self._written.clear()
            try:
                await asyncio.wait_for(self._written.wait(), self._stall_seconds)
            except TimeoutError:
                raise ResourceExhausted(
                    "SLOW_CONSUMER",
                    f"nothing of the answer was read for {self._stall_seconds:g} s; read it as it comes",
                    quota="server.stall_seconds",
                    retry_after=1.0,
                ) from None
        if self._gone:
            raise ClientGone

    async def _read(self) -> None:
        try:
            while not self._closed:
                message = await self._context.read()
                if message is grpc.aio.EOF:
                    return
                self._inbox.append(message)
                self._arrived.set()
                while len(self._inbox) >= INBOX and not self._closed:
                    self._taken.clear()
                    await self._taken.wait()
        except Exception:  # noqa: BLE001, S110 - the core says in many ways that a call is over
            pass
        finally:
            self._ended = True
            self._arrived.set()

    async def _write(self) -> None:
        try:
            while not self._closed:
                if not self._outbox:
                    self._queued.clear()
                    await self._queued.wait()
                    continue
                await self._context.write(self._outbox[0])
                self._outbox.popleft()
                self._written.set()
        except Exception:  # noqa: BLE001 - the core says in many ways that a peer is gone
            self._gone = True
        finally:
            self._outbox.clear()
            self._written.set()
