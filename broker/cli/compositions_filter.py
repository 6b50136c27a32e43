"""Options that say which compositions on record are meant."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from broker.cli.moments import MOMENT, check_window
from broker.cli.options import nearest
from broker.core.composition import Reason

_Command = TypeVar("_Command", bound=Callable[..., Any])

REASONS = sorted(value for name, value in vars(Reason).items() if name.isupper())
"""Why a frame may be left out."""


def _reason(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A reason of those that there are: a misspelt one would be found in no composition, and nothing would say why."""
    if value is None or value.upper() in REASONS:
        return value and value.upper()
    known = ", ".join(REASONS)
    raise click.BadParameter(f"{value!r} is no reason{nearest(value.upper(), REASONS)}; there are {known}")


_OPTIONS = (
    click.option("--since", type=MOMENT, metavar="MOMENT", help="Made then or later: 15m, 1h, 2d (ago), or ISO 8601."),
    click.option("--until", type=MOMENT, metavar="MOMENT", help="Made before then."),
    click.option("--provider", metavar="NAME", help="This provider had a lane."),
    click.option("--frame", "frame_id", metavar="ID", help="This frame was offered."),
    click.option("--placed/--excluded", default=None, help="Such a frame was placed, or left out."),
    click.option(
        "--excluded-for",
        "reason",
        callback=_reason,
        metavar="REASON",
        help="Such a frame was left out for this reason, such as OVER_BUDGET.",
    ),
)


def filter_options(command: _Command) -> _Command:
    """The options; the command gets what was given of them as ``wanted``, keywords of ``compositions()``."""

    @wraps(command)
    def filtering(*args: Any, **values: Any) -> Any:
        wanted = {
            "made_from": values.pop("since"),
            "made_before": values.pop("until"),
            **{name: values.pop(name) for name in ("provider", "frame_id", "placed", "reason")},
        }
        wanted = {name: value for name, value in wanted.items() if value is not None}
        check_window(wanted.get("made_from"), wanted.get("made_before"))
        if wanted.get("placed") and "reason" in wanted:
            raise click.UsageError("--placed and --excluded-for contradict each other: a placed frame has no reason")
        return command(*args, wanted=wanted, **values)

    wrapped: Any = filtering
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast("_Command", wrapped)
