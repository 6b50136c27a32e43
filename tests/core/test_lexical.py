"""The lexical reranker adds one voice to the lanes': the same for the same candidates, and never louder than a lane."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from broker.core.bm25 import terms
from broker.core.lexical import FEEDBACK, FEEDBACK_PART, K, LexicalCandidate, Vote, lexical_rerank

TEXTS = st.text(alphabet="abcde ABC_é検\n", max_size=40)
VOTES = st.lists(st.builds(Vote, st.integers(1, 30), st.sampled_from([0.25, 0.5, 1.0])), max_size=4).map(tuple)
CANDIDATES = st.lists(st.builds(LexicalCandidate, TEXTS, TEXTS, VOTES), max_size=12)
ANYTHING = st.lists(st.builds(LexicalCandidate, st.text(), st.text(), VOTES), max_size=6)


def candidate(content: str, *places: int, title: str = "") -> LexicalCandidate:
    return LexicalCandidate(title, content, tuple(Vote(place) for place in places))


@given(st.text(), ANYTHING)
def test_every_candidate_has_one_finite_score_whatever_the_texts(question, candidates):
    scores = lexical_rerank(question, candidates)
    assert len(scores) == len(candidates)
    for score, one in zip(scores, candidates, strict=True):
        assert math.isfinite(score)
        assert 0 < score <= 1 + math.fsum(vote.weight for vote in one.votes) + 1e-9


@given(TEXTS, CANDIDATES, st.randoms(use_true_random=False))
def test_scores_follow_their_candidates_bit_for_bit(question, candidates, random):
    """Equivariance; with every permutation the identity too, so that the same call gives the same bits twice."""
    order = list(range(len(candidates)))
    random.shuffle(order)
    scores = lexical_rerank(question, candidates)
    assert lexical_rerank(question, [candidates[index] for index in order]) == [scores[index] for index in order]


@given(TEXTS, CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_of_votes_says_nothing(question, candidates, random):
    shuffled = [
        LexicalCandidate(one.title, one.content, tuple(random.sample(one.votes, len(one.votes)))) for one in candidates
    ]
    assert lexical_rerank(question, shuffled) == lexical_rerank(question, candidates)


@given(st.lists(st.sampled_from(["wing", "load", "shock", "heat"]), min_size=1, unique=True), st.integers(1, 30), TEXTS)
def test_all_of_the_question_beats_none_of_it_at_equal_places(words, place, filler):
    question = " ".join(words)
    holds, lacks = lexical_rerank(question, [candidate(f"{filler} {question}", place), candidate(filler, place)])
    assert holds > lacks


@given(CANDIDATES)
def test_texts_that_tell_nothing_leave_the_order_to_the_lanes(candidates):
    """The same text everywhere: scores differ as the lanes' votes do; each has the voice of the middle place."""
    middle = (len(candidates) + 1) / 2
    alike = [LexicalCandidate("same", "same words", one.votes) for one in candidates]
    for question in ("", "same", "other"):
        for one, score in zip(alike, lexical_rerank(question, alike), strict=True):
            votes = math.fsum(vote.weight * (K + 1) / (K + vote.place) for vote in one.votes)
            assert math.isclose(score, votes + (K + 1) / (K + middle), rel_tol=1e-12)


def test_nothing_to_score():
    assert lexical_rerank("question", []) == []
    assert lexical_rerank("", [candidate("")]) == [1.0]


def test_an_empty_question_asks_with_the_words_of_the_first_candidates():
    first = [candidate(f"shock wave {n}", 1) for n in range(FEEDBACK)]
    others = [candidate(f"filler {n}", 20) for n in range(FEEDBACK * FEEDBACK_PART)]
    like, unlike = lexical_rerank("", [candidate("shock wave", 9), candidate("jam jar", 9), *first, *others])[:2]
    assert like > unlike


def test_of_candidates_that_lanes_hold_equal_the_question_names_the_first():
    """Every lane's only frame has place 1: what asks again is not all of them but those that answer."""
    answers = [candidate(f"heat laminar {n}", 1) for n in range(3)]
    others = [candidate(f"jam {n}", 1) for n in range(9)]
    like, unlike = lexical_rerank("heat", [candidate("laminar", 1), candidate("jam", 1), *answers, *others])[:2]
    assert like > unlike


def test_few_candidates_are_not_all_taken_for_good_ones():
    first, like, unlike, _ = lexical_rerank(
        "", [candidate("shock wave", 1), candidate("shock", 2), candidate("jam", 2), candidate("jar", 4)]
    )
    assert first > like > unlike


@given(TEXTS, CANDIDATES, TEXTS, VOTES)
def test_words_can_gain_no_more_than_one_lane_gives(question, candidates, content, votes):
    """However a text is stuffed, it gets less than a vote for place 1 on top of what its lanes gave it."""
    stuffed = LexicalCandidate("", content + f" {question}" * 50, votes)
    given = math.fsum(vote.weight * (K + 1) / (K + vote.place) for vote in votes)
    assert lexical_rerank(question, [*candidates, stuffed])[-1] <= given + 1 + 1e-9


def test_lanes_that_agree_outvote_the_words_and_a_lone_lane_does_not():
    others = [candidate(f"filler {n}", 20 + n) for n in range(20)]
    agreed, worded = lexical_rerank("heat", [candidate("cold", 1, 1, 1), candidate("heat heat", 1), *others])[:2]
    assert agreed > worded
    alone, worded = lexical_rerank("heat", [candidate("cold", 1), candidate("heat heat", 2), *others])[:2]
    assert worded > alone


def test_the_question_itself_counts_for_more_where_lanes_are_disjoint():
    """The first frames speak of other words than the question; what lanes share decides how much that counts."""

    def lead(lanes: int) -> float:
        first = [candidate("shock wave", *[1 + n] * lanes) for n in range(FEEDBACK)]
        others = [candidate(f"heat filler {n}", *[20 + n] * lanes) for n in range(40)]
        rivals = [candidate("heat", 12), candidate("shock wave", 12)]
        by_question, by_first = lexical_rerank("heat", [*rivals, *first, *others])[:2]
        return by_question - by_first

    assert lead(1) > 0 > lead(2)


def test_a_title_counts_once_whether_or_not_the_content_repeats_it():
    others = [candidate("filler words", 3), candidate("more filler", 4)]
    once = lexical_rerank("heat", [candidate("body", 5, title="heat"), *others])
    repeated = lexical_rerank("heat", [candidate("heat\nbody", 5, title="heat"), *others])
    assert once == repeated
    assert terms("heat\nbody") == ["heat", "body"]


def test_one_and_the_same_request_has_these_very_scores():
    """Pinned to the last bit: a platform or a change that moves one is found here."""
    candidates = [
        candidate("heat transfer in laminar flow", 1, 3, title="heat"),
        candidate("flutter of swept wings", 1),
        candidate("laminar boundary layers with heat", 2),
        candidate("jam", 2),
    ]
    assert [score.hex() for score in lexical_rerank("laminar heat flow", candidates)] == PINNED


PINNED = ["0x1.6c4ec4ec4ec4fp+1", "0x1.d097b425ed097p+0", "0x1.d555555555555p+0", "0x1.bb425ed097b42p+0"]
