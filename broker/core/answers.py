"""Reading a model's answer for what it cites: where labels stand in it, and what else stands where a label should.

A model is told to cite a block by its label, and nothing holds it to a form: labels come in square brackets, in quotes,
several to a bracket, wrapped over lines, or bare in a sentence. So two things are read, and told apart:

* **labels**: every whole occurrence of a known text, wherever it stands. White space matches white space, so that a
  wrapped label is found; case is exact. An occurrence is whole where neither end runs on into a longer word, path or
  number: ``notes`` is not in ``notes.md``, nor ``a#1`` in ``a#12``. A single word, which any sentence may hold by
  chance, counts only between marks: brackets, quotes, emphasis;
* **claims**: what stands in square or lenticular brackets and is not a label. Brackets in code, of a
  parameter (``list[str]``), a link or a tick box, and the usual asides of quoting (``[sic]``, ``[…]``) claim nothing.

Everything is linear in the answer but the search for labels, which is one search for each.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

_CODE = re.compile(
    r"^(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^(?P=fence)[^\n]*$|\Z)|(?<!`)(?P<tick>`++)[^`\n]+(?P=tick)",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\(<?(?:[a-z][a-z0-9+.-]*:|[/#.])|: ?<?[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BRACKETS = re.compile(r"\[(?P<square>[^\[\]]*)\]|【(?P<lens>[^【】]*)】")
_SEPARATOR = re.compile(r"[;,|]|(?<=\s)(?:and|&)(?=\s)")
_WORD_ALONE = re.compile(r"[^\W\d_]+")
_RUNS_ON_BEFORE = re.compile(r"(?:\w|\w[./#@-])\Z")
_RUNS_ON_AFTER = re.compile(r"\w|[./#@-]\w|:\d")
_ASIDE = re.compile(
    r"(?:x|sic|\W*|…|emphasis (?:added|mine)|citation needed|see|cf\.?|also|and|e\.g\.?|i\.e\.?|ibid\.?"
    r"|(?:pp?|pages?|ll?|lines?|sections?|sec|ch|chapters?|§+)\.? ?[\d ,–-]+)",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(r"[^\W\d]\w*(?:, ?[^\W\d]\w*)*")
_OPENING = "[【(“\"'‘«‹<「『*_`„"
_CLOSING = "]】)”\"'’»›>」』*_`“"
_STRIPPED = " \t\"'“”‘’„«»‹›「」『』*_`.,;:!?"


class Found(Struct, frozen=True, gc=False):
    """An occurrence of a known text.

    Attributes:
        index: Which of the known texts.
        start: Place of its first character in :attr:`Answer.text`.
        end: Place behind its last one.
        line: Of the answer, from 1, on which it starts.
        marked: Whether it stands in brackets or between quotes or other marks.
    """

    index: int
    start: int
    end: int
    line: int
    marked: bool


class Claim(Struct, frozen=True, gc=False):
    """What stands where a label should and is not one.

    Attributes:
        text: Without the marks around it.
        line: Of the answer, from 1.
    """

    text: str
    line: int


def one_spaced(text: str) -> str:
    """The text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


class Answer:
    """A model's answer.

    Attributes:
        text: It, with each run of white space as one space.

    Args:
        text: As the model wrote it.
    """

    def __init__(self, text: str) -> None:
        self._line_starts = [match.end() for match in re.finditer("\n", text)]
        self.text, self._origins = _collapsed(text)
        # Of one length with the text, so that places in one are places in the other.
        self._without_code, _ = _collapsed(_CODE.sub(lambda match: re.sub(r"\S", "\x00", match[0]), text))
        self._brackets = [
            (match.start(), match.end())
            for match in _BRACKETS.finditer(self._without_code)
            if not _is_parameter(self._without_code, match)
        ]

    def read(self, known: Sequence[str]) -> tuple[list[Found], list[Claim]]:
        """Every occurrence of the known texts, and every claim that is not one of them, both in the answer's order.

        Args:
            known: No two of them equal; with white space as :func:`one_spaced` leaves it. Where occurrences overlap,
                the one that starts first counts, and of two that start together the longer.
        """
        taken = self._occurrences(known)
        starts = [start for start, _, _ in taken]
        claims: list[Claim] = []
        for start, end in self._brackets:
            first = bisect_right(starts, start)
            # Brackets that a label has of its own claim nothing.
            if first and taken[first - 1][1] > start:
                continue
            within = taken[first : bisect_right(starts, end)]
            claims += self._claims(start + 1, end - 1, [(begin, stop) for begin, stop, _ in within])
        found = [Found(index, start, end, self.line(start), self._is_marked(start, end)) for start, end, index in taken]
        return found, claims

    def _occurrences(self, known: Sequence[str]) -> list[tuple[int, int, int]]:
        every = sorted(
            (place for index, text in enumerate(known) if text for place in self._places(index, text)),
            key=lambda place: (place[0], -place[1]),
        )
        taken: list[tuple[int, int, int]] = []
        for place in every:
            if not taken or place[0] >= taken[-1][1]:
                taken.append(place)
        return taken

    def _places(self, index: int, known: str) -> Iterator[tuple[int, int, int]]:
        needs_marks = _WORD_ALONE.fullmatch(known) is not None
        start = self.text.find(known)
        while start >= 0:
            end = start + len(known)
            if self._is_whole(start, end) and not (needs_marks and not self._is_marked(start, end)):
                yield start, end, index
            start = self.text.find(known, start + 1)

    def _is_whole(self, start: int, end: int) -> bool:
        text = self.text
        runs_on = (_is_word(text[start]) and _RUNS_ON_BEFORE.search(text[max(0, start - 2) : start]) is not None) or (
            _is_word(text[end - 1]) and _RUNS_ON_AFTER.match(text, end) is not None
        )
        return not runs_on

    def in_brackets(self, start: int, end: int) -> bool:
        """Whether a part of the text stands in brackets that can claim something."""
        place = bisect_right(self._brackets, (start, len(self.text))) - 1
        return place >= 0 and end < self._brackets[place][1]

    def _is_marked(self, start: int, end: int) -> bool:
        if self.in_brackets(start, end):
            return True
        before, after = self.text[start - 1 : start] if start else "", self.text[end : end + 1]
        return bool(before and after) and before in _OPENING and after in _CLOSING

    def _claims(self, start: int, end: int, labels: Iterable[tuple[int, int]]) -> Iterator[Claim]:
        """What a bracket's pieces claim: those that hold no label. Separators inside a label separate nothing."""
        if self.text[end] == "]" and _LINK.match(self.text, end + 1):
            return
        parts: list[str] = []
        at = start
        for begin, stop in labels:
            parts += self.text[at:begin], "\x00" * (stop - begin)
            at = stop
        inside = "".join((*parts, self.text[at:end]))
        at = 0
        for separator in [*_SEPARATOR.finditer(inside), None]:
            stop = separator.start() if separator is not None else len(inside)
            piece = inside[at:stop]
            text = piece.strip(_STRIPPED).removeprefix("^")
            if "\x00" not in piece and not _ASIDE.fullmatch(text):
                yield Claim(text, self.line(start + at))
            at = separator.end() if separator is not None else stop

    def line(self, place: int) -> int:
        """The line of the answer, from 1, that a place in the text stands on."""
        origin = self._origins[min(place, len(self._origins) - 1)]
        return bisect_right(self._line_starts, origin) + 1


def _collapsed(text: str) -> tuple[str, list[int]]:
    """The text with each run of white space as one space, and where each character of it came from."""
    parts: list[str] = []
    origins: list[int] = []
    for match in re.finditer(r"\s+|\S+", text):
        white = match[0].isspace()
        parts.append(" " if white else match[0])
        origins += [match.start()] if white else range(match.start(), match.end())
    return "".join(parts), origins


def _is_parameter(text: str, match: re.Match[str]) -> bool:
    """Whether the bracket belongs to the word before it, as in ``list[str]``; a number (``so[12]``) is a claim."""
    if match["square"] is None or match.start() == 0 or not _is_word(text[match.start() - 1]):
        return False
    return _PARAMETERS.fullmatch(match["square"]) is not None


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
