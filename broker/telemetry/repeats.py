"""One line for many: what is logged again and again is counted, and its count is exact."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from structlog.processors import NAME_TO_LEVEL

SECONDS = 10.0
"""How long the lines of one kind are counted together."""

MOST_KINDS = 1000
"""Kinds that are told apart at once; a library may make up a new one with every line."""

_SUMMARY = "repeated"
"""The event that tells of lines that were left out."""

_LOGGER = "broker.telemetry"

_Kind = tuple[str, int, str, str, str]

_OTHER: _Kind = ("", 0, "lines of more kinds than are told apart", "", "")


@dataclass(slots=True)
class _Count:
    """Lines of one kind since ``began``, and how many of them were left out."""

    began: float
    lines: int = 0
    left_out: int = 0


class Repeats(logging.Filter):
    """Passes the first lines of a kind, leaves out the rest, and says later how many that were.

    Lines are of one kind when logger, level, event, ``reason`` and ``method`` are the same: none of it is of a peer's
    choice. A line that tells of a composition is never left out.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Passes ``most`` lines of a kind in :data:`SECONDS`, by a clock of monotonic seconds."""
        super().__init__()
        self._most = most
        self._clock = clock
        self._counts: dict[_Kind, _Count] = {}
        # Threads log too.
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line of a library that uses :mod:`logging` is written."""
        return self._passes((record.name, record.levelno, str(record.msg), "", ""))

    def dropped(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """A structlog processor: the event itself.

        Raises:
            DropEvent: It is left out.
        """
        kind = _kind(logger.name, method, event)
        if kind is not None and not self._passes(kind):
            raise structlog.DropEvent
        return event

    def _passes(self, kind: _Kind) -> bool:
        now = self._clock()
        with self._lock:
            count = self._counts.get(kind)
            if count is None:
                if len(self._counts) >= MOST_KINDS:
                    kind = _OTHER
                count = self._counts.setdefault(kind, _Count(now))
            if now - count.began >= SECONDS and not count.left_out:
                count.began, count.lines = now, 0
            count.lines += 1
            passes = count.lines <= self._most
            count.left_out += not passes
        return passes

    @asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Tells of what was left out while the block runs, at most a second late, and when it is left."""

        async def tell() -> None:
            while True:
                await asyncio.sleep(1.0)
                self.flush()

        telling = asyncio.create_task(tell(), name="log-repeats")
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.wait([telling])
            self.flush(all_of_them=True)

    def flush(self, *, all_of_them: bool = False) -> None:
        """Tells of what was left out in times that are over, or with ``all_of_them`` up to now."""
        now = self._clock()
        with self._lock:
            over = [kind for kind, count in self._counts.items() if all_of_them or now - count.began >= SECONDS]
            told = [(kind, self._counts.pop(kind)) for kind in over]
        for (name, level, event, reason, method), count in told:
            if count.left_out:
                more = {key: value for key, value in (("reason", reason), ("method", method)) if value}
                structlog.get_logger(_LOGGER).log(
                    # Libraries may have levels of their own, which structlog has no names for: the one below stands in.
                    min(level // 10 * 10, logging.CRITICAL) or logging.WARNING,
                    _SUMMARY,
                    of=event,
                    by=name,
                    left_out=count.left_out,
                    seconds=round(now - count.began, 1),
                    **more,
                )


def _kind(logger: str, method: str, event: Mapping[str, Any]) -> _Kind | None:
    """What an event is of; None: it is always written."""
    if "composition_id" in event or (event["event"] == _SUMMARY and logger == _LOGGER):
        return None
    said, reason, method_called = (str(event.get(key) or "") for key in ("event", "reason", "method"))
    return logger, NAME_TO_LEVEL[method], said, reason, method_called
