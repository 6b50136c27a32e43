"""One session of a provider with one broker, from Hello to its end.

Two tasks use the call: one reads and one writes. The reader is never cancelled: cancelling the call ends it. Every task
that the session starts has ended when :meth:`Session.run` returns or raises.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from broker.client.access import Access
from broker.client.answering import Answerer, Answering, Outbox
from broker.client.channel import end_sending, send, translated
from broker.client.handshakes import explained_soon
from broker.errors import Internal, InvalidArgument, Unavailable
from broker.wire.events import Ask, Cancel, Detached, Draining, Hello, Rejection, Welcome
from broker.wire.sessions import DEFAULT_LIMITS, attach_request, read_attach_response, read_limits

WELCOME_SECONDS = 15.0
"""How long the broker may take to answer a Hello, connecting included."""

CLOSING_SECONDS = 2.0
"""How long the broker may take to end a call that this side has ended."""

OUTBOX = 8
"""Messages that wait for the writer, at most 512 KiB each; beyond them answers wait."""

REMEMBERED = 1000
"""Queries that the broker cancelled, of which an echo may still come."""

NOT_OPEN = "QUERY_NOT_OPEN"
"""What a broker says of frames for a query that it is done with."""

log = logging.getLogger("broker.client")

_END = b""


class Session:
    """One session.

    Args:
        call: A stream of bytes, just opened.
        address: Where it goes, for errors.
        hello: Who is attaching.
        answerer: The user's function.
        on_attached: Told the session's id.
        on_rejected: Told what the broker did not take.
        on_changed: Called when the session was welcomed, and when it is to drain.
        room: What queries of this and other sessions of the provider are answered within; None: ``max_in_flight``.
        access: What the provider brought to the broker.

    Attributes:
        welcomed: Whether it stands.
        draining: Whether the broker wants it to end; it goes on until :meth:`leave`.
    """

    def __init__(
        self,
        call: Any,
        address: str,
        hello: Hello,
        answerer: Answerer,
        on_attached: Callable[[str], None],
        on_rejected: Callable[[Rejection], None],
        on_changed: Callable[[], None] = lambda: None,
        room: asyncio.Semaphore | None = None,
        access: Access = Access(),  # noqa: B008 - immutable
    ) -> None:
        self._call = call
        self._address = address
        self._access = access
        self._hello = hello
        self._answerer = answerer
        self._on_attached = on_attached
        self._on_rejected = on_rejected
        self._on_changed = on_changed
        self.welcomed = False
        self._drain_by: float | None = None
        self._limits = DEFAULT_LIMITS
        self._outbox: Outbox = asyncio.Queue(OUTBOX)
        self._room = asyncio.Semaphore(hello.max_in_flight) if room is None else room
        self._open: dict[str, tuple[Answering, asyncio.Task[None]]] = {}
        self._cancelled: deque[str] = deque(maxlen=REMEMBERED)
        self._reader: asyncio.Task[None] | None = None
        self._close_at: float | None = None
        self._closer: asyncio.TimerHandle | None = None
        self._expired = False
        self._changed = asyncio.Event()

    @property
    def draining(self) -> bool:  # noqa: D102 - see the class
        return self._drain_by is not None

    def leave(self) -> None:
        """Ends as the broker wants it: no more queries, and what is open finished in the time that it gave."""
        if self._drain_by is not None:
            self.end(max(0.0, self._drain_by - asyncio.get_running_loop().time()))

    def end(self, grace: float) -> None:
        """Takes no more queries, finishes open ones within ``grace`` seconds, then closes. The shortest grace wins."""
        loop = asyncio.get_running_loop()
        moment = loop.time() + grace
        if self._close_at is None or moment < self._close_at:
            if self._closer is not None:
                self._closer.cancel()
            self._close_at = moment
            self._closer = loop.call_at(moment, self._expire)
        self._changed.set()

    def _expire(self) -> None:
        self._expired = True
        self._changed.set()

    async def run(self) -> None:
        """Returns when the session was ended in order, by :meth:`end`.

        Raises:
            BrokerError: It was refused, or broke.
        """
        self._outbox.put_nowait((None, attach_request(self._hello)))
        writer = asyncio.create_task(self._write(), name="provider-writer")
        self._reader = asyncio.create_task(self._read(), name="provider-reader")
        self._reader.add_done_callback(lambda _: self._changed.set())
        try:
            if not await self._until(lambda: self.welcomed or self._ending or self._heard_all, WELCOME_SECONDS):
                text = f"what listens at {self._address} did not welcome the provider in {WELCOME_SECONDS:g} s"
                raise Unavailable("NO_WELCOME", f"{text}; is it a broker?")
            await self._until(lambda: self._ending or self._heard_all)
            if self.welcomed and not self._heard_all:
                await self._finish()
            if self._heard_all:
                self._judge()
        finally:
            self._call.cancel()
            await self._sweep(self._reader, writer)
            # An error that a task raised refers, by its traceback, to what refers to the task: such a circle would keep
            # the call, until the collector comes.
            self._reader = None

    @property
    def _ending(self) -> bool:
        return self._close_at is not None

    @property
    def _heard_all(self) -> bool:
        return self._reader is not None and self._reader.done()

    def _judge(self) -> None:
        """Raises what ended the call, unless this side had ended it and the broker merely went away."""
        try:
            if self._reader is not None:  # It is until the end of run().
                self._reader.result()
        except Unavailable:
            if not self._ending:
                raise
        else:
            if not self._ending:
                raise Unavailable("CONNECTION_LOST", f"the broker at {self._address} ended the session; trying again")

    async def _finish(self) -> None:
        def over() -> bool:
            return self._expired or self._heard_all

        await self._detach(over)
        await self._until(lambda: not self._open or over())
        if self._open:
            log.warning("%d queries were still open when the session had to close", len(self._open))
        for _, task in self._open.values():
            task.cancel()
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._outbox.put((None, _END))
                await self._until(lambda: self._heard_all)
        except TimeoutError:
            log.info("the broker did not end the session in %g s; closing it", CLOSING_SECONDS)

    async def _detach(self, over: Callable[[], bool]) -> None:
        # A task of its own: where the broker takes nothing, the outbox is full and may stay so.
        putting = asyncio.create_task(self._outbox.put((None, attach_request(Detached()))), name="provider-detach")
        putting.add_done_callback(lambda _: self._changed.set())
        try:
            await self._until(lambda: putting.done() or over())
        finally:
            putting.cancel()
            await asyncio.wait({putting})

    async def _sweep(self, reader: asyncio.Task[None], writer: asyncio.Task[None]) -> None:
        """Waits until every task has ended; the call was cancelled before."""
        if self._closer is not None:
            self._closer.cancel()
        answers = [task for _, task in self._open.values()]
        for task in (writer, *answers):
            task.cancel()
        _, left = await asyncio.wait({reader, writer, *answers}, timeout=CLOSING_SECONDS)
        if left:
            log.error("%d answers go on after they were cancelled; an answer must end when it is cancelled", len(left))
        if reader.done() and not reader.cancelled():
            reader.exception()

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Waits for a condition that every change of this session's state may meet; False when time ran out."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self) -> None:
        while True:
            answering, data = await self._outbox.get()
            if data == _END:
                await end_sending(self._call)
                return
            wanted = answering is None or not answering.cancelled
            if wanted and not await send(self._call, data):
                # The call is over, and the reader learns why.
                return

    async def _read(self) -> None:
        try:
            while (data := await self._call.read()) is not grpc.aio.EOF:
                self._take(data)
        except grpc.RpcError as error:
            raise await explained_soon(translated(error, self._address), self._address, self._access) from None
        except grpc.aio.BaseError as error:
            text = f"the session with the broker at {self._address} broke: {error}"
            raise Unavailable("CONNECTION_LOST", text) from None
        except asyncio.CancelledError:
            # Nothing cancels this task: it is how a call says that this side has cancelled it.
            return

    def _take(self, data: bytes) -> None:
        try:
            message = read_attach_response(data)
        except InvalidArgument as error:
            raise Internal(
                "ANSWER_BROKEN", f"the broker at {self._address} sent what cannot be read: {error}"
            ) from None
        if isinstance(message, Welcome) == self.welcomed:
            raise Internal("ANSWER_BROKEN", f"the broker at {self._address} must send one Welcome, and send it first")
        match message:
            case Welcome():
                self._limits = read_limits(data)
                self.welcomed = True
                self._changed.set()
                self._on_attached(message.session_id)
                self._on_changed()
            case Ask():
                self._start(message)
            case Cancel():
                self._cancelled.append(message.query_id)
                if message.query_id in self._open:
                    answering, task = self._open[message.query_id]
                    answering.cancelled = True
                    task.cancel()
            case Rejection():
                self._reject(message)
            case Draining():
                log.info("the broker at %s ends this session; attaching anew, then finishing it", self._address)
                self._drain_by = asyncio.get_running_loop().time() + message.remaining_ms / 1000
                self._on_changed()

    def _reject(self, rejection: Rejection) -> None:
        if rejection.query_id in self._cancelled and all(one.reason == NOT_OPEN for one in rejection.violations):
            # What was on its way when the broker cancelled: nobody's mistake.
            log.debug("what crossed the cancellation of query %s was not taken", rejection.query_id)
            return
        self._on_rejected(rejection)

    def _start(self, ask: Ask) -> None:
        if ask.query_id in self._open:
            raise Internal("ANSWER_BROKEN", f"the broker at {self._address} asked one query twice: {ask.query_id}")
        answering = Answering(ask, self._limits, self._outbox)
        task = asyncio.create_task(self._run(answering), name=f"answer {ask.query_id}")
        self._open[ask.query_id] = (answering, task)
        # Not a `finally` of the task's own: one that is cancelled before it starts has none.
        task.add_done_callback(lambda _: self._answered(ask.query_id))

    async def _run(self, answering: Answering) -> None:
        async with self._room:
            await answering.run(self._answerer)

    def _answered(self, query_id: str) -> None:
        del self._open[query_id]
        self._changed.set()
