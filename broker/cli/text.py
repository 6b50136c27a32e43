"""Text of other parties, made safe and measured for a terminal.

Ids, labels and messages come from providers and are untrusted: an escape sequence in one of them must not reach the
terminal, and a direction-changing character must not reorder the line that it stands in.
"""

from __future__ import annotations

import re
import unicodedata

from broker.core.render.escaping import unescape

_UNIT = re.compile(r"⟦U\+[0-9A-F]{4,6}⟧|.", re.DOTALL)
"""What a cut never parts: an escape, or a character."""

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean(text: str) -> str:
    """The text on one line, each control, invisible or direction-changing character shown as ``⟦U+XXXX⟧``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟦U+{ord(c):04X}⟧" if unicodedata.category(c) in _UNPRINTABLE else c for c in text)


def plainly(text: str) -> str:
    """A text as it stands in a prompt, such as a label, with only that left escaped which a terminal may not get."""
    return clean(unescape(text))


def width(text: str) -> int:
    """Columns that a cleaned text takes: wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, columns: int, ellipsis: str) -> str:
    """The text cut to at most so many columns, from the middle: the ends of a path or label tell most.

    An escape is never cut in two.

    Args:
        text: A cleaned text.
        columns: At least 1.
        ellipsis: What stands for the part left out.
    """
    if width(text) <= columns:
        return text
    room = columns - width(ellipsis)
    units = _UNIT.findall(text)
    if room < 2:
        return "".join(_take(units, columns))
    # More of the end than of the start: file names and line numbers stand there.
    head = _take(units, room // 4)
    tail = _take(units[::-1], room - width("".join(head)))[::-1]
    return "".join((*head, ellipsis, *tail))


def _take(units: list[str], columns: int) -> list[str]:
    used = 0
    for index, unit in enumerate(units):
        used += width(unit)
        if used > columns:
            return units[:index]
    return units


def plural(count: int, noun: str) -> str:
    """``1 frame``, ``2 frames``, ``1,234 frames``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def of_tenant(tenant: str) -> str:
    """`` in tenant 'blue'``; nothing where none was named."""
    return f" in tenant {clean(tenant)!r}" if tenant else ""


def listed(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
