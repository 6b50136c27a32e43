"""A circuit breaker: who fails again and again is left alone for a while, then tried once.

==========  ==================================  ==========================================================
state       what happens                        then
==========  ==================================  ==========================================================
closed      an entry that went well             failures are forgotten
closed      so many failures in a row           open, for the first time
open        its time is over                    the next entry is the trial, and there is one at a time
open        the trial failed                    open again, twice as long, up to the longest time
open        any entry went well                 closed; also one that entered before it opened
any         an entry that proved nothing        as before; after a trial, the next entry is the trial
==========  ==================================  ==========================================================

Failures of entries that were made before it opened belong to the opening that is running.

Source: Nygard, "Release It!", 2nd edition, 2018, chapter 5, with a single trial in the half-open state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRules:
    """When circuits open, and for how long.

    Attributes:
        failures: In a row; 0: never.
        seconds: For the first time.
        longest: At most, doubled from one failed trial to the next.
    """

    failures: int = 5
    seconds: float = 5.0
    longest: float = 60.0


class Entry(Struct, frozen=True, gc=False, eq=False):
    """Leave to try, to be given back with what came of it.

    Attributes:
        trial: Whether it is the one trial of an open circuit.
    """

    trial: bool


FREE = Entry(trial=False)
"""Leave to try what is closed: one for all, since only trials have to be told apart."""


class Circuit:
    """One circuit.

    Attributes:
        failures: In a row; 0: there is nothing to remember.
    """

    def __init__(self, now: Callable[[], float], rules: CircuitRules) -> None:
        """Makes a closed circuit; ``now`` gives monotonic seconds."""
        self.failures = 0
        self._now = now
        self._rules = rules
        self._opened = 0
        self._until = 0.0
        self._trial: Entry | None = None

    def remaining(self) -> float:
        """Seconds until it may be tried; 0.0: it is closed, or its time is over."""
        return max(0.0, self._until - self._now()) if self._opened else 0.0

    def enter(self) -> Entry | None:
        """Leave to try, for :meth:`leave`; None: it is open, or its trial is running."""
        if not self._opened:
            return FREE
        if self._trial is not None or self.remaining() > 0:
            return None
        self._trial = Entry(trial=True)
        return self._trial

    def leave(self, entry: Entry, good: bool | None) -> float:
        """Takes note of what came of an entry.

        Args:
            entry: As :meth:`enter` gave it.
            good: Whether it went well; None: it proved nothing.

        Returns:
            Seconds that the circuit is open for from now, where this opened it; else 0.0.
        """
        trial = self._trial is entry
        if trial:
            self._trial = None
        if good:
            self.failures = self._opened = 0
            self._trial = None
        elif good is not None and (trial or not self._opened):
            self.failures += 1
            if trial or self.failures == self._rules.failures:
                return self._open()
        return 0.0

    def _open(self) -> float:
        seconds: float = min(self._rules.seconds * 2.0 ** min(self._opened, 32), self._rules.longest)
        self._opened += 1
        self._until = self._now() + seconds
        return seconds
