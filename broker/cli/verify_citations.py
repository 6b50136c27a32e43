"""``context-broker verify-citations``: a model's answer held against the composition that it was given."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from broker.cli.errors import FAILED, Failure
from broker.cli.frames_file import place_of
from broker.cli.options import Access, address_option, json_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.recorded import FILE_OR_ID, saved_of
from broker.cli.report import reported_line, reported_record
from broker.cli.text import clean, clip, plainly, plural
from broker.core.citations import CitationReport, Invented, Near, verify_citations
from broker.core.composition import Citation, Composition
from broker.core.observations import observations
from broker.core.records import Observation

EPILOG = """\
\b
What counts as a citation: a placed frame's label, "label (provider/id)" or
"provider/id", whole and in exact case, wherever it stands; a label of one word
only between brackets, quotes or other marks. What else stands in [square] or
【lenticular】 brackets, outside code and links, is taken for a citation of nothing.
\b
Exit codes: 0 where none is invented, 1 otherwise.
\b
--json records, in this order:
  cited      label, provider, frame_id, position, times, bare, lines
  ambiguous  label, frames [{provider, frame_id, position}], times, lines
  invented   text, times, lines, near, nearest, detail
             near: CASE, TYPOGRAPHY, SIMILAR, LEFT_OUT or null
  uncited    label, provider, frame_id, position
  verdict    cited, ambiguous, invented, uncited (counts), ok
  reported   composition_id, selected, rendered, cited (counts)   with --report
"""

_COLUMNS = (Column("label", gives=2), Column("position", right=True), Column("frame", gives=3))


@click.command("verify-citations", epilog=EPILOG)
@click.argument("answer_file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--composition",
    "source",
    required=True,
    type=FILE_OR_ID,
    metavar="FILE|ID",
    help="What query --save FILE or query --json wrote, or the ID of a composition on record.",
)
@click.option(
    "--report",
    "reports",
    is_flag=True,
    help="Report to the broker that every placed frame stood in the prompt, and which of them the answer cites.",
)
@address_option
@json_option
def command(answer_file: Path, source: Path | str, reports: bool, address: str, access: Access, as_json: bool) -> None:
    """Say which labels a model's answer cites, which of them exist, and which were invented.

    That a label exists says nothing of whether its frame bears the sentence out. A composition on record needs the role
    "orchestrator" or "operator", and --report the role "orchestrator".
    """
    if str(answer_file) == str(source) == "-":
        raise click.UsageError("the answer and the composition cannot both be standard input")
    composition = saved_of(source, address, access).composition
    report = verify_citations(_text(answer_file), composition)
    if as_json:
        for record in report_records(report):
            write_json(record)
    else:
        write_lines(report_lines(report, style_of(sys.stdout)))
    if reports:
        seen = seen_of(report, composition)
        if seen:
            asyncio.run(_report(composition.composition_id, seen, address, access))
        if as_json:
            write_json(reported_record(composition.composition_id, seen))
        else:
            write_lines([reported_line(composition.composition_id, seen)])
    if report.invented:
        raise click.exceptions.Exit(FAILED)


def seen_of(report: CitationReport, composition: Composition) -> list[Observation]:
    """What an answer to a composition's prompt shows of its frames; an ambiguous label cites none of those it names."""
    return observations(
        composition,
        rendered=(citation.frame for citation in composition.citations),
        cited=(one.citation.frame for one in report.cited),
    )


def report_lines(report: CitationReport, style: Style) -> Iterator[str]:
    """The report for people: invented citations first, and what it comes to last."""
    if report.invented:
        yield style.paint("INVENTED", "red", bold=True) + "  cited, and nothing in the composition"
        for one in report.invented:
            yield clip(f"  {_quoted(one.text)}  {_times(one.times, one.lines)}", style.width, style.glyphs.ellipsis)
            yield from _wrapped(_note(one), style)
        yield ""
    if report.ambiguous:
        yield style.paint("AMBIGUOUS", "yellow", bold=True) + "  a label that several placed frames share"
        for shared in report.ambiguous:
            named = ", ".join(plainly(citation.label) for citation in shared.citations)
            yield clip(
                f"  {_quoted(shared.label)}  {_times(shared.times, shared.lines)}", style.width, style.glyphs.ellipsis
            )
            yield from _wrapped(f"could be {named}", style)
        yield ""
    if report.cited:
        yield style.paint("CITED", "green", bold=True) + "  and there"
        rows: list[list[str | Cell]] = [
            [plainly(one.citation.label), str(one.citation.position), _name(one.citation), _times(one.times, one.lines)]
            for one in report.cited
        ]
        yield from table(
            [
                Column("label", gives=2),
                Column("position", right=True),
                Column("frame", gives=2),
                Column("in the answer"),
            ],
            rows,
            style,
        )
        yield ""
    if report.uncited:
        yield style.paint("NEVER CITED", bold=True) + "  placed, and not cited"
        rows = [[plainly(one.label), str(one.position), _name(one)] for one in report.uncited]
        yield from table(
            [Column("label", gives=2), Column("position", right=True), Column("frame", gives=2)], rows, style
        )
        yield ""
    yield verdict_text(report)


def verdict_text(report: CitationReport) -> str:
    """What the report comes to."""
    there = len(report.cited) + len(report.uncited)
    placed = there + len({citation for one in report.ambiguous for citation in one.citations} - _cited(report))
    told = f"{len(report.cited)} of {plural(placed, 'placed frame')} cited, "
    told += f"{plural(len(report.invented), 'invented citation')}" if report.invented else "none invented"
    return told + (f", {len(report.ambiguous)} ambiguous" if report.ambiguous else "")


def report_records(report: CitationReport) -> Iterator[dict[str, Any]]:
    """The report as JSON records."""
    for one in report.cited:
        yield {
            "event": "cited",
            **_record(one.citation),
            "times": one.times,
            "bare": one.bare,
            "lines": list(one.lines),
        }
    for shared in report.ambiguous:
        frames = [{key: value for key, value in _record(c).items() if key != "label"} for c in shared.citations]
        yield {
            "event": "ambiguous",
            "label": shared.label,
            "frames": frames,
            "times": shared.times,
            "lines": list(shared.lines),
        }
    for invented in report.invented:
        yield {
            "event": "invented",
            "text": invented.text,
            "times": invented.times,
            "lines": list(invented.lines),
            "near": invented.near.value if invented.near is not None else None,
            "nearest": invented.nearest,
            "detail": invented.detail,
        }
    for citation in report.uncited:
        yield {"event": "uncited", **_record(citation)}
    yield {
        "event": "verdict",
        "cited": len(report.cited),
        "ambiguous": len(report.ambiguous),
        "invented": len(report.invented),
        "uncited": len(report.uncited),
        "ok": not report.invented,
    }


async def _report(composition_id: str, seen: list[Observation], address: str, access: Access) -> None:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        await client.report(composition_id, seen)


def _text(path: Path) -> str:
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(
            f"{place_of(path)}: byte {error.start + 1} is not UTF-8", code="INVALID_ARGUMENT", reason="NOT_UTF8"
        ) from None


def _record(citation: Citation) -> dict[str, Any]:
    return {
        "label": citation.label,
        "provider": citation.frame.provider,
        "frame_id": citation.frame.frame_id,
        "position": citation.position,
    }


def _note(one: Invented) -> str:
    match one.near:
        case Near.CASE:
            return f"differs from {_quoted(one.nearest)} in upper and lower case alone"
        case Near.TYPOGRAPHY:
            return f"differs from {_quoted(one.nearest)} in quotes, dashes or forms of letters alone"
        case Near.LEFT_OUT:
            return f"{clean(one.nearest)} was offered and left out ({clean(one.detail)}): the model never saw it"
        case Near.SIMILAR:
            return f"like {_quoted(one.nearest)}"
        case None:
            return ""


def _wrapped(text: str, style: Style) -> list[str]:
    return textwrap.wrap(text, style.width, initial_indent="    ", subsequent_indent="    ")


def _times(times: int, lines: tuple[int, ...]) -> str:
    shown = ", ".join(str(line) for line in lines[:4]) + (", …" if len(lines) > 4 else "")
    return f"{plural(times, 'time')}, line{'s' if len(lines) > 1 else ''} {shown}"


def _quoted(text: str) -> str:
    return f"'{clean(text)}'"


def _name(citation: Citation) -> str:
    return f"{clean(citation.frame.provider)}/{clean(citation.frame.frame_id)}"


def _cited(report: CitationReport) -> set[Citation]:
    return {one.citation for one in report.cited}
