"""How a provider stands with its broker, for the log: at once when that changes, and seldom while it does not."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from broker.errors import BrokerError
from broker.wire.events import Rejection

REMIND_SECONDS = 300.0
"""How long the same failure is not mentioned again."""

log = logging.getLogger("broker.client")


class Standing:
    """What was said of one provider's attachment.

    Args:
        name: The provider.
        address: The broker's.
        now: A clock that never goes back, in seconds.
        announces: Whether an attachment is said on standard error where nothing takes the log.
    """

    def __init__(
        self, name: str, address: str, now: Callable[[], float] = time.monotonic, *, announces: bool = False
    ) -> None:
        self._name = name
        self._address = address
        self._now = now
        self._announces = announces
        self._failures = 0
        self._said = ""
        self._silent_until = 0.0

    def attached(self, session_id: str) -> None:
        """The provider has attached. It is a warning after failures, so that whoever saw those sees their end."""
        level = logging.WARNING if self._failures else logging.INFO
        after = f", after {self._failures} failed {'attempt' if self._failures == 1 else 'attempts'}"
        log.log(
            level,
            "%s is attached to %s as %s%s",
            self._name,
            self._address,
            session_id,
            after if self._failures else "",
        )
        if self._announces and not self._failures and not log.hasHandlers():
            # Without handlers Python itself shows warnings, and nothing less.
            sys.stderr.write(f"{self._name} is attached to {self._address}\n")
            sys.stderr.flush()
        self._failures = 0

    def rejected(self, rejection: Rejection) -> None:
        """The broker did not take something that was sent."""
        for violation in rejection.violations:
            frame = f" (frame {violation.frame_id!a})" if violation.frame_id else ""
            log.warning(
                "the broker did not take something of %s: %s%s: %s",
                self._name,
                violation.reason,
                frame,
                violation.message,
            )

    def failed(self, error: BrokerError) -> None:
        """An attempt failed, or a session broke, and another attempt follows."""
        again = self._failures > 0 and error.reason == self._said and self._now() < self._silent_until
        self._failures += 1
        if not again:
            self._said = error.reason
            self._silent_until = self._now() + REMIND_SECONDS
        log.log(
            logging.DEBUG if again else logging.WARNING,
            "%s is not attached to %s and will try again: %s",
            self._name,
            self._address,
            error,
        )
