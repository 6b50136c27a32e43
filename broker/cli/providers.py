"""``context-broker providers``: who is attached, and who sits out."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from broker.cli.encode import moment, provider_record
from broker.cli.options import Access, address_option, json_option, tenant_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.providers_conduct import quarantine, release
from broker.cli.providers_stats import stats
from broker.cli.show import legend, scale_cell
from broker.cli.text import clean, of_tenant

if TYPE_CHECKING:
    from broker.client import ListedProvider

EPILOG = """\
\b
--json: a record for each
  provider, kinds, scale {id, min, max, direction}, last_seen,
  quarantined_seconds           it sits out, for a lie or by the operator's word
  circuit_open_seconds          it failed too often in a row, and is tried again then
  instances [{instance, session, version, in_flight, max_in_flight, last_seen}]
"""

_LOAD = "Load: questions in flight / most at once."
_FLOOR = "A floor names its provider's scale: --floor PROVIDER:SCALE=VALUE."


@click.group("providers", epilog=EPILOG, invoke_without_command=True)
@tenant_option
@address_option
@json_option
@click.pass_context
def command(context: click.Context, tenant: str, address: str, access: Access, as_json: bool) -> None:
    """List the providers that the broker knows, attached or not, in lane order.

    It needs the role "orchestrator" or "operator".
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context, context.invoked_subcommand)
        return
    found = asyncio.run(_providers(tenant, address, access))
    if as_json:
        for provider in found:
            write_json(provider_record(provider))
    else:
        none = [f"the broker at {address} knows no provider yet{of_tenant(tenant)}"]
        write_lines(provider_lines(found, style_of(sys.stdout)) or none)


command.add_command(quarantine)
command.add_command(release)
command.add_command(stats)


def _refuse_options(context: click.Context, subcommand: str) -> None:
    """Refuses options in front of a subcommand, where they would be for the list that is not asked for."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"put {parameter.opts[0]} behind {subcommand!r}", context)


def provider_lines(found: list[ListedProvider], style: Style) -> list[str]:
    """A table of providers with what its signs mean; none, no lines."""
    if not found:
        return []
    rows: list[list[str | Cell]] = []
    for provider in found:
        if provider.quarantined_seconds:
            state = Cell(f"sits out {provider.quarantined_seconds:,} s", "red", bold=True)
        elif provider.circuit_open_seconds:
            state = Cell(f"fails, tried in {provider.circuit_open_seconds} s", "yellow")
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


async def _providers(tenant: str, address: str, access: Access) -> list[ListedProvider]:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        return list(await client.providers(tenant=tenant))
