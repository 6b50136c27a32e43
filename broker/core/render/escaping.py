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
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

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

_JOINERS, _STYLES = "\u200c\u200d", "\ufe0e\ufe0f"
_ZWJ, _EMOJI_STYLE = "\u200d", "\ufe0f"
_SKIN_TONES = "\U0001f3fb-\U0001f3ff"
_KEYCAP = "\u20e3"

_WORD = rf"[{HIDDEN}]*+".join(f"[{letter}]" for letter in (LETTER_F, LETTER_R, LETTER_A, LETTER_M, LETTER_E))
_READ_AS_FENCE = rf"[\s{SLASHES}{HIDDEN}]*+{_WORD}"
_ENTITY = r"(?i:lt|#0*+60|#x0*+3c);?"
_FENCE = rf"(?<=[{OPENERS}])(?={_READ_AS_FENCE})|(?<=&)(?={_ENTITY}{_READ_AS_FENCE})"
"""Behind an opening character, where a fence could be read: ``<`` or a look-alike or its entity; then white space,
hidden characters or slashes; then the word, in any case and in letters that look alike."""

_JUDGED = rf"[{_JOINERS}{_STYLES}]"
"""Hidden characters that may be needed: two joiners and two variation selectors."""

_NEEDED = "|".join(
    (
        rf"(?<=[{PICTOGRAPHS}][{_STYLES}])",
        rf"(?<=[0-9#*][{_STYLES}])(?={_KEYCAP})",
        rf"(?<=[{VIRAMAS}][{_JOINERS}])",
        rf"(?<=[{JOINING}][{_JOINERS}])(?=[{JOINING}])",
        rf"(?<=[{PICTOGRAPHS}{_SKIN_TONES}]{_ZWJ})(?=[{PICTOGRAPHS}])",
        rf"(?<=[{PICTOGRAPHS}]{_EMOJI_STYLE}{_ZWJ})(?=[{PICTOGRAPHS}])",
    )
)
"""Behind one of them, where it changes how the visible ones beside it are read, and is the only one to do so."""

_RUN = rf"(?<=[{HIDDEN}]{{3}})[{HIDDEN}]*+"
"""Behind the third of a run of hidden characters, the rest of it: what is needed stands beside a visible one, or behind
the one variation selector that does."""

_ONE = rf"(?<={_JUDGED})(?!{_NEEDED})"
"""Behind one of them that is not needed."""

_IN_CONTENT = rf"[{HIDDEN}\r{OPENERS}&⟦]"
_IN_HEADER = rf"[{HIDDEN}\t\n\r{OPENERS}>\"&⟦]"
"""Where an escape may be needed: at no other character does either pattern match."""

_NOT_IN_HEADER = _IN_HEADER.replace("[", "[^", 1)
_ALWAYS_ON = rf"(?<=[\0-\x1f\x7f<>\"])(?:{_NOT_IN_HEADER}*+(?:[\0-\x1f\x7f>\"]|<(?!{_READ_AS_FENCE})))*+"
"""Behind ASCII that is escaped in a header wherever it stands, all up to the last of its kind with nothing between that
may need an escape: a match for each would take half a millisecond for a header of nothing else."""

_CONTENT = re.compile(
    rf"{_IN_CONTENT}"
    rf"(?:(?P<fence>{_FENCE})"
    rf"|(?P<hidden>{_RUN}|{_ONE}|(?<=[{HIDDEN}])(?<!{_JUDGED})(?:(?!{_JUDGED})[{HIDDEN}])*+"
    rf"|(?<=\r)(?!\n)(?:\r(?!\n))*+)"
    rf"|(?<=⟦)(?=U\+))"
)
_HEADER = re.compile(
    rf"{_IN_HEADER}"
    rf"(?:(?P<fence>{_FENCE})"
    rf"|(?P<always>{_ALWAYS_ON})"
    rf"|(?P<hidden>{_RUN}|{_ONE}|(?<=[{HIDDEN}\t\n\r])(?<!{_JUDGED})(?:(?!{_JUDGED})[{HIDDEN}\t\n\r])*+)"
    rf"|(?<=⟦)(?=U\+))"
)

_ALWAYS = frozenset(map(chr, (*range(0x20), 0x7F, *b'<>"')))
"""ASCII that is escaped in a header wherever it stands."""

_SUSPECT_IN_CONTENT, _SUSPECT_IN_HEADER = re.compile(_IN_CONTENT), re.compile(_IN_HEADER)
_OPENED, _OPENED_BY_ENTITY = re.compile(f"<{_READ_AS_FENCE}"), re.compile(f"&{_ENTITY}{_READ_AS_FENCE}")
_STRAY_RETURN = re.compile(r"\r(?!\n)")
_PLAIN_CONTENT, _PLAIN_HEADER = (
    bytes(code for code in range(128) if not suspect.match(chr(code)))
    for suspect in (_SUSPECT_IN_CONTENT, _SUSPECT_IN_HEADER)
)
"""ASCII that needs no escape, whatever stands beside it."""

_JUDGED_BY_NEXT = b"<&\r"
"""What needs an escape in a content, or does not, by what stands behind it."""

_BLANK = "\u2800"
"""It shows as nothing, and is no white space to Python."""

_SHOWN = re.compile(rf"[^\s{_BLANK}]")
_ESCAPE = re.compile(r"⟦U\+([0-9A-F]{4,6})⟧")


class Escaped(Struct, frozen=True, gc=False):
    """A text that is safe to stand in a prompt.

    Attributes:
        text: The text.
        size: UTF-8 bytes of it.
        hidden: Characters that would not have shown as themselves and were escaped.
        fences: Fence look-alikes that were neutralised.
    """

    text: str
    size: int
    hidden: int = 0
    fences: int = 0


def escape_content(text: str) -> Escaped:
    """Escapes a text of several lines."""
    return escape_contents((text,))[0]


def escape_contents(texts: Sequence[str]) -> list[Escaped]:
    """:func:`escape_content` of each text.

    Most need no escape. To tell that of all of them at once, without the pattern, takes a tenth of its time.
    """
    joined = "".join(texts)
    suspects = _suspects(joined, _PLAIN_CONTENT + _JUDGED_BY_NEXT)
    suspected = bool(suspects and _SUSPECT_IN_CONTENT.search(suspects))
    if suspected and len(texts) > 1:
        return [escape_content(text) for text in texts]
    blank = _BLANK in joined
    return [
        _escape_content(text)
        if suspected
        or ("<" in text and _OPENED.search(text))
        or ("&" in text and _OPENED_BY_ENTITY.search(text))
        or ("\r" in text and _STRAY_RETURN.search(text))
        or text.isspace()
        or (blank and _BLANK in text)
        else Escaped(text, len(text) if text.isascii() else len(text.encode()))
        for text in texts
    ]


def escape_header(text: str) -> Escaped:
    """Escapes a text that stands between quotes in a header line."""
    suspects = _suspects(text, _PLAIN_HEADER)
    if suspects and _SUSPECT_IN_HEADER.search(suspects):
        return _escape(_HEADER, text)
    return Escaped(text, len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))


def escaped_headers(texts: Sequence[str]) -> dict[str, Escaped]:
    """Of the texts that :func:`escape_header` changes, what it gives: mostly of none, told of all at once."""
    suspects = _suspects("".join(texts), _PLAIN_HEADER)
    if not suspects or not _SUSPECT_IN_HEADER.search(suspects):
        return {}
    return {text: escaped for text in set(texts) if (escaped := escape_header(text)).text != text}


def unescape(text: str) -> str:
    """The text that was escaped, exactly."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _suspects(text: str, plain: bytes) -> str:
    """What is left of a text without some of its ASCII."""
    return text.encode("utf-8", "surrogatepass").translate(None, plain).decode("utf-8", "surrogatepass")


def _escape_content(text: str) -> Escaped:
    escaped = _escape(_CONTENT, text)
    if escaped.text.isspace() or (_BLANK in escaped.text and not _SHOWN.search(escaped.text)):
        shown = "".join(map(visible, escaped.text))
        return Escaped(shown, len(shown.encode()), len(escaped.text))
    return escaped


def _escape(pattern: re.Pattern[str], text: str) -> Escaped:
    hidden = fences = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal hidden, fences
        if match.lastgroup == "fence":
            fences += 1
        elif match.lastgroup == "hidden":
            hidden += len(match[0])
            # Hidden characters come in runs: a call for each would take a second for a text of nothing else.
            return "".join(map(visible, match[0]))
        elif match.lastgroup == "always":
            part = match[0]
            for character in _ALWAYS.intersection(part):
                hidden += part.count(character) if character not in '<>"' else 0
                part = part.replace(character, visible(character))
            return part
        return visible(match[0])

    escaped = pattern.sub(replace, text)
    return Escaped(escaped, len(escaped.encode()), hidden, fences)


@cache
def visible(character: str) -> str:
    """The escape of one character."""
    return f"⟦U+{ord(character):04X}⟧"
