"""Conduct: a provider that lied sits out, longer each time; one that keeps failing is left alone for a shorter while.

**Quarantine.** After its first lie a provider sits out 60 s, doubled with each further lie up to an hour. Its time
over, it gets one trial: a single request may ask it, and for others it still sits out until that one has ended. A trial
that ends ``COMPLETE`` or ``EMPTY`` lets it back in; a lie doubles its time; any other end proves nothing, and the next
request is the trial. Its lies are forgotten an hour after its last sentence ran out, if none was added. Lies found
while it already sits out, by requests that had asked it before, belong to the sentence that is running. An operator may
let a provider sit out too (:class:`SitOuts` alone knows of it: no trial follows), and may release it.

**Circuit.** A provider that fails several times in a row is not asked for a few seconds (:mod:`broker.gather.circuit`).
Failing is to end ``FAILED`` or ``LOST``, or to say nothing within the deadline of a request that left it time enough: a
caller in a hurry proves nothing, and frames in hand at a deadline show that it works. What was pushed opens no circuit
and is stopped by none: no one was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from msgspec import Struct

from broker.core.lanes import LaneEnd
from broker.gather.circuit import FREE, Circuit, CircuitRules, Entry
from broker.gather.clock import Clock

SOON = 1.0
"""Seconds after which a provider whose trial was running may be asked again."""

_GOOD = (LaneEnd.COMPLETE, LaneEnd.EMPTY, LaneEnd.PARTIAL)
_GOOD_OR_NONE = (*_GOOD, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductRules:
    """How long who sits out.

    Attributes:
        first: Seconds that a provider sits out for its first lie.
        longest: Seconds that it sits out at most.
        forgiven_after: Seconds after the end of its last sentence after which its lies are forgotten.
        circuit: When failures open its circuit.
        patience: Seconds that it must have had for its silence to count as a failure.
    """

    first: float = 60.0
    longest: float = 3600.0
    forgiven_after: float = 3600.0
    circuit: CircuitRules = field(default_factory=CircuitRules)
    patience: float = 1.0


class SitOuts:
    """Who sits out until when: the fabric's half of quarantine. It expires by itself.

    Attributes:
        until: Moments of the clock, by provider; some may be over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until: dict[str, float] = {}

    def set(self, provider: str, seconds: float) -> None:
        """Lets a provider sit out; a longer time that is running stays."""
        now = self._clock.time()
        self.until = {name: until for name, until in self.until.items() if until > now}
        self.until[provider] = max(now + seconds, self.until.get(provider, now))

    def lift(self, provider: str) -> None:
        """Lets it sit out no more."""
        self.until.pop(provider, None)

    def remaining(self, provider: str) -> float:
        """Seconds that it still sits out; 0.0: it does not."""
        until = self.until.get(provider)
        if until is None:
            return 0.0
        remaining = until - self._clock.time()
        if remaining <= 0:
            del self.until[provider]
            return 0.0
        return remaining


class Permit(Struct, frozen=True, gc=False, eq=False):
    """One request's leave to ask one provider.

    Attributes:
        provider: The provider.
        trial: Whether this is its trial after a lie.
        entry: Into its circuit; None: what is pushed enters none.
        since: When it was given, by the clock.
    """

    provider: str
    trial: bool
    entry: Entry | None
    since: float


class Withheld(Struct, frozen=True, gc=False):
    """Why a provider may not be asked now.

    Attributes:
        end: How its lane ends.
        message: Why, for whoever asks.
        retry_after: Seconds after which it may be asked.
    """

    end: LaneEnd
    message: str
    retry_after: float


class _Record:
    __slots__ = ("circuit", "lies", "proven", "touched", "trial", "until")

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.lies = 0
        self.until = 0.0
        self.proven = True
        self.touched = 0.0
        self.trial: Permit | None = None


class Conduct:
    """Who lied and who failed how often, and whose trial is running: the collecting side's half."""

    def __init__(
        self,
        clock: Clock,
        rules: ConductRules | None = None,
        *,
        on_open: Callable[[str, int, float], None] = lambda *_: None,
    ) -> None:
        """Knows nothing of anyone.

        Args:
            clock: Monotonic time.
            rules: How long who sits out; None: the defaults.
            on_open: Told when a provider's circuit opens: the provider, its failures in a row, the seconds; must not
                raise.
        """
        self._clock = clock
        self._rules = rules or ConductRules()
        self._on_open = on_open
        self._records: dict[str, _Record] = {}

    def admit(self, provider: str, *, pushed: bool = False) -> Permit | Withheld:
        """Leave to ask a provider, or to wait for what it pushes; to be given to :meth:`settle` when its lane ends."""
        now = self._clock.time()
        record = self._record(provider) if provider in self._records else None
        if record is None:
            return Permit(provider, False, None if pushed else FREE, now)
        trial, circuit = not record.proven, record.circuit
        if trial and (record.trial is not None or now < record.until):
            return Withheld(LaneEnd.QUARANTINED, "sits out for an earlier lie; its trial is running", SOON)
        entry = None if pushed else circuit.enter()
        if entry is None and not pushed:
            seconds = float(ceil(circuit.remaining() or SOON))
            text = f"circuit open: it failed {circuit.failures} times in a row and is tried again in {seconds:g} s"
            return Withheld(LaneEnd.FAILED, text, seconds)
        permit = Permit(provider, trial, entry, now)
        if trial:
            record.trial = permit
        return permit

    def settle(self, permit: Permit, end: LaneEnd | None) -> float:
        """Takes note of how an admitted lane ended; None: it was stopped, or not asked, which proves nothing.

        Returns:
            Seconds that the provider has to sit out from now, for a lane that ended ``REFUSED``; 0.0: none, or it
            sits out already.
        """
        if end in _GOOD_OR_NONE and permit.provider not in self._records:
            # As nearly always: nothing is remembered of it, and nothing is to be.
            return 0.0
        record = self._record(permit.provider)
        if record is not None and record.trial is permit:
            record.trial = None
            record.proven = end is not None and end.answered
        self._note(permit, record, end)
        return self._lied(permit.provider) if end is LaneEnd.REFUSED else 0.0

    def circuit_open(self, provider: str) -> float:
        """Seconds until it is tried again after it failed too often in a row; 0.0: it is asked, or its trial runs."""
        record = self._record(provider)
        return 0.0 if record is None else record.circuit.remaining()

    def forgive(self, provider: str) -> None:
        """Forgets what it did: it is asked like any other."""
        self._records.pop(provider, None)

    def _note(self, permit: Permit, record: _Record | None, end: LaneEnd | None) -> None:
        """Tells its circuit."""
        if permit.entry is None:
            return
        good = self._good(permit, end)
        if record is None and good is False:
            record = self._made(permit.provider)
        if record is None:
            return
        record.touched = self._clock.time()
        seconds = record.circuit.leave(permit.entry, good)
        if seconds > 0:
            self._on_open(permit.provider, record.circuit.failures, seconds)
        self._record(permit.provider)

    def _good(self, permit: Permit, end: LaneEnd | None) -> bool | None:
        if end in _GOOD:
            return True
        if end is LaneEnd.TIMED_OUT and self._clock.time() - permit.since < self._rules.patience:
            return None
        return False if end in (LaneEnd.FAILED, LaneEnd.LOST, LaneEnd.TIMED_OUT) else None

    def _lied(self, provider: str) -> float:
        now = self._clock.time()
        record = self._record(provider) or self._made(provider)
        if now < record.until:
            return 0.0
        seconds: float = min(self._rules.first * 2.0 ** min(record.lies, 32), self._rules.longest)
        record.lies += 1
        record.until = now + seconds
        record.proven = False
        record.trial = None
        return seconds

    def _made(self, provider: str) -> _Record:
        # Two old ones are looked at for each new one: all come by in turn, and none has to wait for many.
        for name in list(islice(self._records, 2)):
            if self._record(name) is not None:
                self._records[name] = self._records.pop(name)
        record = self._records[provider] = _Record(Circuit(self._clock.time, self._rules.circuit))
        return record

    def _record(self, provider: str) -> _Record | None:
        """Its record, unless there is nothing to remember of it by now."""
        record = self._records.get(provider)
        if record is None:
            return None
        now = self._clock.time()
        if record.lies and now >= record.until + self._rules.forgiven_after:
            record.lies, record.proven, record.trial = 0, True, None
        failed = record.circuit.failures and now < record.touched + self._rules.forgiven_after
        if not record.lies and not failed:
            del self._records[provider]
            return None
        return record
