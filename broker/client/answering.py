"""One question and its answer: the user's function, and its frames on their way into the session's outbox."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

from broker.client.outgoing import Filling
from broker.client.query import Query
from broker.client.traces import answering
from broker.core.frames import Frame
from broker.core.given import given
from broker.core.grants import Allowance
from broker.wire.batches import join_batch
from broker.wire.events import Ask, Batch, LaneEnded
from broker.wire.frames import encode_frame
from broker.wire.sessions import Limits, attach_request

LINGER_SECONDS = 0.02
"""How long a frame waits for company before it is sent: a slow generator's first frames must not miss the deadline."""

AnswerFunction: TypeAlias = Callable[[Query], Awaitable[Iterable[Frame]] | AsyncIterable[Frame]]
"""What a user writes: an async function that returns frames, or an async generator that yields them."""

Outbox: TypeAlias = "asyncio.Queue[tuple[Answering | None, bytes]]"
"""Messages that wait for the session's writer, each with the answer that it is part of; empty bytes end the writer."""

log = logging.getLogger("broker.client")


def answer_problem(answer: object) -> str | None:
    """Why something cannot answer questions, as words to put into an error; None: nothing is known against it.

    A plain function may return what an async one would; only one that was written with ``def`` and is no wrapper of an
    async one is refused, for what it returns is seen when the first question comes.
    """
    wanted = "expected an async function that returns frames, or an async generator that yields them"
    if isinstance(answer, type) or not callable(answer):
        return f"{wanted}; got {given(answer)}"
    written: Any = answer
    while isinstance(written, partial):
        written = written.func
    written = inspect.unwrap(written)
    if inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written):
        return None
    if inspect.isroutine(written) and getattr(written, "__name__", "") != "<lambda>":
        return f"{wanted}; {written.__name__}() is a plain function: write `async def`"
    return None


class Answerer:
    """The user's function, and what has been said of its answers already.

    Args:
        name: The provider's name, for the log.
        function: The function.
    """

    def __init__(self, name: str, function: AnswerFunction) -> None:
        self.name = name
        self.function = function
        self._told = False

    def trimmed(self, query: Query) -> None:
        """More was answered than was granted; it is said once."""
        if not self._told:
            self._told = True
            log.warning(
                "%s answers with more than the broker grants; what is beyond %d frames or %d tokens of content is not "
                "sent. An answer should heed query.max_frames and query.max_tokens (this is said once)",
                self.name,
                query.max_frames,
                query.max_tokens,
            )


class Answering:
    """One question being answered.

    Attributes:
        query_id: The question's name in its session.
        cancelled: Whether the broker wants no more of it; what is still queued is then not sent.
    """

    def __init__(self, ask: Ask, limits: Limits, outbox: Outbox) -> None:
        self.query_id = ask.query_id
        self.cancelled = False
        self._query = _query(ask)
        self._allowance = Allowance(self._query.max_frames, self._query.max_tokens)
        self._limits = limits
        self._filling = Filling(limits)
        self._outbox = outbox
        self._putting = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, answerer: Answerer) -> None:
        """Calls the user's function and puts its frames and their end into the outbox.

        A broker takes one frame or token beyond its grant for a lie, and drops the lane; so what does not fit the grant
        is not sent.

        Whatever the function raises ends the lane as failed, with the error's type and nothing else; the error itself
        goes to the log. Frames given before it are sent.
        """
        end = LaneEnded(self.query_id)
        try:
            try:
                with answering(answerer.name, self._query.traceparent):
                    await self._answer(answerer)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Not this answer was cancelled, but something that the user's function waited for.
                end = self._failed(error)
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and only its lane fails
                end = self._failed(error)
            await self._flush()
            await self._outbox.put((self, attach_request(end)))
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _answer(self, answerer: Answerer) -> None:
        count = 0
        async with aclosing(_frames(answerer.function(self._query))) as frames:
            async for frame in frames:
                data = encode_frame(frame, f"frames[{count}]")
                count += 1
                # One that is too large is dropped by the broker, whose audit has it at no tokens.
                too_large = len(data) > self._limits.max_frame_bytes
                if self._allowance.pay(0) if too_large else self._allowance.take(frame):
                    await self._add(data)
                    continue
                answerer.trimmed(self._query)
                if self._allowance.spent:
                    return
                # A smaller one may follow; a generator without end, and without a wait of its own, holds up nobody.
                await asyncio.sleep(0)

    async def _add(self, frame: bytes) -> None:
        if not self._filling.fits(frame):
            await self._flush()
        self._filling.add(frame)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._lingered)

    async def _flush(self) -> None:
        if len(self._filling):
            self._putting = True
            await self._outbox.put((self, self._batch()))
            self._putting = False

    def _lingered(self) -> None:
        self._timer = None
        if self._putting or self._outbox.full():
            # What was taken first must be put first; and a full outbox has frames enough.
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._lingered)
        elif len(self._filling):
            self._outbox.put_nowait((self, self._batch()))

    def _batch(self) -> bytes:
        return attach_request(Batch(self.query_id, join_batch(self.query_id, self._filling.take())))

    def _failed(self, error: BaseException) -> LaneEnded:
        log.error("a query could not be answered: %s", type(error).__name__, exc_info=error)
        return LaneEnded(self.query_id, failed=True, message=type(error).__name__)


async def _frames(answer: Awaitable[Iterable[Frame]] | AsyncIterable[Frame]) -> AsyncGenerator[Frame, None]:
    if not isinstance(answer, AsyncIterable):
        # Annotations bind nobody.
        if not inspect.isawaitable(answer):
            raise TypeError(f"the answer function returned {given(answer)}; write it with `async def`")
        frames: Any = await answer
        if not isinstance(frames, Iterable) or isinstance(frames, str | bytes | Mapping):
            raise TypeError(f"the answer must be a list of Frame; got {given(frames)}")
        for frame in frames:
            yield frame
        return
    try:
        async for frame in answer:
            yield frame
    finally:
        close = getattr(answer, "aclose", None)
        if close is not None:
            await close()


def _query(ask: Ask) -> Query:
    query = ask.query
    return Query(
        goal=query.goal,
        query_text=query.query_text,
        kinds=query.kinds,
        anchors=query.anchors,
        max_frames=query.max_frames,
        max_tokens=query.max_tokens,
        as_of=query.as_of,
        traceparent=query.traceparent,
        deadline=time.monotonic() + ask.remaining_ms / 1000,
    )
