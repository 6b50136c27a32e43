"""Words are read alike in every script, and a text scores by the words of the question that it holds."""

from __future__ import annotations

import math
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.bm25 import EXPANSION_TERMS, K1, QUESTION_SHARE, B, Collection, terms

WORDS = st.text(alphabet="abcde ", max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wing loads, at Mach 2.5!", ["wing", "loads", "at", "mach", "2", "5"]),
        ("LaneIntake lane_intake laneIntake2", ["lane", "intake", "lane", "intake", "lane", "intake2"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("ﬁle ｆｉｌｅ", ["file", "file"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी शब्द", ["हिन्दी", "शब्द"]),
        ("検索エンジン", ["検", "索", "エンジン"]),
        ("<b>&nbsp;</b>", ["b", "nbsp", "b"]),
        ("\u200b\u202e…—!", []),
        ("", []),
    ],
)
def test_words(text, expected):
    assert terms(text) == expected


@given(st.text())
def test_reading_never_fails_and_reads_its_own_words_back(text):
    words = terms(text)
    assert all(words)
    assert all(not word.isspace() for word in words)
    assert terms(" ".join(words)) == words or any(unstable(word) for word in words)


def unstable(word: str) -> bool:
    """Whether a word of some rare script folds further when it is folded again, as Unicode allows."""
    return terms(word) != [word]


@given(st.lists(WORDS, max_size=6), WORDS)
def test_scores_are_the_textbook_formula(texts, question):
    """An oracle that is written as the formula is, term by term over the question."""
    read = [terms(text) for text in texts]
    asked = Counter(terms(question))
    mean = sum(map(len, read)) / len(read) if any(read) else 1

    def oracle(words):
        total = 0.0
        for term, weight in asked.items():
            held = sum(term in other for other in read)
            idf = math.log(1 + (len(read) - held + 0.5) / (held + 0.5))
            tf = words.count(term)
            total += weight * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(words) / mean))
        return total

    assert Collection(texts).scores(asked) == pytest.approx([oracle(words) for words in read], abs=1e-7)


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_a_text_scores_exactly_where_it_holds_a_word_of_the_question(texts, question):
    asked = Counter(terms(question))
    scores = Collection(texts).scores(asked)
    assert [score > 0 for score in scores] == [bool(asked.keys() & set(terms(text))) for text in texts]


def test_a_word_that_few_texts_hold_weighs_more():
    first, second, third = Collection(["rare common", "common other", "common third"]).scores({"rare": 1, "common": 1})
    assert first > second == third


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS, st.data())
def test_an_expanded_question_keeps_the_question_and_shares_the_weight(texts, question, data):
    first = data.draw(st.lists(st.sampled_from(range(len(texts))), unique=True))
    asked = Counter(terms(question))
    expanded = Collection(texts).expanded(asked, first)
    theirs = {term for index in first for term in terms(texts[index])}
    assert asked.keys() <= expanded.keys() <= asked.keys() | theirs
    total = QUESTION_SHARE * bool(asked) + (1 - QUESTION_SHARE) * bool(theirs)
    assert math.fsum(expanded.values()) == pytest.approx(total)


def test_an_expanded_question_takes_the_heaviest_words_and_equal_ones_by_their_letters():
    words = [f"w{number:03}" for number in range(100)]
    expanded = Collection([" ".join(words), "other"]).expanded({}, [0])
    assert sorted(expanded) == words[:EXPANSION_TERMS]
    twice = Collection([" ".join([*words, words[-1]]), "other"]).expanded({}, [0])
    assert max(twice, key=twice.__getitem__) == words[-1]


def steps(texts: list[str], question: str) -> int:
    """Instructions that the module runs to read, expand and score. Counted, not timed."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.endswith("bm25.py"):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        collection = Collection(texts)
        collection.scores(collection.expanded(Counter(terms(question)), range(min(8, len(texts)))))
    finally:
        sys.settrace(before)
    return count


def test_work_grows_with_the_total_length_of_the_texts():
    """Twice the texts and a question twice as long take twice the steps; four times would be their product."""
    small = steps([f"a{n} b{n} shared" for n in range(100)], " ".join(f"q{n}" for n in range(100)))
    large = steps([f"a{n} b{n} shared" for n in range(200)], " ".join(f"q{n}" for n in range(200)))
    assert small < large < 2.2 * small
