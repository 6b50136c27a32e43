"""Escaping: what stands in a prompt shows as what it is, stays inside its fence, and can be turned back.

There is one escape: a character becomes ``⟦U+XXXX⟧``. A text that holds the two characters before the digits of an
escape has them escaped too, so that :func:`unescape` is exact. Three things are escaped everywhere:

* characters that do not show as themselves: controls, direction marks, default ignorables (zero-width spaces, tag
  characters, variation selectors), line and paragraph separators. A tab, a line feed, and a carriage return before one
  stay, so do joiners between letters of a script that needs them, joiners inside an emoji, and the one variation
  selector behind an emoji's base;
* the opening character of what reads as a fence, see :data:`_FENCE`;
* in a text that would look empty, its blanks.

A header value, which stands between quotes on one line, has ``"``, ``<``, ``>`` and all white space but the space
escaped besides.

Every pattern below consumes single characters or runs of one class and looks ahead without ever giving back: the time
is linear in the text, whatever the text.

Sources: Unicode UAX #44 (Default_Ignorable_Code_Point), UTS #51 (emoji sequences), RFC 5892 appendix A (joiners).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from broker.core.render.invisible import (
    HIDDEN,
    JOINING,
    LETTER_A,
    LETTER_E,
    LETTER_F,
    LETTER_M,
    LETTER_R,
    OPENERS,
    PICTOGRAPHS,
    SLASHES,
    VIRAMAS,
)

_ZWNJ, _ZWJ, _TEXT_STYLE, _EMOJI_STYLE = "\u200c", "\u200d", "\ufe0e", "\ufe0f"
_MAY_BE_NEEDED = frozenset((_ZWNJ, _ZWJ, _TEXT_STYLE, _EMOJI_STYLE))
_KEYCAP = "\u20e3"

_WORD = rf"[{HIDDEN}]*+".join(f"[{letter}]" for letter in (LETTER_F, LETTER_R, LETTER_A, LETTER_M, LETTER_E))
_GAP = rf"[\s{SLASHES}{HIDDEN}]*+"
_FENCE = rf"(?<=[{OPENERS}])(?={_GAP}{_WORD})|(?<=&)(?=(?i:lt|#0*+60|#x0*+3c);?{_GAP}{_WORD})"
"""Behind an opening character, where a fence could be read: ``<`` or a look-alike or its entity; then white space,
hidden characters or slashes; then the word, in any case and in letters that look alike."""

_JUDGED = rf"[{''.join(sorted(_MAY_BE_NEEDED))}]"
_RUN = rf"(?<=[{HIDDEN}]{{3}})[{HIDDEN}]*+"
"""Behind the third of a run of hidden characters, the rest of it: what is needed stands beside a visible one, or behind
the one variation selector that does."""

_IN_CONTENT = rf"[{HIDDEN}\r{OPENERS}&⟦]"
_IN_HEADER = rf"[{HIDDEN}\t\n\r{OPENERS}>\"&⟦]"
"""Where an escape may be needed: at no other character does either pattern match."""

_CONTENT = re.compile(
    rf"{_IN_CONTENT}"
    rf"(?:(?P<fence>{_FENCE})"
    rf"|(?P<hidden>{_RUN}|(?<={_JUDGED})|(?<=[{HIDDEN}])(?:(?!{_JUDGED})[{HIDDEN}])*+|(?<=\r)(?!\n)(?:\r(?!\n))*+)"
    rf"|(?<=⟦)(?=U\+))"
)
_HEADER = re.compile(
    rf"{_IN_HEADER}"
    rf"(?:(?P<fence>{_FENCE})"
    rf"|(?P<hidden>{_RUN}|(?<={_JUDGED})|(?<=[{HIDDEN}\t\n\r])(?:(?!{_JUDGED})[{HIDDEN}\t\n\r])*+)"
    rf"|(?<=⟦)(?=U\+)|(?<=[<>\"]))"
)
_CONTENT_BYTES, _HEADER_BYTES = (
    bytes(code for code in range(128) if re.match(suspects, chr(code))) for suspects in (_IN_CONTENT, _IN_HEADER)
)
"""The ASCII ones of these."""

_SHOWN = re.compile(r"[^\s\u2800]")
_ESCAPE = re.compile(r"⟦U\+([0-9A-F]{4,6})⟧")

_JOINING = re.compile(rf"[{JOINING}]")
_VIRAMA = re.compile(rf"[{VIRAMAS}]")
_PICTOGRAPH = re.compile(rf"[{PICTOGRAPHS}]")
_SKIN_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")
_KEYCAP_BASE = re.compile("[0-9#*]")


@dataclass(frozen=True, slots=True)
class Escaped:
    """A text that is safe to stand in a prompt.

    Attributes:
        text: The text.
        hidden: Characters that would not have shown as themselves and were escaped.
        fences: Fence look-alikes that were neutralised.
    """

    text: str
    hidden: int
    fences: int


def escape_content(text: str) -> Escaped:
    """Escapes a text of several lines."""
    escaped = Escaped(text, 0, 0) if _is_harmless(text, _CONTENT_BYTES) else _escape(_CONTENT, text)
    if _SHOWN.search(escaped.text):
        return escaped
    return Escaped("".join(map(visible, escaped.text)), len(escaped.text), 0)


def escape_header(text: str) -> Escaped:
    """Escapes a text that stands between quotes in a header line."""
    return Escaped(text, 0, 0) if _is_harmless(text, _HEADER_BYTES) else _escape(_HEADER, text)


def unescape(text: str) -> str:
    """The text that was escaped, exactly."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _is_harmless(text: str, suspects: bytes) -> bool:
    """Whether an ASCII text has nothing that may need an escape, as most have: told in a tenth of a pattern's time."""
    return text.isascii() and len(text.encode().translate(None, suspects)) == len(text)


def _escape(pattern: re.Pattern[str], text: str) -> Escaped:
    hidden = fences = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal hidden, fences
        if match.lastgroup == "fence":
            fences += 1
        elif match.lastgroup == "hidden":
            if match[0] in _MAY_BE_NEEDED and _needed(text, match.start()):
                return match[0]
            hidden += len(match[0])
            # Hidden characters come in runs: a call for each would take a second for a text of nothing else.
            return "".join(map(visible, match[0]))
        return visible(match[0])

    return Escaped(pattern.sub(replace, text), hidden, fences)


@cache
def visible(character: str) -> str:
    """The escape of one character."""
    return f"⟦U+{ord(character):04X}⟧"


def _needed(text: str, index: int) -> bool:
    """Whether a hidden character changes how the visible ones beside it are read, and is the only one to do so."""
    character = text[index]
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    if character in (_TEXT_STYLE, _EMOJI_STYLE):
        return bool(_PICTOGRAPH.match(before)) or (bool(_KEYCAP_BASE.match(before)) and after == _KEYCAP)
    if _VIRAMA.match(before) or (_JOINING.match(before) and _JOINING.match(after)):
        return True
    if character == _ZWNJ or not _PICTOGRAPH.match(after):
        return False
    if before == _EMOJI_STYLE:
        return bool(_PICTOGRAPH.match(text, index - 2))
    return bool(_PICTOGRAPH.match(before) or _SKIN_TONE.match(before))
