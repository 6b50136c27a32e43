"""Chunks partition a file's lines, keep to their bounds, and are cut where a reader would cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.providers.chunking import MAX_BYTES, MAX_LINES, SMALL_BYTES, Chunk, chunks, trimmed

SUFFIXES = st.sampled_from([".md", ".py", ".txt", ".rst", ".go", ""])
LINE = st.one_of(
    st.sampled_from(
        ["", "  ", "# One", "## Two", "###### Six", "```", "~~~", "====", "----", "def f():", "    x = 1", "}", "text"]
    ),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=120),
    st.integers(1, 40).map(lambda n: "word " * n * 20),
)


def cut_up(text: str, suffix: str = ".md") -> list[str]:
    lines = text.splitlines(keepends=True)
    return ["".join(lines[chunk.first - 1 : chunk.last]) for chunk in chunks(lines, suffix=suffix)]


@given(st.lists(LINE, max_size=200), SUFFIXES)
def test_chunks_partition_the_lines_exactly(lines: list[str], suffix: str):
    found = chunks(lines, suffix=suffix)
    covered = [number for chunk in found for number in range(chunk.first, chunk.last + 1)]
    assert covered == list(range(1, len(lines) + 1))


@given(st.lists(LINE, max_size=200), SUFFIXES)
def test_no_chunk_is_larger_than_its_bounds_but_a_single_long_line(lines: list[str], suffix: str):
    for chunk in chunks(lines, suffix=suffix):
        size = sum(len(line.encode()) for line in lines[chunk.first - 1 : chunk.last])
        assert chunk.last - chunk.first + 1 <= MAX_LINES
        assert size <= MAX_BYTES or chunk.first == chunk.last


@given(st.lists(LINE, max_size=60), SUFFIXES)
def test_trimming_takes_blank_lines_at_the_edges_and_nothing_else(lines: list[str], suffix: str):
    for chunk in chunks(lines, suffix=suffix):
        shown = trimmed(lines, chunk)
        kept = range(shown.first, shown.last + 1) if shown else range(0)
        for number in range(chunk.first, chunk.last + 1):
            if lines[number - 1].strip():
                assert number in kept
        if shown:
            assert lines[shown.first - 1].strip()
            assert lines[shown.last - 1].strip()
            assert shown.headings == chunk.headings


BODY = "word " * (SMALL_BYTES // 5) + "\n"


def test_markdown_is_cut_at_headings_and_not_inside_fences():
    code = f"```sh\n# no heading\n{BODY}```\n"
    parts = [f"# One\n{BODY}", f"## Two\n{code}", f"## Three\n\n{BODY}"]
    assert cut_up("".join(parts)) == parts


def test_headings_of_a_chunk_are_those_it_stands_under():
    text = f"{BODY}# Guide\n{BODY}## Retries\n{BODY}### Backoff\n{BODY}## Limits\n{BODY}"
    found = chunks(text.splitlines(keepends=True), suffix=".md")
    assert [chunk.headings for chunk in found] == [
        (),
        ("Guide",),
        ("Guide", "Retries"),
        ("Guide", "Retries", "Backoff"),
        ("Guide", "Limits"),
    ]


def test_a_long_section_keeps_its_heading_in_each_of_its_chunks():
    text = "# Guide\n" + "\n".join(BODY for _ in range(20))
    found = chunks(text.splitlines(keepends=True), suffix=".md")
    assert len(found) > 2
    assert {chunk.headings for chunk in found} == {("Guide",)}


def test_a_heading_without_text_stays_with_what_follows():
    assert cut_up(f"# Title\n\n## Part\n{BODY}## Next\n{BODY}") == [f"# Title\n\n## Part\n{BODY}", f"## Next\n{BODY}"]


def test_underlined_headings_are_borders_and_tables_and_rules_are_not():
    first, second = f"Title\n=====\n{BODY}\n", f"Part\n----\n{BODY}\n"
    assert cut_up(first + second, ".rst") == [first, second]
    table = f"name   value\n====== =====\n{BODY}"
    assert cut_up(f"{BODY}\n{table}", ".rst") == [f"{BODY}\n{table}"]
    assert cut_up(f"{BODY}\n---\n{BODY}") == [f"{BODY}\n---\n{BODY}"]


def test_source_is_cut_between_top_level_blocks():
    one = "def one():\n" + "    x = 'something long enough to stand alone'\n" * 8 + "\n\n"
    two = "@decorated\nclass Two:\n" + "    y = 'something long enough to stand alone'\n" * 8 + "\n"
    assert cut_up(one + two, ".py") == [one, two]


def test_a_long_block_is_cut_before_its_least_indented_blank_line():
    method = "    def m(self):\n" + "        a = 1\n" * 8 + "\n" + "        b = 2\n" * 8 + "\n"
    found = cut_up("class A:\n" + method * 6, ".py")
    assert len(found) > 1
    assert all(part.startswith("    def m(self):\n") for part in found[1:])


def test_source_chunks_name_what_they_define():
    line = "    x = 'something long enough to stand alone'\n" * 8
    text = (
        f"import a\n{line.replace('    ', '')}\n\nasync def pack(frames):\n{line}\n\nx = 1\n{line.replace('    ', '')}"
    )
    found = chunks(text.splitlines(keepends=True), suffix=".py")
    assert [chunk.headings for chunk in found] == [(), ("async def pack(frames)",), ()]


@pytest.mark.parametrize("suffix", [".md", ".py"])
def test_an_empty_file_has_no_chunk_and_a_blank_one_nothing_to_show(suffix: str):
    assert chunks([], suffix=suffix) == []
    assert [trimmed(["\n", " \n"], chunk) for chunk in chunks(["\n", " \n"], suffix=suffix)] == [None]
    assert trimmed(["\n", "a\n", "\n"], Chunk(1, 3, ())) == Chunk(2, 2, ())
