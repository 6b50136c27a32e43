"""How the providers read words: one way to turn text, code and questions into terms that can be matched.

A word is a run of letters, digits and underscores. It is folded (compatibility forms, accents and case gone), an
identifier gives its parts and its whole (``LaneIntake`` and ``lane_intake`` both give ``lan``, ``intak`` and
``laneintak``), and each term is cut to a light English stem, so that *ranked*, *ranking* and *ranks* meet. Scripts
written without spaces (Chinese, Japanese, Korean) give overlapping pairs of characters.

Sources: D. Harman, "How effective is suffixing?" (JASIS 1991), for the plural rules of the stem.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_QUERY_TERMS = 64
"""Distinct terms that are taken from one question, from its beginning."""

_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_PAIRED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_VOICED = "\u3099\u309a"  # the marks of voiced kana tell letters apart and stay

_STOP_TEXT = """
a about all also am an and any are as at be been being but by can could did do does doing done each explain
find for found from get give had has have how i if in into is it its just like may me might must my no not
of on or our please shall she should show so some such tell than that the their them then there these they
this those to too under us was we were what when where which while who whom whose why will with work works
would you your
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""English words that a question holds whatever it is about."""


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeats included. Never fails, whatever the text holds."""
    return [term for word in _WORD.findall(_fold(text)) for term in _word_terms(word)]


def query_terms(text: str) -> tuple[str, ...]:
    """The distinct terms of a question in order, without stop words, at most :data:`MAX_QUERY_TERMS`.

    A question of stop words alone keeps them: it is all there is to go by.
    """
    words = _WORD.findall(_fold(text))
    telling = [word for word in words if word.lower() not in STOP_WORDS] or words
    return tuple(dict.fromkeys(term for word in telling for term in _word_terms(word)))[:MAX_QUERY_TERMS]


def stem(word: str) -> str:
    """The light stem of a lower-case English word; other words come back as they are."""
    if len(word) <= 3 or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix in ("ing", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= 3 and any(vowel in rest for vowel in "aeiouy"):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    if len(word) > 3:
        word = word.removesuffix("e")
    return word[:-1] if word.endswith("ll") and len(word) > 4 else word


def _fold(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in decomposed if c in _VOICED or unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=65536)
def _word_terms(word: str) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    for run in _PAIRED.finditer(word):
        found += _identifier_terms(word[at : run.start()])
        characters = run.group()
        found += [characters[i : i + 2] for i in range(max(1, len(characters) - 1))]
        at = run.end()
    found += _identifier_terms(word[at:])
    return tuple(found)


def _identifier_terms(word: str) -> list[str]:
    pieces = [piece.casefold() for piece in _PIECE.findall(word)]
    if len(pieces) < 2:
        return [stem(piece) for piece in pieces]
    # A single letter or digit inside an identifier says nothing by itself; the whole still holds it.
    return [stem(piece) for piece in pieces if len(piece) > 1] + [stem("".join(pieces))]
