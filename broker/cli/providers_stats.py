"""``context-broker providers stats``: how each provider fared over a window of time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from broker.cli.moments import MOMENT, check_window
from broker.cli.options import Access, address_option, json_option, tenant_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.text import clean, of_tenant

if TYPE_CHECKING:
    from broker.core.records import ProviderStatistics

EPILOG = """\
\b
asked      requests that asked the provider, or waited for its push
answered   of these, those that it answered whole; late: not whole in time;
           failed: it said that it could not, or was lost; lied: refused for a lie
away       requests that would have asked it while it was away or sat out
           (left out of a page of fewer than 90 columns)
offered, placed           frames
cited      placed frames that an answer was seen to cite: see report
tok/cite   tokens of its placed blocks for each of these
\b
--json: a record for each, by name
  provider_statistics  provider, asked, answered, late, failed, lied, not_asked,
                       offered, placed, tokens_placed, selected, rendered, cited,
                       tokens_per_citation (null: none was cited)
Counted is what is on record: old compositions are forgotten.
"""


_WIDE = 90
"""Columns of a page that every figure fits on."""


@click.command("stats", short_help="Show how each provider fared.", epilog=EPILOG)
@click.option("--since", type=MOMENT, metavar="MOMENT", help="From then on: 15m, 1h, 2d (ago), or ISO 8601.")
@click.option("--until", type=MOMENT, metavar="MOMENT", help="Before then.")
@tenant_option
@address_option
@json_option
def stats(since: float | None, until: float | None, tenant: str, address: str, access: Access, as_json: bool) -> None:
    """Show how each provider fared: asked, answered, late, lied, offered, placed, cited.

    It needs the role "orchestrator" or "operator".
    """
    check_window(since, until)
    found = asyncio.run(_statistics(since, until, tenant, address, access))
    if as_json:
        for one in found:
            tokens = one.tokens_per_citation
            write_json({"event": "provider_statistics", **asdict(one), "tokens_per_citation": tokens})
    else:
        none = [f"the broker at {address} has no composition on record in this time{of_tenant(tenant)}"]
        write_lines(statistics_lines(found, style_of(sys.stdout)) or none)


def statistics_lines(found: Sequence[ProviderStatistics], style: Style) -> list[str]:
    """A table of providers; none, no lines."""
    if not found:
        return []
    wide = style.width >= _WIDE
    rows: list[list[str | Cell]] = [
        [
            clean(one.provider),
            *(f"{number:,}" for number in (one.asked, one.answered)),
            *(Cell(f"{number:,}", "yellow" if number else "") for number in (one.late, one.failed)),
            Cell(f"{one.lied:,}", "red" if one.lied else "", bold=bool(one.lied)),
            *([f"{one.not_asked:,}"] if wide else []),
            *(f"{number:,}" for number in (one.offered, one.placed, one.cited)),
            "" if one.tokens_per_citation is None else f"{one.tokens_per_citation:,.0f}",
        ]
        for one in found
    ]
    away = ("away",) if wide else ()
    titles = ("asked", "answered", "late", "failed", "lied", *away, "offered", "placed", "cited", "tok/cite")
    return table([Column("provider", gives=1), *(Column(title, right=True) for title in titles)], rows, style, indent=0)


async def _statistics(
    since: float | None, until: float | None, tenant: str, address: str, access: Access
) -> tuple[ProviderStatistics, ...]:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        return await client.provider_statistics(made_from=since, made_before=until, tenant=tenant)
