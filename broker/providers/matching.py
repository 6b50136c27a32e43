"""How well a definition's name and docstring match a question, as a number from 0 to 1.

Let Q be the question's terms, N those of the definition's name, D those of its docstring, of the names that enclose it
and of its file's name. A term weighs w(t) = ln(1 + n / (1 + df(t))), n being the number of definitions and df(t) that
of those with t in N or D, so that rare terms count for more; w(S) is the sum over a set. Then

    score = 0.7 · w(Q ∩ N) / √(w(Q) · w(N))  +  0.3 · w(Q ∩ (N ∪ D)) / w(Q)

The first part is the cosine of two weighted sets: a name asked for wholly, by a question about little else, gives 1.
The second is the share of the question that the definition speaks of. A definition whose identifier the question
spells out (``LocalScore``, ``lane_key``, ``LaneIntake.take``, ``open()``, or anything in backticks) scores 1. One that
shares no term of its name counts as a match only with two terms of the question, or the only one, in D.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from broker.providers.words import query_terms

NAME_PART = 0.7
"""The part of the score that the name gives; the rest is the docstring's and the surroundings'."""

_IDENTIFIER = re.compile(r"(`?)([^\W\d]\w*(?:\.[^\W\d]\w*)*)(\(|`)?")
_CODE_LIKE = re.compile(r"\w[_.]+\w|[^\W\d_A-Z][A-Z]|\A_+\w")


@dataclass(frozen=True, slots=True)
class Named:
    """What a definition can be found by.

    Attributes:
        path: Dotted path of its file, what encloses it, and its name.
        name: Terms of its name.
        about: Terms of its docstring, enclosing names and file name, those of its name left out.
    """

    path: str
    name: frozenset[str]
    about: frozenset[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks for: its terms, and the identifiers that it spells out."""

    terms: frozenset[str]
    identifiers: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Asked:
        """Reads a question. Never fails, whatever the text holds."""
        typed = [
            identifier
            for tick, identifier, after in _IDENTIFIER.findall(text)
            if after == "(" or (tick and after == "`") or _CODE_LIKE.search(identifier)
        ]
        return cls(frozenset(query_terms(text)), tuple(dict.fromkeys(typed)))


class NameMatch:
    """The scores of definitions, which depend on how common a term is among all of them."""

    def __init__(self) -> None:
        self._total = 0
        self._holding: Counter[str] = Counter()

    def add(self, definitions: Iterable[Named]) -> None:
        """Counts definitions in."""
        for definition in definitions:
            self._total += 1
            self._holding.update(definition.name | definition.about)

    def remove(self, definitions: Iterable[Named]) -> None:
        """Counts definitions out that were counted in."""
        for definition in definitions:
            self._total -= 1
            self._holding.subtract(definition.name | definition.about)

    def score(self, asked: Asked, definition: Named) -> float:
        """The match of one definition, 0 to 1; 0 is no match."""
        if any(f".{definition.path}".endswith(f".{identifier}") for identifier in asked.identifiers):
            return 1.0
        in_name = asked.terms & definition.name
        in_all = in_name | (asked.terms & definition.about)
        if not in_name and len(in_all) < min(2, len(asked.terms)):
            return 0.0
        if not in_all:
            return 0.0
        of_question = self._weight(asked.terms)
        cosine = self._weight(in_name) / math.sqrt(of_question * self._weight(definition.name)) if in_name else 0.0
        return min(1.0, NAME_PART * cosine + (1 - NAME_PART) * self._weight(in_all) / of_question)

    def _weight(self, terms: Iterable[str]) -> float:
        # Sorted, so that the sum does not change with the order in which a set is walked.
        return sum(math.log1p(self._total / (1 + self._holding[term])) for term in sorted(terms))
