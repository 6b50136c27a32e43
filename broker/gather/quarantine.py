"""Quarantine: a provider that lied sits out, longer each time, and comes back through one trial.

After its first lie a provider sits out 60 s, doubled with each further lie up to an hour. Its time over, it gets one
trial: a single request may ask it, and for others it still sits out until that one has ended. A trial that ends
``COMPLETE`` or ``EMPTY`` lets it back in; a lie doubles its time; any other end proves nothing, and the next request is
the trial. Its lies are forgotten an hour after its last sentence ran out, if none was added.

Lies found while it already sits out, by requests that had asked it before, belong to the sentence that is running.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.lanes import LaneEnd
from broker.gather.clock import Clock

FIRST = 60.0
"""Seconds that a provider sits out for its first lie."""
LONGEST = 3600.0
"""Seconds that it sits out at most."""
FORGIVEN_AFTER = 3600.0
"""Seconds after the end of its last sentence after which its lies are forgotten."""


class SitOuts:
    """Who sits out until when: the fabric's half of quarantine. It expires by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def set(self, provider: str, seconds: float) -> None:
        """Lets a provider sit out; a longer time that is running stays."""
        now = self._clock.time()
        self._until = {name: until for name, until in self._until.items() if until > now}
        self._until[provider] = max(now + seconds, self._until.get(provider, now))

    def remaining(self, provider: str) -> float:
        """Seconds that it still sits out; 0.0: it does not."""
        until = self._until.get(provider)
        if until is None:
            return 0.0
        remaining = until - self._clock.time()
        if remaining <= 0:
            del self._until[provider]
            return 0.0
        return remaining


@dataclass(slots=True, eq=False)
class Permit:
    """One request's leave to ask one provider.

    Attributes:
        provider: The provider.
        trial: Whether this is its trial.
    """

    provider: str
    trial: bool


class _Record:
    __slots__ = ("lies", "proven", "trial", "until")

    def __init__(self) -> None:
        self.lies = 0
        self.until = 0.0
        self.proven = False
        self.trial: Permit | None = None


class Conduct:
    """Who lied how often, and whose trial is running: the collecting side's half of quarantine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, _Record] = {}

    def admit(self, provider: str) -> Permit | None:
        """Leave to ask a provider, to be given to :meth:`settle` when its lane ends; None: its trial is running."""
        record = self._record(provider)
        if record is None or record.proven:
            return Permit(provider, trial=False)
        if record.trial is not None or self._clock.time() < record.until:
            return None
        record.trial = Permit(provider, trial=True)
        return record.trial

    def settle(self, permit: Permit, end: LaneEnd) -> float:
        """Takes note of how an admitted lane ended.

        Returns:
            Seconds that the provider has to sit out from now, for a lane that ended ``REFUSED``; 0.0: none, or it
            sits out already.
        """
        if end is LaneEnd.REFUSED:
            return self._lied(permit.provider)
        record = self._record(permit.provider)
        if record is not None and record.trial is permit:
            record.trial = None
            record.proven = end.answered
        return 0.0

    def _lied(self, provider: str) -> float:
        for name in list(self._records):
            self._record(name)
        now = self._clock.time()
        record = self._records.setdefault(provider, _Record())
        if now < record.until:
            return 0.0
        seconds: float = min(FIRST * 2.0 ** min(record.lies, 16), LONGEST)
        record.lies += 1
        record.until = now + seconds
        record.proven = False
        record.trial = None
        return seconds

    def _record(self, provider: str) -> _Record | None:
        """Its record, unless its lies are forgotten by now."""
        record = self._records.get(provider)
        if record is not None and self._clock.time() >= record.until + FORGIVEN_AFTER:
            del self._records[provider]
            return None
        return record
