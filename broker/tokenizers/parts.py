"""Long texts in parts, so that counting takes time in proportion to length, whatever a text holds.

The libraries look for the end of a word, or of a run of blanks, before they look for tokens: one run of a million
characters takes them seconds, or more stack than there is. No part is longer than :data:`MOST` characters. A text is
cut in front of a blank between two letters, where the known encodings end a token anyway, so that the parts count what
the whole does; and anywhere where there is no such place.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST = 8 * 1024
"""Characters of a part."""

_TRIES = 64


def parts(text: str) -> Iterator[str]:
    """A text in parts that, joined, are the text."""
    start = 0
    while len(text) - start > MOST:
        end = _cut(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, start: int) -> int:
    at = start + MOST
    for _ in range(_TRIES):
        at = text.rfind(" ", start + 1, at)
        if at < 0:
            break
        if text[at - 1].isalpha() and text[at + 1].isalpha():
            return at
    return start + MOST
