"""Logs: structured, on stderr, JSON where no person is looking.

Never in a log: what frames contain, what was asked, any score.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping, Sequence
from functools import cache, partial
from typing import Any, TextIO

import structlog

from broker.telemetry.repeats import Repeats


def configure(
    level: str = "info", form: str = "auto", stream: TextIO | None = None, *, repeats: Repeats | None = None
) -> None:
    """Sets up the process's log: structlog's events, and those of libraries that use :mod:`logging`.

    Args:
        level: See :func:`set_level`.
        form: ``json``, ``console``, or ``auto``: ``console`` on a terminal and ``json`` off one.
        stream: Where to; None: stderr.
        repeats: What leaves out lines that say the same again; None: all are written.
    """
    out = stream if stream is not None else sys.stderr
    console = form == "console" or (form == "auto" and out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = (
        [
            _printable,
            # The default shows every local variable of a traceback, and those hold what frames contain.
            structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback),
        ]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = _Handler(out, shared, last)
    if repeats is not None:
        handler.addFilter(repeats)
    structlog.configure(
        processors=[*shared, *(() if repeats is None else (repeats.dropped,)), _whole],
        # Asked for with every event.
        logger_factory=cache(partial(_Lines, handler)),
        cache_logger_on_first_use=False,
    )
    logging.getLogger().handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Leaves out what is below ``debug``, ``info``, ``warning`` or ``error`` from now on."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    logging.getLogger().setLevel(level.upper())
    # At info it tells with each start what it is made of, and nothing of this store.
    logging.getLogger("alembic").setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes what libraries log, and structlog's events straight: the way through :mod:`logging` is long."""

    def __init__(self, out: TextIO, first: Sequence[Any], last: Sequence[Any]) -> None:
        """Renders by ``last``, which ends in a text; what libraries log goes through ``first`` before."""
        super().__init__(out)
        processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        self.setFormatter(structlog.stdlib.ProcessorFormatter(processors=processors, foreign_pre_chain=first))
        self._last = last

    def say(self, event: MutableMapping[str, Any]) -> None:
        """Writes an event that has gone through the first processors. Never raises, as no handler does."""
        name, rendered = event["event"], event
        try:
            for processor in self._last:
                rendered = processor(None, "", rendered)
            assert self.lock is not None, "handlers have one"
            with self.lock:
                self.stream.write(f"{rendered}\n")
                self.stream.flush()
        except Exception:  # noqa: BLE001 - a log that cannot be written is no one's failure but its own
            self.handleError(logging.makeLogRecord({"msg": name}))


class _Lines:
    """Where structlog hands the events of one logger to, whatever their level.

    Attributes:
        name: The logger's.
    """

    def __init__(self, handler: _Handler, name: str = "root") -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = handler.say


def _whole(_logger: object, _method: str, event: MutableMapping[str, Any]) -> tuple[tuple[Any], dict[str, Any]]:
    """Hands an event on as one argument."""
    return (event,), {}


def _printable(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Peers name their own instances, and a terminal acts on control characters: each is shown as its escape."""
    return {key: _shown(value) if isinstance(value, str) else value for key, value in event.items()}


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
