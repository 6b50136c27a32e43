"""One provider's call while its session lasts: one task reads, and one writes.

Thousands of providers that are attached and quiet have one task each, in a read, beside the one that grpc.aio gives the
call: the one that writes begins with the first message, and stays from the first query on. A message that comes or goes
wakes no task but the one that waits for the core.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Callable

from broker.auth.caller import Caller
from broker.errors import BrokerError
from broker.gather.changed import Changed
from broker.gather.session import ProviderSession, State
from broker.rpc.handlers import Serving, ended_early, silent, sized
from broker.rpc.streams import Stream, slow_consumer
from broker.rpc.validation import violations_of
from broker.wire import sessions
from broker.wire.events import Ask, Hello

REJECTED_BYTES = 64 * 1024
"""Of a message that was rejected in a session, and counts for one refusal; a large one takes longer to read."""


class Attaching:
    """Carries what is said between a call and its session, which is to be made with :meth:`notify`."""

    __slots__ = (
        "_changed",
        "_context",
        "_failure",
        "_more",
        "_patience",
        "_serving",
        "_session",
        "_stream",
        "_told",
        "_writing",
        "_wrote",
    )

    def __init__(self, stream: Stream, serving: Serving, told: sessions.Limits) -> None:
        """Of a call of which nothing was read; ``told`` is what a Welcome says of the broker."""
        self._stream = stream
        self._serving = serving
        self._told = told
        # Whoever asks the provider may start its writer; what that logs is the provider's.
        self._context = contextvars.copy_context()
        self._changed = Changed()
        self._failure: Exception | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._writing = False
        self._more: asyncio.Future[None] | None = None
        self._wrote = math.inf
        self._session: ProviderSession

    async def serve(self, session: ProviderSession, attached: Callable[[ProviderSession], None]) -> None:
        """Returns when the session is over and all that it had to say was said.

        Args:
            session: The session.
            attached: Called with it once it stands.

        Raises:
            BrokerError: What the session ended with; ``SLOW_CONSUMER``: the peer took nothing of what was to be said.
            ClientGone: The peer is not there.
        """
        self._session = session
        loop, seconds = asyncio.get_running_loop(), self._serving.first_message_seconds
        self._patience = loop.call_later(seconds, lambda: session.close(silent(seconds)))
        try:
            self._serving.tasks.start(self._read(attached), "rpc-reader", self._context)
            while session.state is not State.CLOSED:
                await self._changed.wait()
            while self._writing and self._failure is None:
                if not await self._changed.wait(self._serving.stall_seconds):
                    raise slow_consumer(self._serving.stall_seconds)
        finally:
            self._begun()
        if self._failure is not None:
            raise self._failure
        if session.error is not None:
            raise session.error

    def notify(self) -> None:
        """The session has something to say, or is over."""
        if self._session.state is State.CLOSED:
            self._changed.tell()
        if not self._writing:
            self._writing = True
            if self._more is None:
                self._serving.tasks.start(self._write(), "rpc-writer", self._context)
            else:
                self._more.set_result(None)
        elif self._wrote + self._serving.stall_seconds < asyncio.get_running_loop().time():
            self._failure = error = slow_consumer(self._serving.stall_seconds)
            self._session.close(error)

    async def _write(self) -> None:
        """Writes what there is. It ends with the last of it, where the provider was not asked anything yet."""
        session, stream, loop = self._session, self._stream, asyncio.get_running_loop()
        asked = False
        try:
            while True:
                while (event := session.take()) is not None:
                    self._wrote = loop.time()
                    await stream.write(sessions.attach_response(event, self._told))
                    asked = asked or isinstance(event, Ask)
                    if session.state is State.CLOSED:
                        self._changed.tell()
                if session.state is State.CLOSED or not asked:
                    break
                # Whoever was asked is asked again: to wait costs a fraction of a task for each query.
                self._more = loop.create_future()
                self._writing, self._wrote = False, math.inf
                await self._more
        except Exception as failure:  # noqa: BLE001 - the call ends with it
            self._fail(failure)
        finally:
            self._writing, self._more, self._wrote = False, None, math.inf
            if session.state is State.CLOSED:
                self._changed.tell()

    async def _read(self, attached: Callable[[ProviderSession], None]) -> None:
        """Reads to the end of the call, whatever becomes of the session: a read is never cancelled."""
        session, stream, serving = self._session, self._stream, self._serving
        try:
            while (message := await stream.read()) is not None:
                if serving.turns.over:
                    await serving.turns.another()
                event = sessions.read_attach_request(sized(message, serving), violations_of)
                if self._patience is not None:
                    self._begun()
                if isinstance(event, Hello):
                    self._greet(event, attached)
                elif not session.receive(event):
                    times = 1 + len(message) // REJECTED_BYTES
                    # What waits to be paced is not to be held meanwhile.
                    del event, message
                    await serving.quotas.pace(_pacer(stream.caller), times)
                    continue
                del event, message
            session.close(None if self._patience is None else ended_early())
        except BrokerError as error:
            session.close(error)
        except Exception as fault:  # noqa: BLE001 - the call ends with it
            self._fail(fault)

    def _greet(self, hello: Hello, attached: Callable[[ProviderSession], None]) -> None:
        self._stream.claim(hello.provider)
        session = self._session
        new = session.state is State.NEW
        session.receive(hello)
        if new and session.state is State.OPEN:
            attached(session)

    def _begun(self) -> None:
        """It is not waited for the first message any more."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._session.close()


def _pacer(caller: Caller) -> str:
    """Whose rejected messages are counted together: no provider's hold up another's."""
    return f"{caller.tenant}/{caller.subject}" if caller.subject else caller.connection
