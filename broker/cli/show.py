"""How a composition is drawn for people: lanes, ranking, the prompt from top to bottom, and what was left out.

Every function takes a composition and a style and gives lines, so that ``query`` and ``demo`` show the same pictures.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from broker.cli.left_out import LEFT_OUT_ROWS, left_out_lines
from broker.cli.output import Cell, Column, Style, table
from broker.cli.prompt_picture import prompt_lines
from broker.cli.terms import placement_text, policy_lines
from broker.cli.text import clean, listed, plainly, plural
from broker.cli.tints import tints
from broker.cli.why import Reasons, shown_score
from broker.core.audited import AuditRow
from broker.core.composition import Composition
from broker.core.frames import FrameRef
from broker.core.scores import Direction, ScoreScale


def composition_lines(composition: Composition, style: Style, *, rows: int | None = LEFT_OUT_ROWS) -> Iterator[str]:
    """The whole picture of a composition.

    Args:
        composition: What to draw.
        style: How it looks.
        rows: How many excluded frames to list one by one; None for every one.
    """
    yield from policy_lines(composition, style)
    yield from ("", heading("LANES", f"one for each provider; {legend(style)} on its own scale", style))
    yield from lane_lines(composition, style)
    yield from ("", heading("RANKING", "all lanes in one order, and why", style))
    yield from ranking_lines(composition, style)
    yield from ("", heading("PROMPT", f"top to bottom, placement {placement_text(composition.summary)}", style))
    yield from prompt_lines(composition, style)
    yield from ("", heading("LEFT OUT", _left_out_count(composition), style))
    yield from left_out_lines(composition, style, rows=rows)


def heading(title: str, remark: str, style: Style) -> str:
    """A section's heading."""
    return f"{style.paint(title, bold=True)}  {remark}"


def lane_lines(composition: Composition, style: Style) -> list[str]:
    """A table of the lanes: scale, how each ended, frames offered, admitted and placed, tokens placed."""
    colours = tints(composition)
    rows: list[list[str | Cell]] = []
    notes: list[str] = []
    for lane in composition.summary.lanes:
        usage = composition.usage.providers.get(lane.provider)
        end = Cell(lane.end.value, "" if lane.end.answered else "red", bold=not lane.end.answered)
        rows.append(
            [
                Cell(lane.provider, colours[lane.provider]),
                scale_cell(lane.scale, style),
                end,
                f"{lane.offered:,}",
                f"{lane.admitted:,}",
                f"{lane.placed:,}",
                f"{usage.tokens_placed if usage else 0:,}",
            ]
        )
        # The message of a refused lane begins with its violation, when it is the broker that speaks.
        parts = (lane.violation if lane.violation not in lane.message else "", lane.message)
        told = ": ".join(part for part in parts if part)
        if told:
            notes += textwrap.wrap(
                f"{lane.provider}: {clean(told)}", style.width, initial_indent="    ", subsequent_indent="      "
            )
    columns = [
        Column("provider", gives=2),
        Column("its own scale", gives=1),
        Column("ended"),
        *(Column(title, right=True) for title in ("offered", "admitted", "placed", "tokens")),
    ]
    return table(columns, rows, style) + notes


def scale_text(scale: ScoreScale | None, style: Style) -> str:
    """A scale in one line: id, ends and which end is better."""
    if scale is None:
        return "not known"
    if scale.direction is Direction.AS_SENT:
        return f"{clean(scale.id)}: unscored, in the order sent"
    better = "lower" if scale.direction is Direction.LOWER_IS_BETTER else "higher"
    return f"{clean(scale.id)}: {_end(scale.min, style)} to {_end(scale.max, style)}, {better} is better"


def scale_cell(scale: ScoreScale | None, style: Style) -> str:
    """A scale for a table: the id, which a floor names, both ends, and a sign for the better one."""
    if scale is None:
        return "not known"
    if scale.direction is Direction.AS_SENT:
        return f"{clean(scale.id)} as sent"
    sign = style.glyphs.lower if scale.direction is Direction.LOWER_IS_BETTER else style.glyphs.higher
    return f"{clean(scale.id)} {_end(scale.min, style)}..{_end(scale.max, style)} {sign}"


def legend(style: Style) -> str:
    """What the signs of :func:`scale_cell` say; as words they say it themselves."""
    if not style.glyphs.higher.isascii():
        return f"{style.glyphs.higher} higher, {style.glyphs.lower} lower is better"
    return "the better end"


def offer_lines(composition: Composition, style: Style, *others: Composition) -> list[str]:
    """A table of what each lane offered: its scale, frames and tokens, and the frame that it holds for its best.

    Args:
        composition: Whose lanes to show.
        style: How it looks.
        others: Compositions of the same frames; a frame's label is known where any of them placed it.
    """
    colours = tints(composition)
    labels = {
        placed.vouchers[0]: plainly(placed.citation_label)
        for one in (*others, composition)
        for placed in one.placed
        if placed.vouchers
    }
    best = {
        row.provider: labels.get(FrameRef(row.provider, row.frame_id), clean(row.frame_id))
        for row in composition.audit
        if row.lane_place == 1
    }
    rows: list[list[str | Cell]] = []
    for lane in composition.summary.lanes:
        usage = composition.usage.providers.get(lane.provider)
        rows.append(
            [
                Cell(lane.provider, colours[lane.provider]),
                scale_cell(lane.scale, style),
                lane.end.value,
                f"{lane.offered:,}",
                f"{usage.tokens_offered if usage else 0:,}",
                best.get(lane.provider, ""),
            ]
        )
    columns = [
        Column("provider", gives=2),
        Column("its own scale", gives=1),
        Column("ended"),
        Column("frames", right=True),
        Column("tokens", right=True),
        Column("its own best", gives=3, least=20),
    ]
    return table(columns, rows, style)


def ranking_lines(composition: Composition, style: Style) -> list[str]:
    """A table of the ranked frames; runs of frames that were left out between placed ones take one line."""
    reasons = Reasons(composition)
    colours = tints(composition)
    ranked = sorted((row for row in composition.audit if row.rank), key=lambda row: row.rank)
    if not ranked:
        return ["  no frame was ranked"]
    with_scores = any(row.score for row in ranked) and not composition.summary.strategy.compares_raw_scores
    columns = [
        Column("rank", right=True),
        Column("provider", gives=1),
        Column("local", right=True),
        Column("why", gives=1, least=12),
        *([Column("own score", gives=1, least=12)] if with_scores else []),
        Column("tokens", right=True),
        Column("pos", right=True),
        Column("label", gives=2, least=14),
    ]
    rows: list[list[str | Cell]] = []
    gaps: list[tuple[int, str]] = []
    for included, run in groupby(ranked, key=lambda row: row.included):
        members = list(run)
        if not included:
            gaps.append((len(rows), _left_out_run(members, style)))
            continue
        for row in members:
            placed = composition.placed[row.position - 1]
            cells: list[str | Cell] = [str(row.rank), Cell(row.provider, colours.get(row.provider, ""))]
            cells += [f"#{row.local_rank}", reasons(row), *([shown_score(row)] if with_scores else [])]
            cells += [f"{row.cost:,}", str(row.position), plainly(placed.citation_label)]
            rows.append(cells)
    lines = table(columns, rows, style)
    for place, text in reversed(gaps):
        lines.insert(place + 1, text)
    return lines


def _left_out_run(rows: list[AuditRow], style: Style) -> str:
    first, last = rows[0].rank, rows[-1].rank
    ranks = f"rank {first}" if first == last else f"ranks {first}{style.glyphs.dash}{last}"
    providers = Counter(row.provider for row in rows)
    told = ", ".join(f"{provider} {count:,}" for provider, count in providers.items())
    return f"     {style.glyphs.gap} {ranks} left out, {listed(sorted({row.reason for row in rows}))}: {told}"


def _left_out_count(composition: Composition) -> str:
    excluded = sum(not row.included for row in composition.audit)
    return f"{excluded:,} of {plural(len(composition.audit), 'frame')} offered"


def _end(value: float, style: Style) -> str:
    if math.isinf(value):
        return ("-" if value < 0 else "") + style.glyphs.infinity
    return f"{value:g}"
