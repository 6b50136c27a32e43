"""Moments as people give them: how long ago, or a date and time."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    # Generic for type checkers alone: older releases of click have a plain class here.
    _ParamType = click.ParamType

_AGO = re.compile(r"(\d{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Moment(_ParamType):
    """A moment in seconds since the epoch: ``90s``, ``15m``, ``1h``, ``2d`` or ``1w`` ago, or ISO 8601."""

    name = "MOMENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The moment; one without an offset is of UTC."""
        if isinstance(value, float):
            return value
        ago = _AGO.fullmatch(value)
        try:
            seconds = time.time() - int(ago[1]) * _SECONDS[ago[2]] if ago is not None else _told(value)
        except ValueError:
            self.fail(f"{value!r} is no moment; expected such as 1h, 2d or 2026-01-31T08:00:00Z", param, ctx)
        # Before the epoch nothing was made.
        return max(0.0, seconds)


def _told(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


MOMENT = Moment()


def check_window(since: float | None, until: float | None) -> None:
    """Refuses a window that holds no moment.

    Raises:
        click.UsageError: It ends where it begins, or before.
    """
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until")
