"""What a reranker is to whoever asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.core.rerank import RerankCandidate, Reranked


class RerankFailed(Exception):
    """There are no scores; the message says why in words that an audit may hold, and no text of a frame's."""


class Reranker(Protocol):
    """One scorer, which scores every candidate itself, so that its numbers share one scale.

    Attributes:
        version: What it is; empty where only its answers say so.
    """

    @property
    def version(self) -> str:
        """What it is."""

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:
        """Scores every candidate. Cancelling it stops the work as soon as that can be.

        Args:
            question: As the providers were asked.
            candidates: At least one, best first by the strategy.
            seconds: How long the caller waits.

        Returns:
            With a score, or None, for each candidate, in their order.

        Raises:
            RerankFailed: There are none.
            TimeoutError: There are none in time.
        """

    async def close(self) -> None:
        """Lets go of what it holds."""
