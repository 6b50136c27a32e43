"""Logs: structured, on stderr, JSON where no person is looking.

Never in a log: what frames contain, what was asked, any score.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any, TextIO

import structlog

from broker.telemetry.repeats import Repeats


def configure(
    level: str = "info", form: str = "auto", stream: TextIO | None = None, *, repeats: Repeats | None = None
) -> None:
    """Sets up the process's log: structlog's events, and those of libraries that use :mod:`logging`.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``; what is below is left out.
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
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            _events,
        ],
        # structlog's own factory makes loggers that look through the stack for their caller, whom no line names.
        logger_factory=logging.getLogger,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Formatter(shared, last))
    if repeats is not None:
        handler.addFilter(repeats)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At info it tells with each start what it is made of, and nothing of this store.
    logging.getLogger("alembic").setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders structlog's events by themselves: its own way copies their records, which takes longer than rendering."""

    def __init__(self, first: Sequence[Any], last: Sequence[Any]) -> None:
        """Renders by ``last``, which ends in a text; what other libraries log goes through ``first`` before."""
        super().__init__(processors=[self.remove_processors_meta, *last], foreign_pre_chain=first)
        self._last = last

    def format(self, record: logging.LogRecord) -> str:
        if not isinstance(record.msg, dict) or not hasattr(record, "_from_structlog"):
            return super().format(record)
        said: Any = record.msg.copy()
        for processor in self._last:
            said = processor(None, record.levelname.lower(), said)
        return str(said)


def _events(_logger: object, name: str, event: MutableMapping[str, Any]) -> tuple[tuple[Any], dict[str, Any]]:
    """Hands an event to :mod:`logging` as its record's message."""
    return (event,), {"extra": {"_from_structlog": name}}


def _printable(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Peers name their own instances, and a terminal acts on control characters: each is shown as its escape."""
    return {key: _shown(value) if isinstance(value, str) else value for key, value in event.items()}


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
