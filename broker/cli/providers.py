"""``context-broker providers``: who is attached."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.encode import moment, provider_record
from broker.cli.options import address_option, json_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.show import legend, scale_cell
from broker.cli.text import clean

if TYPE_CHECKING:
    from broker.client import ListedProvider

EPILOG = """\
\b
--json: a record for each
  provider, kinds, scale {id, min, max, direction}, quarantined_seconds, last_seen,
  instances [{instance, session, version, in_flight, max_in_flight, last_seen}]
"""

_LOAD = "Load: questions in flight / most at once."
_FLOOR = "A floor names its provider's scale: --floor PROVIDER:SCALE=VALUE."


@click.command("providers", epilog=EPILOG)
@address_option
@json_option
def command(address: str, tls_ca: Path | None, as_json: bool) -> None:
    """List the providers that the broker knows, attached or not, in lane order."""
    found = asyncio.run(_providers(address, tls_ca))
    if as_json:
        for provider in found:
            write_json(provider_record(provider))
    else:
        write_lines(provider_lines(found, style_of(sys.stdout)) or [f"the broker at {address} knows no provider yet"])


def provider_lines(found: list[ListedProvider], style: Style) -> list[str]:
    """A table of providers with what its signs mean; none, no lines."""
    if not found:
        return []
    rows: list[list[str | Cell]] = []
    for provider in found:
        if provider.quarantined_seconds:
            state = Cell(f"sits out {provider.quarantined_seconds:,} s", "red", bold=True)
        else:
            count = len(provider.instances)
            told = "attached" if count == 1 else f"{count} attached"
            state = Cell(told, "green") if count else Cell("not attached", "yellow")
        in_flight = sum(instance.in_flight for instance in provider.instances)
        most = sum(instance.max_in_flight for instance in provider.instances)
        rows.append(
            [
                provider.provider,
                state,
                scale_cell(provider.scale, style),
                clean(", ".join(provider.kinds)) or "any",
                f"{in_flight}/{most}" if most else "",
                _minute(provider.last_seen),
            ]
        )
    columns = [
        Column("provider", gives=2),
        Column("state"),
        Column("its own scale", gives=1),
        Column("kinds", gives=3),
        Column("load", right=True),
        Column("last seen"),
    ]
    lines = table(columns, rows, style, indent=0)
    return [*lines, "", *textwrap.wrap(f"{_LOAD} Scales: {legend(style)}. {_FLOOR}", style.width)]


def _minute(seconds: float | None) -> str:
    """A moment to the minute: when a provider was last seen decides nothing that needs the seconds."""
    told = moment(seconds)
    return "never" if told is None else f"{told[:16]}Z"


async def _providers(address: str, tls_ca: Path | None) -> list[ListedProvider]:
    from broker.client import ContextClient

    async with ContextClient(address, tls_ca=tls_ca) as client:
        return list(await client.providers())
