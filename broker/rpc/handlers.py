"""How every method is served: a stream handler of raw bytes behind one shield.

The methods that the contract declares unary or server-streaming are served this way too. grpc.aio never answers a
unary call that ends without a message, takes the first of two, answers malformed bytes with UNKNOWN, and hands the text
of any exception to the caller; here each of these has its own right answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import structlog
from structlog.contextvars import bind_contextvars, unbind_contextvars

from broker.errors import BrokerError, Internal, InvalidArgument, ResourceExhausted
from broker.rpc.callers import Admission, Callers
from broker.rpc.observing import Observing
from broker.rpc.quotas import Quotas, spread
from broker.rpc.status import abort
from broker.rpc.streams import ClientGone, Stream
from broker.rpc.tasks import Tasks
from broker.rpc.turns import Turns

log = structlog.get_logger("broker.rpc")

Method = Callable[[Stream], Awaitable[None]]
"""A method: reads from the stream, writes to it, returns when the answer is whole, raises the domain's errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What every handler needs of the server.

    Attributes:
        first_message_seconds: How long a call may stay silent before its first message, and a call of one message
            before it ends its side.
        stall_seconds: How long an answer may wait for its reader.
        max_message_bytes: Of one message received.
        callers: Who makes each call.
        quotas: What each caller may have.
        observing: What watches each call for operators.
        tasks: Where the streams' tasks are kept.
        turns: The loop's, for whoever can wait.
        working: The calls that a stop waits for: those that were asked something and will answer.
    """

    first_message_seconds: float
    stall_seconds: float
    max_message_bytes: int
    callers: Callers
    quotas: Quotas
    observing: Observing = field(default_factory=Observing)
    tasks: Tasks = field(default_factory=Tasks)
    turns: Turns = field(default_factory=Turns)
    working: set[asyncio.Task[Any]] = field(default_factory=set)

    def work(self) -> None:
        """Has a stop wait for the running call, until its status was handed over."""
        task = asyncio.current_task()
        assert task is not None, "a call runs in a task"
        self.working.add(task)
        task.add_done_callback(self.working.discard)

    async def idle(self, seconds: float) -> None:
        """Returns when no call works any more, or after ``seconds``."""
        if self.working:
            await asyncio.wait(self.working, timeout=seconds)


def handler(name: str, method: Method, serving: Serving) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A gRPC handler for one method.

    Args:
        name: The method's name, for the log and in :mod:`broker.auth.methods`.
        method: What it does.
        serving: What the server gives to every handler.
    """

    async def handle(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        with serving.observing.call(name, context) as call:
            try:
                admission = serving.callers.admit(name, context)
            except Exception as refused:  # noqa: BLE001 - the shield
                call.failure = refused if isinstance(refused, BrokerError) else _fault(name)
                await serving.quotas.pace_stranger(context.peer())
                await _fail(context, call.failure, serving.stall_seconds)
                return
            stream = Stream(
                context,
                serving.tasks,
                caller=admission.caller,
                held=serving.quotas.held.holding(admission.caller.tenant),
                stall_seconds=serving.stall_seconds,
            )
            call.deadline = stream.deadline
            logged = admission.caller.logged
            bind_contextvars(**logged)
            try:
                call.failure = await _run(name, method, stream, admission, serving)
            finally:
                unbind_contextvars(*logged)
                stream.close()
            if isinstance(call.failure, ResourceExhausted):
                await serving.quotas.pace(admission.caller.tenant)
            if call.failure is not None:
                await stream.settled()
                await _fail(context, call.failure, serving.stall_seconds)

    # grpc types its handlers for iterators; a coroutine that reads and writes by its context is an untyped form.
    behaviour: Any = handle
    return grpc.stream_stream_rpc_method_handler(behaviour)


async def _run(name: str, method: Method, stream: Stream, admission: Admission, serving: Serving) -> BrokerError | None:
    started = time.monotonic()
    try:
        # The quotas first: a refusal is to cost as little as may be.
        taken = serving.quotas.call(name, stream.caller)
        try:
            with serving.callers.watching(admission, stream):
                await method(stream)
                await stream.flush()
        finally:
            taken.release()
    except ClientGone:
        # The peer is not there to be answered: grpc ends such a call in silence when its handler was cancelled.
        raise asyncio.CancelledError from None
    except BrokerError as error:
        if isinstance(error, ResourceExhausted):
            spread(error)
        log.info(
            "call refused",
            method=name,
            code=error.code,
            reason=error.reason,
            fields=[violation.field for violation in error.violations[:8]],
            ms=round((time.monotonic() - started) * 1000, 1),
            **stream.noted,
        )
        return error
    except Exception:  # noqa: BLE001 - the shield
        return _fault(name)
    return None


def _fault(name: str) -> Internal:
    """What the caller is told of the exception that is being handled: where to find it in the log."""
    correlation = secrets.token_hex(8)
    # As text, and not as exc_info: a renderer might add local variables, and those hold what frames contain.
    log.error("a fault in the broker", method=name, correlation_id=correlation, traceback=traceback.format_exc())
    return Internal("INTERNAL", f"the broker failed; its log has the particulars under correlation id {correlation}")


async def _fail(context: grpc.aio.ServicerContext[bytes, bytes], failure: BrokerError, seconds: float) -> None:
    """Ends a call with its error; a peer that does not take it in ``seconds`` may have it later from the core."""
    # What was raised holds what the call had in hand, and a peer that reads nothing would keep it.
    failure.__traceback__ = failure.__context__ = failure.__cause__ = None
    try:
        async with asyncio.timeout(seconds):
            await abort(context, failure)
    except grpc.aio.AbortError:
        raise
    except Exception:  # noqa: BLE001 - a peer that left meanwhile shows itself as an error of the core's
        raise asyncio.CancelledError from None


async def first_message(stream: Stream, serving: Serving) -> bytes:
    """The first message of a call.

    Raises:
        InvalidArgument: There is none (``NO_MESSAGE``).
        ResourceExhausted: It is too large (``TOO_LARGE``).
    """
    try:
        message = await stream.receive(serving.first_message_seconds)
    except TimeoutError:
        raise silent(serving.first_message_seconds) from None
    if message is None:
        raise ended_early()
    return sized(message, serving)


def silent(seconds: float) -> InvalidArgument:
    """What ends a call that said nothing for so long."""
    return InvalidArgument("NO_MESSAGE", f"no message came within {seconds:g} s of the call's start; send one")


def ended_early() -> InvalidArgument:
    """What ends a call of which not one message came."""
    return InvalidArgument("NO_MESSAGE", "the call ended without a message; send one before ending it")


async def only_message(stream: Stream, serving: Serving) -> bytes:
    """The one message of a call that takes exactly one.

    Raises:
        InvalidArgument: There is none (``NO_MESSAGE``), a second (``EXTRA_MESSAGE``), or no end (``NOT_ENDED``).
        ResourceExhausted: It is too large (``TOO_LARGE``), or its caller holds too much (``HELD_BYTES``).
    """
    message = await first_message(stream, serving)
    stream.held.take(len(message))
    try:
        extra = await stream.receive(serving.first_message_seconds)
    except TimeoutError:
        raise InvalidArgument(
            "NOT_ENDED",
            f"the request was not ended within {serving.first_message_seconds:g} s of its message; half-close the call",
        ) from None
    if extra is not None:
        raise InvalidArgument("EXTRA_MESSAGE", "this method takes one message and got more; make a call for each")
    return message


def sized(message: bytes, serving: Serving) -> bytes:
    """The message itself.

    Raises:
        ResourceExhausted: It is larger than the server takes (``TOO_LARGE``).
    """
    if len(message) > serving.max_message_bytes:
        raise ResourceExhausted(
            "TOO_LARGE",
            f"a message has {len(message)} bytes, and {serving.max_message_bytes} are taken; send smaller ones",
            quota="limits.max_message_bytes",
        )
    return message


def unary(answer: Callable[[bytes], Awaitable[bytes]], serving: Serving) -> Method:
    """A method of one message in and one out."""

    async def method(stream: Stream) -> None:
        request = await only_message(stream, serving)
        serving.work()
        await stream.send(await answer(request))

    return method
