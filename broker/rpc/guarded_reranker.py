"""A reranker behind a circuit breaker, so that no request waits for one that keeps failing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from math import ceil

import structlog

from broker.core.rerank import RerankCandidate, Reranked
from broker.gather.circuit import Circuit, CircuitRules
from broker.rerankers.reranker import Reranker, RerankFailed

log = structlog.get_logger("broker.rpc")

_NEARLY = 0.9
"""The part of its time after which a reranker that is stopped was late, and not merely left by its caller."""


class GuardedReranker:
    """Another reranker, which is left alone for a while after several failures in a row.

    Failing is to raise, to give another number of scores, or to be late although it had the time that it may have; one
    that a hurried caller gave less proves nothing.

    Args:
        name: What the log calls it.
        reranker: The reranker.
        rules: When its circuit opens.
        seconds: What it may have for one request.
        now: Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        reranker: Reranker,
        rules: CircuitRules,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._reranker = reranker
        self._circuit = Circuit(now, rules)
        self._seconds = seconds
        self._now = now

    @property
    def version(self) -> str:
        """The reranker's own."""
        return self._reranker.version

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:
        """See :meth:`broker.rerankers.reranker.Reranker.score`."""
        circuit, started = self._circuit, self._now()
        entry = circuit.enter()
        if entry is None:
            wait = ceil(circuit.remaining()) or 1
            raise RerankFailed(f"circuit open: it failed {circuit.failures} times in a row; tried again in {wait} s")
        good: bool | None = False
        try:
            reranked = await self._reranker.score(question, candidates, seconds)
            good = reranked.scores is not None and len(reranked.scores) == len(candidates)
        except (TimeoutError, asyncio.CancelledError):
            late = seconds >= self._seconds and self._now() - started >= seconds * _NEARLY
            good = False if late else None
            raise
        finally:
            opened = circuit.leave(entry, good)
            if opened:
                log.warning(
                    "reranker keeps failing and is left alone",
                    reranker=self._name,
                    failures=circuit.failures,
                    seconds=opened,
                )
        return reranked

    async def close(self) -> None:
        """Lets go of what the reranker holds."""
        await self._reranker.close()
