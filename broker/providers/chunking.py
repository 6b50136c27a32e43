"""Cuts a text into chunks of whole lines at the borders a reader would choose.

Two steps. First the text falls into sections: at Markdown headings and underlined headings, or, in source, at blank
lines before a line that is not indented. A section too small to stand alone joins the next one. Then a section that is
too large is cut at its best blank line: before the least indented text, and among equals the latest that still fits;
where there is none, between any two lines. No chunk overlaps another, and together they are the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINES = 60
"""Lines of one chunk."""

MAX_BYTES = 2_000
"""UTF-8 bytes of one chunk; a single longer line is a chunk of its own."""

SMALL_BYTES = 300
"""A section of fewer bytes joins the one after it, if both fit in one chunk."""

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".mkd"})
PROSE_SUFFIXES = MARKDOWN_SUFFIXES | {".rst", ".txt", ".adoc", ".asciidoc", ".text", ""}
"""Suffixes of files that are read as documents; all others are read as source."""

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r"([=\-~^\"'*+#`])\1{2,}[ \t]*$")
_DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|static|abstract|final|pub(?:\([a-z]+\))?|async|unsafe)\s+)*"
    r"(?:def|class|func|function|fn|struct|enum|trait|impl|interface|type|message|service|rpc)\s+[A-Za-z_(<].*"
)
_INDENT = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines ``first`` to ``last``, both from 1 and inclusive.

    Attributes:
        first: First line.
        last: Last line.
        headings: The headings that the chunk stands under, outermost first, its own first heading among them; in source
            the first line that defines something; empty where there is none.
    """

    first: int
    last: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    line: int
    level: int
    text: str


def chunks(lines: list[str], *, suffix: str) -> list[Chunk]:
    """The chunks of a text, in order: they partition its lines.

    Args:
        lines: The lines with or without their line ends.
        suffix: The file's suffix in lower case, which says how to read it.
    """
    prose = suffix in PROSE_SUFFIXES
    headings = list(_headings(lines, markdown=suffix in MARKDOWN_SUFFIXES)) if prose else []
    trails = list(_trails(headings))
    borders = [heading.line for heading in headings] if prose else list(_top_level(lines))
    sizes = [len(line.encode()) for line in lines]
    found: list[Chunk] = []
    for start, end in _sections(borders, sizes):
        for first, last in _pieces(lines, sizes, start, end):
            labels = _breadcrumb(borders, trails, first, last) if prose else _defined(lines, first, last)
            found.append(Chunk(first + 1, last, labels))
    return found


def trimmed(lines: list[str], chunk: Chunk) -> Chunk | None:
    """The chunk without the blank lines at its edges; None where nothing is left."""
    shown = [number for number in range(chunk.first, chunk.last + 1) if lines[number - 1].strip()]
    return Chunk(shown[0], shown[-1], chunk.headings) if shown else None


# Below, lines are counted from 0 and ends are exclusive.


def _headings(lines: list[str], *, markdown: bool) -> Iterator[_Heading]:
    fence = ""
    for number, line in enumerate(lines):
        opened = _FENCE.match(line) if markdown else None
        if opened and (not fence or opened[1].startswith(fence)):
            fence = "" if fence else opened[1]
        elif not fence:
            atx = _ATX.match(line.rstrip("\r\n")) if markdown else None
            if atx and atx[2]:
                yield _Heading(number, len(atx[1]), atx[2])
            elif _is_underlined(lines, number):
                level = {"=": 1, "-": 2}.get(lines[number + 1][0], 3)
                yield _Heading(number, level, line.strip())


def _is_underlined(lines: list[str], number: int) -> bool:
    line = lines[number].strip()
    if not line or number + 1 == len(lines) or (number and lines[number - 1].strip()):
        return False
    under = lines[number + 1].rstrip()
    # An underline as long as its text is a heading; a shorter one is a rule, or the top of a table.
    return bool(_UNDERLINE.match(under)) and len(under) >= min(len(line), 80) and not _UNDERLINE.match(line)


def _top_level(lines: list[str]) -> Iterator[int]:
    for number in range(1, len(lines)):
        line = lines[number]
        if line.strip() and line[0] not in " \t})]" and not lines[number - 1].strip():
            yield number


def _sections(borders: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    edges = [0, *(border for border in borders if border), len(sizes)]
    start, end = 0, 0
    for edge in edges[1:]:
        size = sum(sizes[start:end])
        if end > start and (size >= SMALL_BYTES or not _fits(sizes, start, edge)):
            yield start, end
            start = end
        end = edge
    if end > start:
        yield start, end


def _fits(sizes: list[int], start: int, end: int) -> bool:
    return end - start <= MAX_LINES and sum(sizes[start:end]) <= MAX_BYTES


def _pieces(lines: list[str], sizes: list[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        reach, used = start + 1, sizes[start]
        while reach < end and reach - start < MAX_LINES and used + sizes[reach] <= MAX_BYTES:
            used += sizes[reach]
            reach += 1
        cut = reach if reach == end else _best_cut(lines, start, reach)
        yield start, cut
        start = cut


def _best_cut(lines: list[str], start: int, reach: int) -> int:
    # The first third is no place to cut: it would leave crumbs.
    lowest = start + max(1, (reach - start) // 3)
    candidates = [
        (_indent(lines[number]), -number)
        for number in range(lowest, reach + 1)
        if lines[number].strip() and not lines[number - 1].strip()
    ]
    return -min(candidates)[1] if candidates else reach


def _indent(line: str) -> int:
    found = _INDENT.match(line)
    return len(found[0].expandtabs(4)) if found else 0


def _trails(headings: list[_Heading]) -> Iterator[tuple[str, ...]]:
    """Of each heading: the headings that it stands under, outermost first, and itself."""
    trail: list[_Heading] = []
    for heading in headings:
        trail = [*(above for above in trail if above.level < heading.level), heading]
        yield tuple(above.text for above in trail)


def _breadcrumb(borders: list[int], trails: list[tuple[str, ...]], first: int, last: int) -> tuple[str, ...]:
    """The trail of the chunk's own first heading, or else of the one before it."""
    own = bisect_left(borders, first)
    if own == len(borders) or borders[own] >= last:
        own -= 1
    return trails[own] if own >= 0 else ()


def _defined(lines: list[str], first: int, last: int) -> tuple[str, ...]:
    found = next((line for line in lines[first:last] if _DEFINITION.match(line)), "")
    return (found.strip().rstrip("{:").rstrip(),) if found else ()
