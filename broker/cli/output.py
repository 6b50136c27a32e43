"""What goes to standard output: lines of JSON for programs, tables for people.

Data goes to standard output, everything else to standard error. Tables are plain text of one content everywhere; a
terminal adds colour, and an encoding without box-drawing characters gets ASCII in their place.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TextIO

import click

from broker.cli.text import clip, width

PLAIN_WIDTH = 100
"""Columns where output is not a terminal's."""

_NARROWEST, _WIDEST = 60, 120


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters that drawings are made of.

    Attributes:
        bar: A piece of a bar.
        rule: A piece of a horizontal line.
        side: A piece of a vertical line.
        top: A left upper corner.
        bottom: A left lower corner.
        tee: A branch off a vertical line to the right.
        ellipsis: What stands for text left out.
        dash: Between the ends of a range.
        infinity: An end that is none.
        gap: Where lines are left out.
        higher: That higher numbers are better.
        lower: That lower ones are.
    """

    bar: str = "█"
    rule: str = "─"
    side: str = "│"
    top: str = "┌"
    bottom: str = "└"
    tee: str = "├"
    ellipsis: str = "…"
    dash: str = "–"
    infinity: str = "∞"
    gap: str = "┊"
    higher: str = "↑"
    lower: str = "↓"


UNICODE = Glyphs()
ASCII = Glyphs("#", "-", "|", "+", "+", "+", "...", "-", "inf", ":", "higher", "lower")


@dataclass(frozen=True, slots=True)
class Style:
    """How people's output looks.

    Attributes:
        width: Columns of a line.
        glyphs: What drawings are made of.
        colour: Whether to use ANSI colours.
    """

    width: int = PLAIN_WIDTH
    glyphs: Glyphs = UNICODE
    colour: bool = False

    def paint(self, text: str, tint: str = "", *, bold: bool = False) -> str:
        """The text in a colour of :func:`click.style`, where colours are used."""
        if not self.colour or not (tint or bold):
            return text
        return click.style(text, fg=tint or None, bold=bold or None)

    def bar(self, part: float, whole: float, columns: int) -> str:
        """A bar for a part of a whole, padded to ``columns``: empty only for nothing, and full only for all of it."""
        pieces = 0 if part <= 0 or whole <= 0 else max(1, min(columns, math.floor(columns * part / whole)))
        return (self.glyphs.bar * pieces).ljust(columns)


def style_of(stream: TextIO) -> Style:
    """The style that suits a stream: its width and colours where it is a terminal, ASCII where it cannot do more."""
    terminal = stream.isatty()
    columns = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if terminal else PLAIN_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(max(_NARROWEST, min(columns, _WIDEST)), UNICODE if _can_draw(stream) else ASCII, colour)


def _can_draw(stream: TextIO) -> bool:
    try:
        "".join(astuple(UNICODE)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def prepare(*streams: TextIO) -> None:
    """Lets streams write any text: what their encoding lacks comes out as a backslash escape instead of an error."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_lines(lines: Iterable[str]) -> None:
    """Writes lines for people to standard output."""
    for line in lines:
        # The stream itself: click would write UTF-8 where it finds ASCII.
        click.echo(line, file=sys.stdout, color=True)


def write_json(record: Mapping[str, Any]) -> None:
    """Writes one record as one line of ASCII JSON, and flushes it, so that readers of a stream see it at once."""
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")
    sys.stdout.flush()


def write_bytes(data: bytes) -> None:
    """Writes bytes to standard output exactly as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        right: Whether its cells stand at the right, as numbers do.
        gives: Whether its cells are cut from the middle when the table is too wide: 0, never; those of higher numbers
            are cut first.
        least: Columns that it keeps then.
        wraps: Whether its cells go on in lines below instead of being cut; for the last column only.
    """

    title: str
    right: bool = False
    gives: int = 0
    least: int = 8
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A tinted cell of a table."""

    text: str
    tint: str = ""
    bold: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], style: Style, indent: int = 2) -> list[str]:
    """Lines of a table with a heading, no wider than the style's width where giving columns allow it.

    Args:
        columns: Its columns.
        rows: Cells, as many to a row as columns, of cleaned text.
        style: How it looks.
        indent: Columns left free at the left.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[index].text) for row in cells)]) for index, column in enumerate(columns)
    ]
    _shrink(widths, columns, style.width - indent - 2 * (len(columns) - 1))
    heading = [Cell(column.title, bold=True) for column in columns]
    return [" " * indent + line for row in (heading, *cells) for line in _lines(row, columns, widths, style)]


def _shrink(widths: list[int], columns: Sequence[Column], room: int) -> None:
    for level in sorted({column.gives for column in columns if column.gives}, reverse=True):
        least = {i: max(each.least, width(each.title)) for i, each in enumerate(columns) if each.gives == level}
        while sum(widths) > room:
            giving = [index for index in least if widths[index] > least[index]]
            if not giving:
                break
            widths[max(giving, key=lambda index: widths[index])] -= 1


def _lines(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], style: Style) -> Iterator[str]:
    """A row: one line, or more where its last cell wraps."""
    last = cells[-1]
    parts = textwrap.wrap(last.text, widths[-1]) if columns[-1].wraps and width(last.text) > widths[-1] else [last.text]
    yield _row([*cells[:-1], Cell(parts[0], last.tint, last.bold)], columns, widths, style)
    for part in parts[1:]:
        yield _row([*(Cell("") for _ in cells[1:]), Cell(part, last.tint, last.bold)], columns, widths, style)


def _row(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], style: Style) -> str:
    parts = []
    for cell, column, columns_wide in zip(cells, columns, widths, strict=True):
        text = clip(cell.text, columns_wide, style.glyphs.ellipsis) if column.gives else cell.text
        padding = " " * (columns_wide - width(text))
        painted = style.paint(text, cell.tint, bold=cell.bold)
        parts.append(padding + painted if column.right else painted + padding)
    return "  ".join(parts).rstrip()
