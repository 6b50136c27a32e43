"""The clock that gathering runs on: monotonic seconds, and callbacks at a moment or as soon as may be.

An asyncio event loop is one. Tests pass one that they move by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that waits for its moment."""

    def cancel(self) -> None:
        """Drops the callback; harmless when it has run or was dropped before."""


class Clock(Protocol):
    """Monotonic time and callbacks; ``asyncio.AbstractEventLoop`` fits."""

    def time(self) -> float:
        """Monotonic seconds, from no particular start."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        """Runs the callback once :meth:`time` has reached ``when``."""

    def call_soon(self, callback: Callable[[], object], /) -> Timer:
        """Runs the callback after the caller has returned, in the order asked for."""
