"""The age of a session: after a while it is renewed, so that no connection lasts for ever and none is missed.

Credentials, addresses and the spread of providers over brokers are settled when a provider attaches, so each attaches
anew once in a while. Its session goes through these moments:

=====================  ===========================================================================================
moment                 what happens
=====================  ===========================================================================================
its age                It is told to attach anew, and asked as before. Once a newer session of its replica stands,
                       that one is asked; this one finishes what is open and ends.
``overlap`` later      None came: it is asked no more. With nothing open it ends.
``finish`` later       It is closed, SESSION_AGE. Whatever it was asked has ended by then, for no query lasts longer.
=====================  ===========================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Callable

from broker.errors import Unavailable
from broker.gather.clock import Clock, Timer
from broker.gather.session import ProviderSession

JITTER = 0.1
"""The part of an age by which it may be longer or shorter."""


class Ageing:
    """One session's timer, from when it stands until it is over; then :meth:`stop` it."""

    def __init__(
        self,
        session: ProviderSession,
        clock: Clock,
        *,
        age: float,
        overlap: float,
        finish: float,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Starts the timer.

        Args:
            session: The session.
            clock: Monotonic time.
            age: Seconds until it is told to attach anew, give or take :data:`JITTER` of it: those that attached
                together, as after a restart, do not attach together again.
            overlap: Seconds that it is asked from then on while no newer one stands.
            finish: Seconds that the longest query may last.
            uniform: Draws a number between two others.
        """
        self._session = session
        self._clock = clock
        self._overlap = overlap
        self._finish = finish
        age *= uniform(1 - JITTER, 1 + JITTER)
        self._timer: Timer = clock.call_at(clock.time() + age, self._renew)

    def stop(self) -> None:
        """The session is over; idempotent."""
        self._timer.cancel()

    def _renew(self) -> None:
        self._timer = self._clock.call_at(self._clock.time() + self._overlap, self._retire)
        self._session.renew(round((self._overlap + self._finish) * 1000))

    def _retire(self) -> None:
        self._timer = self._clock.call_at(self._clock.time() + self._finish, self._close)
        self._session.retire()

    def _close(self) -> None:
        message = "the session reached its age and no newer one took its place; attach again"
        self._session.close(Unavailable("SESSION_AGE", message))
