"""How long to wait before trying again: exponential, with full jitter, so that many do not come back at once.

Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("full jitter").
"""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_SECONDS = 0.1
"""Longest wait after the first failure."""

MOST_SECONDS = 10.0
"""Longest wait after any."""


class Backoff:
    """The waits between attempts.

    Args:
        uniform: Draws a number between two others.
    """

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._ceiling = FIRST_SECONDS

    def wait(self, at_least: float | None = None) -> float:
        """Seconds to wait after one more failure.

        Args:
            at_least: What the other side asked for; jitter is put on top of it.
        """
        seconds = self._uniform(0.0, self._ceiling) + (at_least or 0.0)
        self._ceiling = min(self._ceiling * 2, MOST_SECONDS)
        return seconds

    def reset(self) -> None:
        """Starts over: things went well for a while."""
        self._ceiling = FIRST_SECONDS
