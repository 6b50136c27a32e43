"""Options that say which compositions on record are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from broker.cli.moments import MOMENT, check_window
from broker.cli.options import nearest, tenant_option
from broker.core.audited import Reason

if TYPE_CHECKING:
    from broker.client import CompositionFilter

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
    click.option(
        "--document", metavar="PATH", help="A frame of this document was offered: README.md, docs/README.md, or an ID."
    ),
    click.option("--placed/--excluded", default=None, help="Such a frame was placed, or left out."),
    click.option(
        "--excluded-for",
        "reason",
        callback=_reason,
        metavar="REASON",
        help="Such a frame was left out for this reason, such as OVER_BUDGET.",
    ),
    tenant_option,
)


def readings(wanted: CompositionFilter) -> Iterator[CompositionFilter]:
    """What was typed as it stands, and then as it is meant where nothing is found so.

    A frame and a document may stand behind the name of their provider, as ``explain`` takes it; but an ID may hold a
    ``/`` of its own, and be meant whole.
    """
    yield wanted
    for key in ("frame_id", "document"):
        typed: Any = wanted.get(key, "")
        provider, slash, rest = typed.partition("/")
        if slash and rest and wanted.get("provider", provider) == provider:
            meant: Any = {**wanted, "provider": provider, key: rest}
            yield meant


def filter_options(command: _Command) -> _Command:
    """The options; the command gets what was given of them as ``wanted``, keywords of ``compositions()``."""

    @wraps(command)
    def filtering(*args: Any, **values: Any) -> Any:
        wanted = {
            "made_from": values.pop("since"),
            "made_before": values.pop("until"),
            **{name: values.pop(name) for name in ("provider", "frame_id", "document", "placed", "reason", "tenant")},
        }
        wanted = {name: value for name, value in wanted.items() if value not in (None, "")}
        check_window(wanted.get("made_from"), wanted.get("made_before"))
        if wanted.get("placed") and "reason" in wanted:
            raise click.UsageError("--placed and --excluded-for contradict each other: a placed frame has no reason")
        return command(*args, wanted=wanted, **values)

    wrapped: Any = filtering
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast("_Command", wrapped)
