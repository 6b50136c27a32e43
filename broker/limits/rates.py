"""How often each caller may call: token buckets, one number each.

A bucket fills at ``per_second`` and holds one second's worth. It is kept as the moment at which it is full again: a
call moves that moment on by one interval, and is refused where that would be more than a bucket's worth away (the
"generic cell rate algorithm", ITU-T I.371). A bucket that is full is like one that never was, and is forgotten.
"""

from __future__ import annotations

DEPTH = 1.000_001
"""Seconds that an empty bucket takes to fill; the little more is for rounding, so that it costs no call."""


class Rates:
    """A bucket for each caller."""

    def __init__(self, per_second: int) -> None:
        """Makes full buckets that fill at ``per_second``, at least 1."""
        self._interval = 1 / per_second
        self._full_at: dict[str, float] = {}

    def configure(self, per_second: int) -> None:
        """Fills buckets at another rate from now on."""
        self._interval = 1 / per_second

    @property
    def known(self) -> int:
        """Buckets that are kept."""
        return len(self._full_at)

    def take(self, caller: str, now: float) -> float:
        """Takes one call from a caller's bucket.

        Args:
            caller: Whose bucket.
            now: Monotonic seconds; not less than in the call before.

        Returns:
            0.0, or where there is none, and none was taken, the seconds until there is one.
        """
        self._forget(now)
        # Taken out and put in again: the dictionary is then in the order of last use.
        full_at = max(self._full_at.pop(caller, now), now)
        wait = full_at + self._interval - now - DEPTH
        if wait > 0:
            self._full_at[caller] = full_at
            return wait
        self._full_at[caller] = full_at + self._interval
        return 0.0

    def book(self, caller: str, now: float, most: float) -> float:
        """Takes one call whether there is one or not: for what happens anyway, and can only be spread.

        Args:
            caller: Whose bucket.
            now: As for :meth:`take`.
            most: The longest wait in seconds; what is booked beyond it is lost.

        Returns:
            The seconds until it is due, 0.0 to ``most``.
        """
        self._forget(now)
        full_at = max(self._full_at.pop(caller, now), now)
        wait = min(max(full_at + self._interval - now - DEPTH, 0.0), most)
        self._full_at[caller] = min(full_at + self._interval, now + DEPTH + most)
        return wait

    def _forget(self, now: float) -> None:
        """Drops the two buckets used longest ago if they are full: more than one call can add."""
        for _ in range(2):
            oldest = next(iter(self._full_at), None)
            if oldest is None or self._full_at[oldest] > now:
                return
            del self._full_at[oldest]
