"""Whatever an installed reranker gives or raises becomes scores or a failure, and never the daemon's fault."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from broker.core.rerank import Reranked
from broker.rerankers.plugin import PluginReranker
from broker.rerankers.reranker import RerankFailed
from tests.rerankers.values import candidates


class Scorer:
    name, version, description = "mine", "7", "by what the test says"

    def __init__(self, scores: Callable) -> None:
        self._scores = scores

    def scores(self, question, candidates):
        return self._scores(question, candidates)


async def answer(scores: Callable) -> Reranked:
    return await PluginReranker(Scorer(scores)).score("why", candidates("a", "bb", "ccc"), 1.0)


async def test_it_is_given_question_and_candidates_and_its_numbers_are_taken_in_order():
    answered = await answer(lambda question, given: [len(question), len(given), len(given[2].content)])
    assert answered == Reranked((3.0, 3.0, 3.0), "7")


async def test_numbers_of_any_type_are_taken_and_none_stays_none():
    np = pytest.importorskip("numpy", reason="numpy is not installed: install the dev extra")
    assert (await answer(lambda *_: (np.float32(0.5), Fraction(1, 4), None))).scores == (0.5, 0.25, None)
    assert (await answer(lambda *_: np.asarray([1, 2, 3]))).scores == (1.0, 2.0, 3.0)
    assert math.isnan((await answer(lambda *_: iter([math.nan, 1, 2]))).scores[0])


@pytest.mark.parametrize("score", ["1.0", b"1", True, object(), [1.0], 1j, 10**400])
async def test_what_is_no_number_is_a_failure(score: object):
    with pytest.raises(RerankFailed, match=f"it gave a {type(score).__name__} for a score"):
        await answer(lambda *_: [1.0, score, 2.0])


async def test_an_answer_without_end_is_not_read_to_it():
    assert len((await answer(lambda *_: itertools.repeat(1.0))).scores) == 4


async def test_a_failure_while_the_answer_is_read_is_one_too():
    def broken(*_):
        yield 1.0
        raise RuntimeError("secret")

    with pytest.raises(RerankFailed, match="it failed with RuntimeError") as caught:
        await answer(broken)
    assert "secret" not in str(caught.value)
