"""``context-broker compositions``: what a broker has on record, listed, shown and exported."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from broker.cli.asked import asked_of, asked_record
from broker.cli.compositions_filter import filter_options, readings
from broker.cli.encode import Record, moment, summary_record, usage_record
from broker.cli.errors import name_fields
from broker.cli.options import Access, address_option, json_option, tenant_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.recorded import COMPOSITION_ID, document_records, recorded_text, saved_of, saved_record
from broker.cli.show import composition_lines
from broker.cli.text import clean, of_tenant
from broker.cli.typed import COMPOSITIONS
from broker.errors import NotFound

if TYPE_CHECKING:
    from broker import client
    from broker.client import CompositionFilter, ContextClient, ListedComposition

_LEGEND = "Lanes: answered / all. Frames: placed / offered. Tokens: of whole blocks."

_WIDE = 90
"""Columns of a page that has room for more than what a composition came to."""

SHOWN = 20
"""Compositions that are listed where nothing is said."""

EPILOG = """\
\b
Why did an agent not see a document? Find the compositions that left it out, and
ask one of them:
  context-broker compositions list --since 1d --document README.md --excluded
  context-broker explain ID --frame files/README.md#L1-12
\b
Each subcommand takes --address, --token-file and --json.
"""

LIST_EPILOG = """\
\b
--json: a record for each, newest first
  composition  composition_id, request_id, made_at, subject, content, request,
               strategy, placement, budget, lanes, rows, reasons, usage, …
With --provider, such a frame is one of that provider's; without, of any.
--document takes a path or its last segments; --frame, one ID, as explain names it.
"""

SHOW_EPILOG = """\
\b
--json: recorded, then placed, audit and completed as in query --json; see export.
"""

EXPORT_EPILOG = """\
\b
Records of each composition, in this order:
  recorded   composition_id, request_id, made_at, subject, content, request
  placed, audit, completed                              as in query --json
content false: goals and frames were not kept, and are empty.
explain and verify-citations read what is exported of one ID.
"""


@click.group("compositions", epilog=EPILOG)
def command() -> None:
    """List, show and export the compositions that a broker has on record."""


@command.command("list", short_help="List compositions, newest first.", epilog=LIST_EPILOG)
@filter_options
@click.option(
    "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, metavar="N", help="List at most so many."
)
@address_option
@json_option
@click.pass_context
def list_command(
    context: click.Context, /, wanted: CompositionFilter, limit: int, address: str, access: Access, as_json: bool
) -> None:
    """List the compositions that all the given options are true of, newest first.

    It needs the role "orchestrator" or "operator".
    """
    name_fields(context, COMPOSITIONS)
    found = asyncio.run(_listed(wanted, limit + 1, address, access))
    if as_json:
        for one in found[:limit]:
            write_json(listed_record(one))
    else:
        write_lines(listed_lines(found[:limit], style_of(sys.stdout)) or [_nothing(wanted, address)])
        if len(found) > limit:
            write_lines(["", f"and more: --limit lists more than {limit:,}"])


@command.command("show", short_help="Show one as query does.", epilog=SHOW_EPILOG)
@click.argument("composition_id", metavar="ID", type=COMPOSITION_ID)
@click.option("--all", "everything", is_flag=True, help="List every frame that was left out.")
@tenant_option
@address_option
@json_option
def show(composition_id: str, everything: bool, tenant: str, address: str, access: Access, as_json: bool) -> None:
    """Show the composition of an ID: which frames stood where in the prompt, and why.

    It needs the role "orchestrator" or "operator".
    """
    saved = saved_of(composition_id, address, access, tenant)
    if as_json:
        for record in document_records(saved):
            write_json(record)
        return
    lines = [f"question  {clean(saved.goal)}"] if saved.goal else []
    lines += [
        f"ids       composition {clean(saved.composition.composition_id)}",
        f"          request {clean(saved.composition.request_id)}",
    ]
    if saved.on_record is not None:
        lines.append(f"recorded  {recorded_text(saved.on_record)}")
    options = {"rows": None} if everything else {}
    write_lines([*lines, *composition_lines(saved.composition, style_of(sys.stdout), **options)])


@command.command("export", short_help="Print whole compositions as lines of JSON.", epilog=EXPORT_EPILOG)
@click.argument("ids", metavar="[ID]...", nargs=-1, type=COMPOSITION_ID)
@filter_options
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Export at most so many.  [default: all]")
@address_option
@json_option
@click.pass_context
def export(
    context: click.Context,
    /,
    ids: tuple[str, ...],
    wanted: CompositionFilter,
    limit: int | None,
    address: str,
    access: Access,
    as_json: bool,  # noqa: ARG001 - the output is JSON in any case, failures with it
) -> None:
    """Print the compositions of these IDs, or those that the given options are true of, newest first.

    It needs the role "orchestrator" or "operator".
    """
    tenant = wanted.get("tenant", "")
    if ids and (wanted.keys() - {"tenant"} or limit is not None):
        raise click.UsageError("give IDs, or options that say which compositions are meant, and not both")
    name_fields(context, COMPOSITIONS)
    asyncio.run(_export(ids, wanted, tenant, limit, address, access))


def listed_record(listed: ListedComposition) -> Record:
    """One composition of a list: ``event: composition``."""
    return {
        "event": "composition",
        "composition_id": listed.composition_id,
        "request_id": listed.request_id,
        "made_at": moment(listed.made_at),
        "subject": listed.subject,
        "content": listed.content,
        "request": None if listed.request is None else asked_record(asked_of(listed.request)),
        **summary_record(listed.summary),
        "usage": usage_record(listed.usage.total),
    }


def listed_lines(found: Sequence[ListedComposition], style: Style) -> list[str]:
    """A table of compositions; none, no lines."""
    if not found:
        return []
    wide = style.width >= _WIDE
    asked_by = wide and any(one.subject for one in found)
    rows: list[list[str | Cell]] = []
    for one in found:
        lanes, usage = one.summary.lanes, one.usage.total
        answered = sum(lane.end.answered for lane in lanes)
        rows.append(
            [
                f"{(moment(one.made_at) or '')[:16]}Z",
                clean(one.composition_id),
                *([clean(one.subject)] if asked_by else []),
                *([clean(one.summary.strategy.name)] if wide else []),
                Cell(f"{answered}/{len(lanes)}", "" if answered == len(lanes) else "red"),
                f"{usage.frames_placed:,}/{usage.frames_offered:,}",
                f"{usage.tokens_placed:,}",
            ]
        )
    columns = [
        Column("made"),
        Column("composition"),
        *([Column("asked by", gives=2)] if asked_by else []),
        *([Column("strategy", gives=1)] if wide else []),
        *(Column(title, right=True) for title in ("lanes", "frames", "tokens")),
    ]
    return [*table(columns, rows, style, indent=0), "", _LEGEND]


def _nothing(wanted: CompositionFilter, address: str) -> str:
    of = of_tenant(wanted.get("tenant", ""))
    if not wanted.keys() - {"tenant"}:
        return f"the broker at {address} has no composition on record yet{of}"
    lines = [f"the broker at {address} has no such composition on record{of}"]
    if "frame_id" in wanted:
        lines.append("--frame is one whole ID; --document PATH finds all frames of a document.")
    if "frame_id" in wanted or "document" in wanted:
        lines.append(
            "A document that no request was offered is in none: --provider NAME alone lists the requests that would\n"
            "have asked its provider, and `compositions show ID` tells how its lane ended."
        )
    return "\n".join(lines)


async def _listed(wanted: CompositionFilter, limit: int, address: str, access: Access) -> list[ListedComposition]:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        found: list[ListedComposition] = []
        for reading in readings(wanted):
            async with aclosing(client.compositions(page_size=min(limit, 100), **reading)) as listed:
                async for one in listed:
                    found.append(one)
                    if len(found) == limit:
                        break
            if found:
                break
        return found


async def _export(
    ids: Sequence[str],
    wanted: CompositionFilter,
    tenant: str,
    limit: int | None,
    address: str,
    access: Access,
) -> None:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        for composition_id in ids:
            _write(await client.composition(composition_id, tenant=tenant))
        if ids:
            return
        for reading in readings(wanted):
            if await _export_listed(client, reading, tenant, limit):
                break


async def _export_listed(client: ContextClient, wanted: CompositionFilter, tenant: str, limit: int | None) -> int:
    """How many were exported."""
    exported = 0
    async with aclosing(client.compositions(**wanted)) as listed:
        async for one in listed:
            try:
                record = await client.composition(one.composition_id, tenant=tenant)
            except NotFound:
                # Forgotten by age since it was listed.
                continue
            _write(record)
            exported += 1
            if exported == limit:
                break
    return exported


def _write(record: client.Record) -> None:
    for one in document_records(saved_record(record)):
        write_json(one)
