"""``context-broker explain``: a composition, saved or on record, told frame by frame, drawn, and replayed."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from broker.cli.conflicts import conflicts
from broker.cli.encode import ref_record, usage_record
from broker.cli.errors import FAILED, Failure
from broker.cli.left_out import LEFT_OUT_ROWS
from broker.cli.options import Access, address_option, json_option, nearest, tenant_option
from broker.cli.output import Cell, Column, Style, style_of, table, write_json, write_lines
from broker.cli.prompt_picture import prompt_lines
from broker.cli.recorded import FILE_OR_ID, recorded_text, saved_of
from broker.cli.replay_view import check_record, replay_lines
from broker.cli.saved import Saved
from broker.cli.show import heading, lane_lines
from broker.cli.story import NO_CONTENT, Story, shown, stories
from broker.cli.terms import placement_text, policy_lines
from broker.cli.text import clean, clip, plainly, plural
from broker.cli.timeline import LaneTime, lane_times, timeline_lines
from broker.cli.tints import tints
from broker.core.checks import Check, Verdict
from broker.core.frames import FrameRef
from broker.core.replay import replay

EPILOG = """\
\b
FILE is what query --save FILE, query --json or compositions export ID wrote;
- is standard input:
  context-broker query "…" --json | context-broker explain -
ID is that of a composition which the broker at --address has on record:
  context-broker explain 019a1b2c-…
\b
--json records, in this order:
  lane       provider, source, state, frames, message, asked_ms, first_ms, end_ms
  frame      provider, frame_id, story, steps [{step, text}], rank, position, …
  conflict   frames [{provider, frame_id}]
  check      name, verdict, told, limits, differences          with --replay
  explained  frames, placed, usage; agrees                     with --replay
\b
Exit codes of --replay: 1 where something differs. What the document does not hold
cannot be worked out again, and is said to be NOT_RECOMPUTED.
"""


@click.command("explain", epilog=EPILOG)
@click.argument("source", type=FILE_OR_ID, metavar="FILE|ID")
@click.option("--frame", "name", metavar="PROVIDER/ID", help="Tell one frame's whole story.")
@click.option("--all", "everything", is_flag=True, help="Tell every frame that was left out, too.")
@click.option("--replay", "again", is_flag=True, help="Work the composition out again, and say whether it agrees.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write one self-contained page that draws it.",
)
@tenant_option
@address_option
@json_option
def command(
    source: Path | str,
    tenant: str,
    address: str,
    access: Access,
    name: str | None,
    everything: bool,
    again: bool,
    page: Path | None,
    as_json: bool,
) -> None:
    """Tell where each frame of a composition came from, and why it stands where it does or was left out.

    Of a composition on record the broker is asked, which needs the role "orchestrator" or "operator".
    """
    saved = saved_of(source, address, access, tenant)
    asked = saved.asked.composition if saved.asked else None
    checks = replay(saved.composition, asked, content=saved.content) if again else ()
    told = stories(saved.composition)
    if page is not None:
        from broker.cli.page import page_of

        page.write_text(page_of(saved, told, checks), encoding="utf-8")
    chosen = told if name is None else _chosen(told, name)
    if as_json:
        _write_records(saved, chosen, checks)
    elif name is not None:
        write_lines(line for story in chosen for line in whole_story_lines(story, style_of(sys.stdout)))
    else:
        rows = None if everything else LEFT_OUT_ROWS
        write_lines(explanation_lines(saved, told, checks, style_of(sys.stdout), rows=rows))
    if page is not None and not as_json:
        click.echo(f"wrote {page}", err=True)
    if any(check.verdict is Verdict.DIFFERS for check in checks):
        raise click.exceptions.Exit(FAILED)


def explanation_lines(
    saved: Saved, told: Sequence[Story], checks: Sequence[Check], style: Style, *, rows: int | None = LEFT_OUT_ROWS
) -> Iterator[str]:
    """The whole picture.

    Args:
        saved: The document.
        told: Its stories.
        checks: Of a replay; empty: none was made.
        style: How it looks.
        rows: How many frames that were left out to tell; None for every one.
    """
    composition = saved.composition
    if saved.goal:
        yield f"question  {clean(saved.goal)}"
    yield f"ids       composition {clean(composition.composition_id)}, request {clean(composition.request_id)}"
    if saved.on_record is not None:
        yield f"recorded  {recorded_text(saved.on_record)}"
    yield from policy_lines(composition, style)
    yield from ("", heading("LANES OVER TIME", "as the caller heard of them", style))
    yield from timeline_lines(saved, style)
    yield ""
    yield from lane_lines(composition, style)
    yield from ("", heading("FRAMES", "each one's story, by rank", style))
    yield from story_lines(told, tints(composition), style, rows=rows)
    yield from ("", heading("PROMPT", f"top to bottom, placement {placement_text(composition.summary)}", style))
    yield from prompt_lines(composition, style)
    groups = conflicts(told)
    if groups:
        yield from ("", heading("CONFLICTS", "one source region, different bytes: all are kept", style))
        yield from _conflict_lines(groups, told, style)
    yield from ("", heading("USAGE", "frames and tokens; offered and admitted count content", style))
    yield from usage_lines(saved, style)
    if checks:
        yield from ("", heading("REPLAY", "worked out again from the audit", style))
        yield from replay_lines(checks, style)


def story_lines(told: Sequence[Story], colours: dict[str, str], style: Style, *, rows: int | None) -> Iterator[str]:
    """Each frame's story on one line, placed frames all and the others up to a number."""
    if not told:
        yield "  no frame was offered"
        return
    left_out = [story for story in told if story.placed is None]
    hidden = {id(story) for story in left_out[rows:]} if rows is not None else set()
    lines: list[list[str | Cell]] = []
    for story in told:
        if id(story) in hidden:
            continue
        tint = colours.get(story.row.provider, "")
        end = story.placed
        place = Cell(f"{end.position} of {end.total}") if end is not None else Cell(clean(story.row.reason), "red")
        lines.append(
            [
                str(story.row.rank or ""),
                Cell(f"{clean(story.row.provider)} #{story.row.local_rank or story.row.lane_place or '?'}", tint),
                place,
                plainly(end.citation_label) if end is not None else clean(story.row.frame_id) or "(no id)",
                story.brief,
            ]
        )
    columns = [Column("rank", right=True), Column("offered by"), Column("place"), Column("frame", gives=1, least=16)]
    yield from table([*columns, Column("story", gives=2, least=30, wraps=True)], lines, style)
    if hidden:
        yield f"  {style.glyphs.ellipsis} and {plural(len(hidden), 'more frame')} left out (explain --all tells each)"


def whole_story_lines(story: Story, style: Style) -> Iterator[str]:
    """One frame's whole story, and its block as it stands in the prompt, or its content where nothing is rendered."""
    yield style.paint(shown(story.ref), bold=True)
    for step in story.steps:
        yield from textwrap.wrap(
            step.text, style.width, initial_indent=f"  {step.name:<9} ", subsequent_indent=" " * 12
        ) or [f"  {step.name}"]
    if story.placed is None:
        return
    for provenance in story.placed.frame.provenance:
        parts = (provenance.type, provenance.uri, provenance.range, provenance.method, provenance.by)
        yield clip(f"  from      {clean(' '.join(filter(None, parts)))}", style.width, style.glyphs.ellipsis)
    if story.placed.frame.recorded_at:
        yield f"  recorded  {clean(story.placed.frame.recorded_at)}"
    yield ""
    if not story.placed.rendered and not story.placed.frame.content:
        yield f"  {NO_CONTENT}"
    for line in (story.placed.rendered or story.placed.frame.content).splitlines():
        yield f"  {style.glyphs.side} {clean(line)}"


def usage_lines(saved: Saved, style: Style) -> list[str]:
    """A table of frames and tokens by provider, and their sums."""
    usage, colours = saved.composition.usage, tints(saved.composition)
    named = [*usage.providers.items(), ("in all", usage.total)]
    rows: list[list[str | Cell]] = []
    for name, figures in named:
        frames = (figures.frames_offered, figures.frames_admitted, figures.frames_placed)
        tokens = (figures.tokens_offered, figures.tokens_admitted, figures.tokens_placed)
        rows.append([Cell(clean(name), colours.get(name, "")), *(f"{number:,}" for number in (*frames, *tokens))])
    titles = ("frames offered", "admitted", "placed", "tokens offered", "admitted", "placed")
    return table([Column("provider", gives=1), *(Column(title, right=True) for title in titles)], rows, style)


def _conflict_lines(groups: Sequence[tuple[FrameRef, ...]], told: Sequence[Story], style: Style) -> Iterator[str]:
    by_ref = {story.ref: story for story in told if story.row.local_rank}
    for number, group in enumerate(groups, 1):
        for index, ref in enumerate(group):
            story = by_ref.get(ref)
            end = "" if story is None else f"  {_end(story)}"
            at = f", recorded {clean(story.row.recorded_at)}" if story is not None and story.row.recorded_at else ""
            text = f"  {number if not index else '':>3}  {shown(ref)}{end}{at}"
            yield clip(text, style.width, style.glyphs.ellipsis)


def _end(story: Story) -> str:
    return f"placed {story.placed.position}" if story.placed is not None else f"left out, {clean(story.row.reason)}"


def _chosen(told: Sequence[Story], name: str) -> list[Story]:
    names = {f"{story.row.provider}/{story.row.frame_id}" for story in told}
    found = [story for story in told if f"{story.row.provider}/{story.row.frame_id}" == name]
    if not found:
        message = f"no frame {clean(name)!r} was offered{clean(nearest(name, names))}"
        if "/" not in name:
            message += "; a frame is named PROVIDER/ID"
        raise Failure(message, code="NOT_FOUND", reason="FRAME_UNKNOWN")
    return found


def _write_records(saved: Saved, told: Sequence[Story], checks: Sequence[Check]) -> None:
    for lane in lane_times(saved):
        write_json(_lane_record(lane))
    for story in told:
        write_json(_story_record(story))
    for group in conflicts(told):
        write_json({"event": "conflict", "frames": [ref_record(ref) for ref in group]})
    for check in checks:
        write_json(check_record(check))
    usage = saved.composition.usage
    record = {
        "event": "explained",
        "frames": len(saved.composition.audit),
        "placed": len(saved.composition.placed),
        "usage": {
            "total": usage_record(usage.total),
            "providers": {name: usage_record(figures) for name, figures in usage.providers.items()},
        },
    }
    if checks:
        record["agrees"] = all(check.verdict is not Verdict.DIFFERS for check in checks)
    write_json(record)


def _lane_record(lane: LaneTime) -> dict[str, object]:
    return {
        "event": "lane",
        "provider": lane.provider,
        "source": lane.source,
        "state": lane.end.value,
        "frames": lane.frames,
        "message": lane.message,
        "asked_ms": lane.asked_ms,
        "first_ms": lane.first_ms,
        "end_ms": lane.end_ms,
    }


def _story_record(story: Story) -> dict[str, object]:
    return {
        "event": "frame",
        **ref_record(story.ref),
        "story": story.line,
        "steps": [{"step": step.name, "text": step.text} for step in story.steps],
        "included": story.row.included,
        "reason": story.row.reason,
        "rank": story.row.rank,
        "position": story.row.position,
        "cost": story.row.cost,
        "copies": [ref_record(ref) for ref in story.copies],
    }
