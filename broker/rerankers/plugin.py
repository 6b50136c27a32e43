"""A reranker that an operator installed: what one is, and how it runs without being able to do harm to a request.

Whatever it raises, and whatever it returns, ends in scores or in the order before. It is trusted code all the same: it
runs in the daemon's process and is in no sandbox. How plugins are found and allowed is :mod:`broker.plugins`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from broker.core.rerank import RerankCandidate, Reranked
from broker.rerankers.reranker import RerankFailed
from broker.rerankers.threads import Threads

LIMIT = 4
"""Requests that one plugin scores at once."""


class RerankerPlugin(Protocol):
    """A scorer of someone else's.

    Attributes:
        name: As requests and the operator's configuration name it; its entry point's name.
        version: Its own version, at most 64 characters; it stands in every audit.
        description: What it scores by.
    """

    name: str
    version: str
    description: str

    def scores(self, question: str, candidates: Sequence[RerankCandidate]) -> Iterable[float | None]:
        """Scores every candidate itself, so that its numbers share one scale.

        Called for several requests at once, each in a thread. The answer is a function of the arguments alone.

        Args:
            question: As the providers were asked.
            candidates: At least one, best first by the strategy; there is no score in them.

        Returns:
            A number for each candidate, in their order, higher is better; None, NaN or an infinity: it has none.
        """
        ...


class PluginReranker:
    """A plugin as a :class:`~broker.rerankers.reranker.Reranker`."""

    def __init__(self, plugin: RerankerPlugin) -> None:
        self._plugin = plugin
        self._threads = Threads(f"rerank-{plugin.name}", LIMIT)

    @property
    def version(self) -> str:
        """The plugin's own."""
        return self._plugin.version

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:  # noqa: ARG002
        """See :meth:`broker.rerankers.reranker.Reranker.score`."""
        given = tuple(candidates)
        # An answer without end would never be read to it.
        answer = await self._threads.run(lambda: list(islice(self._plugin.scores(question, given), len(given) + 1)))
        return Reranked(tuple(map(_number, answer)), self.version)

    async def close(self) -> None:
        """It holds nothing that can be let go of."""


def _number(score: object) -> float | None:
    """A number of any type, such as numpy's, as Python's own."""
    if score is None:
        return None
    if isinstance(score, str | bytes | bool):
        raise RerankFailed(f"it gave a {type(score).__name__} for a score")
    try:
        return float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise RerankFailed(f"it gave a {type(score).__name__} for a score") from None
