"""Citations held against a composition: what a model's answer cites, what exists, and what was invented.

The prompt tells a model to cite a block by its label and, where labels are equal, as ``label (provider/id)``. Three
texts therefore name a placed frame: its citation label, ``label (provider/id)`` of any frame, and ``provider/id``
alone; each as it stands in the prompt, or with its escapes turned back. A label that several placed frames share names
none of them and is reported as ambiguous, not as invented. A label with the name of another frame behind it, or of
none, is invented: it cites neither.

Case is exact, for labels that differ in it are two labels; what an invented text comes near to is said beside it. That
a label is cited says nothing of whether its frame bears the sentence out.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from broker.core.answers import Answer, Claim, Found, one_spaced
from broker.core.composition import Citation, Composition
from broker.core.frames import Frame, FrameRef
from broker.core.render.escaping import escape_header, unescape
from broker.core.render.markdown import in_heading
from broker.core.request import RenderMode

_NAMED = re.compile(r"\((?P<provider>[a-z0-9][a-z0-9._-]{0,62})/(?P<id>[^()\s][^()]*)\)")
MOST_COMPARED = 100
"""Invented texts for which a similar label is looked for: each takes a comparison with every label."""

_SIMILAR = 0.75
_LOOKED_AT = 200
"""Characters of an invented text that are compared."""

_TYPOGRAPHY = str.maketrans(
    {**dict.fromkeys("‘’‚‛′`´", "'"), **dict.fromkeys("“”„‟″«»", '"'), **dict.fromkeys("‐‑‒–—―−", "-"), "…": "..."}
)


class Near(Enum):
    """How an invented text comes near to something that exists."""

    CASE = "CASE"
    """A label but for upper and lower case."""
    TYPOGRAPHY = "TYPOGRAPHY"
    """A label but for its quotes, dashes, or forms of one letter."""
    LEFT_OUT = "LEFT_OUT"
    """The name of a frame that was offered and left out: the model never saw it."""
    SIMILAR = "SIMILAR"
    """Like a label; looked for among the first :data:`MOST_COMPARED` invented texts."""


class Cited(Struct, frozen=True, gc=False):
    """A placed frame that the answer cites.

    Attributes:
        citation: The frame's label, name and position.
        times: Occurrences.
        bare: Of these, how many stand in a sentence without brackets, quotes or other marks.
        lines: Lines of the answer, from 1, each once.
    """

    citation: Citation
    times: int
    bare: int
    lines: tuple[int, ...]


class Ambiguous(Struct, frozen=True, gc=False):
    """A label that several placed frames share, cited without saying which of them.

    Attributes:
        label: The label.
        citations: Whose it could be.
        times: Occurrences.
        lines: Lines of the answer, from 1, each once.
    """

    label: str
    citations: tuple[Citation, ...]
    times: int
    lines: tuple[int, ...]


class Invented(Struct, frozen=True, gc=False):
    """A citation of nothing in the composition.

    Attributes:
        text: As the answer has it.
        times: Occurrences.
        lines: Lines of the answer, from 1, each once.
        near: How it comes near to something that exists; None: it does not.
        nearest: What it comes near to: a label, or ``provider/id`` of a frame left out.
        detail: Why that frame was left out.
    """

    text: str
    times: int
    lines: tuple[int, ...]
    near: Near | None = None
    nearest: str = ""
    detail: str = ""


class _Misnamed(Claim, frozen=True, gc=False):
    """A label and a name behind it that is not its frame's.

    Attributes:
        name_at: Place of the name.
    """

    name_at: int


class CitationReport(Struct, frozen=True, gc=False):
    """What an answer cites.

    Attributes:
        cited: Placed frames that are cited, in prompt order.
        ambiguous: Labels that name several placed frames, in the answer's order.
        invented: Citations of nothing, in the answer's order.
        uncited: Placed frames that no citation could mean, in prompt order.
    """

    cited: tuple[Cited, ...]
    ambiguous: tuple[Ambiguous, ...]
    invented: tuple[Invented, ...]
    uncited: tuple[Citation, ...]


def verify_citations(answer: str, composition: Composition) -> CitationReport:
    """Finds the labels that an answer cites, and says which exist.

    Args:
        answer: A model's text.
        composition: What the model was given.
    """
    names = _names(composition)
    texts = list(names)
    read = Answer(answer)
    occurrences, claims = read.read(texts)
    providers = {lane.provider for lane in composition.summary.lanes}
    found, misnamed = _rightly_named(read, occurrences, providers)
    of_text: dict[str, list[Found]] = defaultdict(list)
    of_citation: dict[Citation, list[Found]] = defaultdict(list)
    for one in found:
        meant = names[texts[one.index]]
        if len(meant) == 1:
            of_citation[meant[0]].append(one)
        else:
            of_text[texts[one.index]].append(one)
    ambiguous = tuple(
        Ambiguous(text, tuple(names[text]), len(places), _lines(place.line for place in places))
        for text, places in of_text.items()
    )
    maybe = {citation for one in ambiguous for citation in one.citations}
    return CitationReport(
        cited=tuple(
            Cited(citation, len(places), sum(not place.marked for place in places), _lines(p.line for p in places))
            for citation in composition.citations
            if (places := of_citation.get(citation))
        ),
        ambiguous=ambiguous,
        invented=_invented([*claims, *misnamed, *_false_names(read, providers, names, misnamed)], composition),
        uncited=tuple(c for c in composition.citations if c not in of_citation and c not in maybe),
    )


def _names(composition: Composition) -> dict[str, list[Citation]]:
    """What each text that could be cited stands for; the surest text of a frame never stands for another."""
    own: dict[str, list[Citation]] = defaultdict(list)
    for citation in composition.citations:
        own[one_spaced(citation.label)].append(citation)
    others: dict[str, list[Citation]] = defaultdict(list)
    # A model reads Markdown as it is written, and may cite a label with the backslashes that it stands behind.
    written = in_heading if composition.summary.render.mode == RenderMode.MARKDOWN.value else str
    label_of = {placed.position: _shown_label(placed.frame) for placed in composition.placed}
    for citation in composition.citations:
        label = one_spaced(label_of.get(citation.position, citation.label))
        name = _name(citation.frame)
        shown = (one_spaced(citation.label), f"{label} ({name})", name, label)
        for text in dict.fromkeys((*shown, *map(written, shown), *(one_spaced(unescape(text)) for text in shown))):
            if text not in own:
                others[text].append(citation)
    return {text: list(dict.fromkeys(meant)) for text, meant in {**own, **others}.items() if text}


def _shown_label(frame: Frame) -> str:
    return escape_header(frame.citation_label if frame.citation_label.strip() else frame.title).text


def _name(ref: FrameRef) -> str:
    return one_spaced(f"{ref.provider}/{escape_header(ref.frame_id).text}")


def _rightly_named(
    answer: Answer, occurrences: Sequence[Found], providers: Collection[str]
) -> tuple[list[Found], list[_Misnamed]]:
    """Occurrences but for those with another frame's name behind them, and these with it: one of its own is in it."""
    found: list[Found] = []
    misnamed: list[_Misnamed] = []
    end = 0
    for one in occurrences:
        if one.start < end:
            continue
        name = _NAMED.match(answer.text, one.end + 1) if answer.text[one.end : one.end + 1] == " " else None
        if name is None or name["provider"] not in providers:
            found.append(one)
        else:
            end = name.end()
            misnamed.append(_Misnamed(answer.text[one.start : end], one.line, name.start()))
    return found, misnamed


def _false_names(
    answer: Answer, providers: Collection[str], names: Mapping[str, object], misnamed: Sequence[_Misnamed]
) -> list[Claim]:
    """``(provider/id)`` of a provider that is there and a frame that is not; inside brackets it is a claim already."""
    claimed = {one.name_at for one in misnamed}
    claims = []
    for match in _NAMED.finditer(answer.text):
        text = one_spaced(f"{match['provider']}/{match['id']}")
        told = match.start() in claimed or answer.in_brackets(*match.span())
        if match["provider"] in providers and text not in names and not told:
            claims.append(Claim(text, answer.line(match.start())))
    return claims


def _invented(claims: Sequence[Claim], composition: Composition) -> tuple[Invented, ...]:
    lines: dict[str, list[int]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.line):
        lines[claim.text].append(claim.line)
    nearest = _Nearest(composition)
    return tuple(Invented(text, len(at), _lines(at), *nearest(text)) for text, at in lines.items())


class _Nearest:
    """Says what an invented text comes near to."""

    def __init__(self, composition: Composition) -> None:
        own = [_shown_label(placed.frame) for placed in composition.placed]
        self._labels = list(dict.fromkeys([*(citation.label for citation in composition.citations), *own]))
        self._compared = 0
        placed = {citation.frame for citation in composition.citations}
        self._by_case = {one_spaced(label).casefold(): label for label in self._labels}
        self._by_form = {_plain(label): label for label in self._labels}
        self._left_out: dict[str, tuple[str, str]] = {}
        ids = Counter(row.frame_id for row in composition.audit)
        for row in composition.audit:
            ref = FrameRef(row.provider, row.frame_id)
            if not row.included and row.frame_id and ref not in placed:
                name = _name(ref)
                self._left_out.setdefault(name, (name, row.reason))
                if ids[row.frame_id] == 1:
                    self._left_out.setdefault(one_spaced(row.frame_id), (name, row.reason))

    def __call__(self, text: str) -> tuple[Near | None, str, str]:
        if label := self._by_case.get(text.casefold()):
            return Near.CASE, label, ""
        if label := self._by_form.get(_plain(text)):
            return Near.TYPOGRAPHY, label, ""
        if left_out := self._left_out.get(text):
            return Near.LEFT_OUT, *left_out
        self._compared += 1
        if self._compared > MOST_COMPARED:
            return None, "", ""
        close = difflib.get_close_matches(text[:_LOOKED_AT], self._labels, n=1, cutoff=_SIMILAR)
        return (Near.SIMILAR, close[0], "") if close else (None, "", "")


def _plain(text: str) -> str:
    return one_spaced(unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))).casefold()


def _lines(lines: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(lines)))
