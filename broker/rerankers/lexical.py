"""``lexical``: the reranker that every broker has, without a model; :mod:`broker.core.lexical` is what it does."""

from __future__ import annotations

from collections.abc import Sequence

from broker import __version__
from broker.core.lexical import LexicalCandidate, lexical_rerank
from broker.core.rerank import RerankCandidate, Reranked
from broker.rerankers.threads import Threads

NAME = "lexical"
"""Its name, which no other reranker may have."""

LIMIT = 4
"""Requests that it scores at once."""


class LexicalReranker:
    """See the module."""

    version = __version__

    def __init__(self) -> None:
        self._threads = Threads("rerank-lexical", LIMIT)

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:  # noqa: ARG002
        """See :meth:`broker.rerankers.reranker.Reranker.score`."""
        texts = [LexicalCandidate(one.title, one.content, one.votes) for one in candidates]
        scores = await self._threads.run(lambda: lexical_rerank(question, texts))
        return Reranked(tuple(scores), self.version)

    async def close(self) -> None:
        """It holds nothing."""
