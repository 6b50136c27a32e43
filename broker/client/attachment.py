"""A provider's place at one broker: one session after another, and two at once while one takes over from the other.

A broker tells a session to drain when it stops, and when the session has reached its age. Either way the provider first
attaches anew, over a connection of its own; the old session goes on until the new one was welcomed, then takes no more
questions and finishes those that are open. So no question is asked while the provider is not there. A broker that stops
refuses the new session, and the old one finishes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial

import grpc.aio

from broker.client.backoff import Backoff
from broker.client.session import Session
from broker.client.standing import Standing
from broker.errors import (
    Aborted,
    BrokerError,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
    Unimplemented,
)

GOOD_SESSION_SECONDS = 5.0
"""A session that stood this long was a good one: the next failure waits as briefly as the first."""

STOPPING = "STOPPING"
"""What a broker says to those who attach while it stops."""

log = logging.getLogger("broker.client")

Begin = Callable[[grpc.aio.Channel, Callable[[], None]], Session]
"""Makes a session on a channel; the function is called whenever the session was welcomed or told to drain."""


class _Place:
    """A session, its connection, and the task that it runs in."""

    def __init__(self, session: Session, channel: grpc.aio.Channel, task: asyncio.Task[None]) -> None:
        self.session = session
        self.channel = channel
        self.task = task

    @property
    def over(self) -> bool:
        return self.task.done()


class Attachment:
    """One provider's attachment to one broker.

    Args:
        connect: Makes a channel.
        begin: Makes a session.
        standing: Told of failures.
        renews: Whether the credential is renewed in place, so that one that was good and expired will be good again.
        reconnects: Whether a channel keeps the credential that it was made with, and another must be made after each
            failure.

    Attributes:
        ended: Set when :meth:`run` has returned or raised.
    """

    def __init__(
        self,
        connect: Callable[[], grpc.aio.Channel],
        begin: Begin,
        standing: Standing,
        *,
        renews: bool = False,
        reconnects: bool = False,
    ) -> None:
        self.ended = asyncio.Event()
        self._connect = connect
        self._begin = begin
        self._standing = standing
        self._renews = renews
        self._reconnects = reconnects
        self._was_good = False
        self._grace: float | None = None
        self._changed = asyncio.Event()
        self._places: set[_Place] = set()
        # One for all attempts: a further one could stand as long as any of its calls is referred to.
        self._channel = connect()

    def stop(self, grace: float) -> None:
        """Ends all sessions within ``grace`` seconds, and with them :meth:`run`."""
        self._grace = grace
        self._changed.set()
        for place in self._places:
            place.session.end(grace)

    async def run(self) -> None:
        """Attaches, again and again, until it is stopped.

        Raises:
            BrokerError: Attaching again cannot help.
        """
        backoff = Backoff()
        try:
            while not self._stopped:
                started = time.monotonic()
                pause = None
                try:
                    await self._stand()
                except BrokerError as error:
                    if self._stopped:
                        break
                    if _is_final(error) and not self._will_be_good(error):
                        raise
                    self._standing.failed(error)
                    pause = error.retry_after
                    await self._reconnect()
                if time.monotonic() - started >= GOOD_SESSION_SECONDS:
                    backoff.reset()
                await self._until(lambda: self._stopped, backoff.wait(pause))
            await self._until(lambda: not self._places)
        finally:
            for place in self._places:
                place.task.cancel()
            await self._until(lambda: not self._places)
            await self._channel.close()
            self.ended.set()

    async def _reconnect(self) -> None:
        """Has the next attempt show the certificate that there is by now; one that cannot be read is tried later."""
        if self._reconnects:
            with contextlib.suppress(BrokerError):
                old, self._channel = self._channel, self._connect()
                await old.close()

    @property
    def _stopped(self) -> bool:
        return self._grace is not None

    async def _stand(self) -> None:
        """A session and those that take over from it, until the last is over.

        Raises:
            BrokerError: What ended it, or why no other took over.
        """
        place = self._start(self._channel)
        while not place.over:
            await self._until(partial(self._moved, place))
            self._was_good |= place.session.welcomed
            if not place.over:
                place = await self._follow(place)
        try:
            place.task.result()
        finally:
            # An error refers to this frame: what refers to the task, and so to the error, would be a circle.
            del place

    async def _follow(self, old: _Place) -> _Place:
        """The place that takes over from one that drains; where none does, the old one, which is over then.

        Raises:
            BrokerError: The broker takes no other.
        """
        backoff = Backoff()
        while not (old.over or self._stopped):
            new = self._start(self._connect())
            await self._until(partial(_decided, old, new))
            if not new.over:
                self._channel = new.channel
                old.session.leave()
                if old.over:
                    await old.channel.close()
                return new
            error = new.task.exception()
            if isinstance(error, BrokerError) and (_is_final(error) or error.reason == STOPPING):
                old.session.leave()
                await self._until(lambda: old.over)
                try:
                    raise error
                finally:
                    del error, new
            pause = error.retry_after if isinstance(error, BrokerError) else None
            await self._until(lambda: old.over or self._stopped, backoff.wait(pause))
        await self._until(lambda: old.over)
        return old

    def _will_be_good(self, error: BrokerError) -> bool:
        """Whether it was refused for a credential that held once and is renewed in place."""
        return self._renews and self._was_good and isinstance(error, Unauthenticated)

    def _moved(self, place: _Place) -> bool:
        """Whether something is to be done about a place."""
        return place.over or (place.session.draining and not self._stopped)

    def _start(self, channel: grpc.aio.Channel) -> _Place:
        session = self._begin(channel, self._changed.set)
        place = _Place(session, channel, asyncio.create_task(self._run(session, channel), name="provider-session"))
        self._places.add(place)
        place.task.add_done_callback(lambda _: self._over(place))
        return place

    async def _run(self, session: Session, channel: grpc.aio.Channel) -> None:
        try:
            await session.run()
        finally:
            if channel is not self._channel:
                await channel.close()

    def _over(self, place: _Place) -> None:
        self._places.discard(place)
        self._changed.set()
        if not place.task.cancelled() and (error := place.task.exception()) is not None:
            log.debug("a session is over: %s", error)

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Waits for a condition that a change of this attachment's state may meet, or until time has run out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()


def _decided(old: _Place, new: _Place) -> bool:
    """Whether it is known which of two sessions is the provider's."""
    return old.over or new.over or new.session.welcomed


def _is_final(error: BrokerError) -> bool:
    """Whether trying again is sure to end the same way, or to do harm."""
    if isinstance(error, InvalidArgument | PermissionDenied | Unauthenticated | Unimplemented):
        return True
    if isinstance(error, FailedPrecondition):
        return error.reason == "SCALE_CONFLICT"
    return isinstance(error, Aborted) and error.reason == "FENCED"
