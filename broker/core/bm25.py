"""BM25 over the candidates of one request: how well each text answers a question, by its words alone.

The collection is the request's own candidates. Word statistics of other requests would judge rare words better, but
then one caller's evidence would move another caller's order, and one request would not give the same answer twice.

Sources: S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with its usual
k1 = 1.2 and b = 0.75; the inverse document frequency that is never negative is Lucene's. J. Rocchio, "Relevance
Feedback in Information Retrieval" (1971), for asking again with the words of the first answers. Each weighs what BM25
gives it, not its share of the text, under which a text of two words would be heard above all longer ones.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

K1 = 1.2
"""How soon further occurrences of a word stop counting."""
B = 0.75
"""How far a text's length is held against it: 0 not at all, 1 in full."""
EXPANSION_TERMS = 25
"""Words that an expanded question takes from texts."""
QUESTION_SHARE = 0.3
"""Weight of the question itself in an expanded question, of 1 in all."""

_IDF_DECIMALS = 9
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSPACED = (
    (0x3040, 0x309F),  # Hiragana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def terms(text: str) -> list[str]:
    """The words of a text in order, repeats included.

    A word is a run of letters, digits and the marks on them, without regard to case or compatibility forms. Identifiers
    fall apart (``LaneIntake`` and ``lane_intake`` both read *lane*, *intake*); Han and Hiragana characters, which are
    written without spaces, are words of their own. No stemming and no stop words: those belong to a language, and a
    word that most candidates hold weighs little anyway.
    """
    spaced = _CASE_CHANGE.sub(" ", text)
    return unicodedata.normalize("NFKC", spaced).casefold().translate(_Letters()).split()


class Collection:
    """Texts and their word statistics.

    Args:
        texts: The texts; time and space are linear in their total length.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = [Counter(terms(text)) for text in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean_length = sum(self._lengths) / len(self._lengths) if any(self._lengths) else 1.0
        holders = Counter(term for counts in self._counts for term in counts)
        self._idf = {term: self._idf_of(held) for term, held in holders.items()}

    def scores(self, question: Mapping[str, float]) -> list[float]:
        """Each text's BM25 score: at least 0, and 0 for a text that holds none of the question's words.

        Args:
            question: Words and their weights, at least 0.
        """
        return [self._score(question, index) for index in range(len(self._counts))]

    def expanded(self, question: Mapping[str, float], first: Iterable[int]) -> dict[str, float]:
        """The question with the words that tell texts taken for good ones from the others.

        A word weighs what it weighs in those texts together; the heaviest :data:`EXPANSION_TERMS` are taken, equal ones
        by their letters.

        Args:
            question: Words and their weights, at least 0.
            first: Indices of the texts taken for good ones.

        Returns:
            Words and their weights: the question's own sum to :data:`QUESTION_SHARE` and the texts' to the rest of 1,
            but for a part that has no words.
        """
        found = defaultdict(list)
        for index in first:
            for term, weight in self._weights(self._counts[index], index):
                found[term].append(weight)
        weights = {term: math.fsum(parts) for term, parts in found.items()}
        heaviest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:EXPANSION_TERMS]
        both: defaultdict[str, float] = defaultdict(float)
        for part, share in ((heaviest, 1 - QUESTION_SHARE), (question.items(), QUESTION_SHARE)):
            total = math.fsum(weight for _, weight in part)
            for term, weight in part:
                both[term] += share * weight / total
        return dict(both)

    def _score(self, question: Mapping[str, float], index: int) -> float:
        counts = self._counts[index]
        # The shorter of the two is walked, so that a long question does not cost its length once for every text.
        shorter, longer = (question, counts) if len(question) < len(counts) else (counts, question)
        shared = [term for term in shorter if term in longer]
        # The sum is exact before it is rounded once, and so does not depend on the order of its parts.
        return math.fsum(question[term] * weight for term, weight in self._weights(shared, index))

    def _weights(self, held: Iterable[str], index: int) -> Iterator[tuple[str, float]]:
        """What each of these words, which the text holds, weighs in it."""
        counts = self._counts[index]
        saturation = K1 * (1 - B + B * self._lengths[index] / self._mean_length)
        for term in held:
            yield term, self._idf[term] * counts[term] * (K1 + 1) / (counts[term] + saturation)

    def _idf_of(self, held: int) -> float:
        # Logarithms differ in their last bit from platform to platform; all else here is exactly rounded everywhere.
        return round(math.log(1 + (len(self._counts) - held + 0.5) / (held + 0.5)), _IDF_DECIMALS)


class _Letters(dict[int, str]):
    """What each character becomes so that words stand between spaces. Made anew for each text: it stays small."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character)[0] not in "LMN":
            become = " "
        elif any(first <= code <= last for first, last in _UNSPACED):
            become = f" {character} "
        else:
            become = character
        self[code] = become
        return become
