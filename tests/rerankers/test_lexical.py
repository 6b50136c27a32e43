"""The lexical reranker is the core's own function, over the candidates' words and votes."""

from __future__ import annotations

from broker import __version__
from broker.core.lexical import LexicalCandidate, lexical_rerank
from broker.rerankers.lexical import LexicalReranker
from tests.rerankers.values import candidates


async def test_its_scores_are_the_cores():
    given = candidates("jam", "shock wave", "heat flow wave")
    expected = lexical_rerank("shock wave", [LexicalCandidate(one.title, one.content, one.votes) for one in given])
    answer = await LexicalReranker().score("shock wave", given, 1.0)
    assert answer.scores == tuple(expected)
    assert answer.version == __version__
    assert len(set(answer.scores)) == 3
