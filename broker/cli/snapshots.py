"""Snapshots as records, and as a picture that the next one takes the place of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.cli.encode import Record, composition_records
from broker.cli.output import Style
from broker.cli.prompt_picture import prompt_lines
from broker.cli.text import clean, listed, plural

if TYPE_CHECKING:
    from broker.client import Snapshot


def snapshot_record(snapshot: Snapshot) -> Record:
    """A composition in one record, ``event: snapshot``; its ``records`` are those that every composition ends with."""
    return {
        "event": "snapshot",
        "number": snapshot.number,
        "collecting": list(snapshot.collecting),
        "records": list(composition_records(snapshot.composition)),
    }


def snapshot_line(snapshot: Snapshot) -> str:
    """A snapshot in one line: what stands in its prompt, and who is still waited for."""
    composition = snapshot.composition
    budget = composition.summary.budget
    waiting = listed([clean(name) for name in snapshot.collecting])
    placed = f"{plural(len(composition.placed), 'frame')} placed of {len(composition.audit):,}"
    return f"snapshot {snapshot.number}: {placed}, {budget.used:,} of {budget.usable:,} tokens; waiting for {waiting}"


def snapshot_lines(snapshot: Snapshot, style: Style, rows: int) -> list[str]:
    """A snapshot's line, and its prompt from top to bottom on at most so many lines, of which the middle is left out.

    Args:
        snapshot: The snapshot.
        style: How it looks.
        rows: At least 3.
    """
    lines = [snapshot_line(snapshot), *prompt_lines(snapshot.composition, style)]
    if len(lines) <= rows:
        return lines
    head = rows // 2
    return [*lines[:head], f"  {style.glyphs.gap}", *lines[len(lines) - (rows - head - 1) :]]
