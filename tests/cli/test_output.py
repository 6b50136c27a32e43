"""Tables keep to the width, say the same with and without colour, and can be written in any encoding."""

from __future__ import annotations

import io

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.output import ASCII, Cell, Column, Style, prepare, style_of, table
from broker.cli.text import clean, width

COLUMNS = [Column("rank", right=True), Column("label", gives=1), Column("tokens", right=True)]
WORDS = st.text(max_size=60).map(clean)


@given(st.lists(st.tuples(st.integers(1, 999).map(str), WORDS, st.integers(0, 10**6).map(str)), max_size=5))
def test_no_line_is_wider_than_the_style_says(rows):
    for line in table(COLUMNS, rows, Style(width=40)):
        assert width(line) <= 40


@given(st.lists(st.tuples(st.integers(1, 9).map(str), WORDS, st.integers(0, 99).map(str)), min_size=1, max_size=4))
def test_colour_changes_no_text(rows):
    tinted = [[Cell(cell, "red", bold=True) for cell in row] for row in rows]
    plain = table(COLUMNS, rows, Style(width=60))
    painted = table(COLUMNS, tinted, Style(width=60, colour=True))
    assert [click.unstyle(line).rstrip() for line in painted] == [line.rstrip() for line in plain]


def test_numbers_stand_at_the_right():
    assert table(COLUMNS, [["1", "a", "9"], ["12", "bb", "1,000"]], Style()) == [
        "  rank  label  tokens",
        "     1  a           9",
        "    12  bb      1,000",
    ]


@pytest.mark.parametrize(("part", "pieces"), [(0, 0), (0.001, 1), (50, 5), (97.5, 9), (99.9, 9), (100, 10), (300, 10)])
def test_a_bar_shows_any_part_that_is_not_nothing_and_is_full_only_for_all(part, pieces):
    bar = Style(glyphs=ASCII).bar(part, 100, 10)
    assert (len(bar), bar.count("#")) == (10, pieces)


def test_a_bar_of_nothing_is_empty():
    assert Style().bar(0, 0, 4) == "    "


@pytest.mark.parametrize(("encoding", "ascii_only"), [("utf-8", False), ("ascii", True), ("latin-1", True)])
def test_an_encoding_without_drawing_characters_gets_ascii(encoding, ascii_only):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert (style_of(stream).glyphs == ASCII) is ascii_only


def test_a_file_gets_a_hundred_columns_and_no_colour():
    style = style_of(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert (style.width, style.colour) == (100, False)


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colour_unless_it_is_told_not_to(monkeypatch, environment, colour):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    assert style_of(stream).colour is colour


def test_a_prepared_stream_takes_any_text():
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="ascii")
    prepare(stream)
    stream.write("█ \ud800")
    stream.flush()
    assert data.getvalue() == b"\\u2588 \\ud800"


WRAPPING = [Column("reason"), Column("meaning", gives=1, wraps=True)]


@given(st.lists(st.tuples(st.just("DUPLICATE"), st.text("abc def", max_size=90).map(str.strip)), max_size=4))
def test_a_cell_that_wraps_keeps_every_word_and_the_width(rows):
    lines = table(WRAPPING, rows, Style(width=40))
    assert all(width(line) <= 40 for line in lines)
    words = " ".join(lines[1:]).replace("DUPLICATE", "").split()
    assert "".join(words) == "".join("".join(text.split()) for _, text in rows)
