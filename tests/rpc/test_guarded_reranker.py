"""A reranker that keeps failing is left alone for a while and tried once; a caller in a hurry proves nothing."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from broker.core.rerank import Reranked
from broker.gather.circuit import CircuitRules
from broker.rerankers.reranker import RerankFailed
from broker.rpc.guarded_reranker import GuardedReranker
from tests.gather.support import FakeClock
from tests.rerankers.values import candidates

RULES = CircuitRules(failures=3, seconds=5.0, longest=60.0)
SECONDS = 1.0
(CANDIDATE,) = candidates("c")


class Scripted:
    """Raises or gives what stands in ``next``."""

    version = "7"

    def __init__(self) -> None:
        self.next: object = Reranked((1.0,), "")
        self.asked = 0
        self.closed = False

    async def score(self, question, candidates, seconds) -> Reranked:
        self.asked += 1
        if isinstance(self.next, BaseException):
            raise self.next
        return self.next

    async def close(self) -> None:
        self.closed = True


class Guarded:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.inner = Scripted()
        self.reranker = GuardedReranker("far", self.inner, RULES, SECONDS, self.clock.time)

    async def ask(self, outcome: object = None, *, seconds: float = SECONDS, takes: float = 0.0) -> str:
        """Asks once; the reason why there are no scores, or empty."""
        if outcome is not None:
            self.inner.next = outcome
        score = self.inner.score

        async def slow(*args) -> Reranked:
            self.clock.advance(takes)
            return await score(*args)

        self.inner.score = slow
        try:
            await self.reranker.score("why", [CANDIDATE], seconds)
        except (RerankFailed, TimeoutError, ValueError, asyncio.CancelledError) as error:
            return str(error) or type(error).__name__
        finally:
            self.inner.score = score
        return ""


FAILURES = [RerankFailed("it answered UNAVAILABLE"), ValueError("odd"), Reranked((1.0, 2.0), ""), Reranked(None, "")]


@pytest.mark.parametrize("outcome", FAILURES, ids=lambda outcome: type(outcome).__name__)
async def test_after_some_failures_it_is_not_asked_and_then_tried_once(outcome):
    guarded = Guarded()
    with capture_logs() as logs:
        for _ in range(3):
            await guarded.ask(outcome)
    assert [entry["reranker"] for entry in logs] == ["far"]
    assert "circuit open" in await guarded.ask()
    assert guarded.inner.asked == 3
    guarded.clock.advance(5)
    assert await guarded.ask(Reranked((1.0,), "")) == ""
    assert await guarded.ask() == ""
    assert guarded.inner.asked == 5


@pytest.mark.parametrize("late", [TimeoutError(), asyncio.CancelledError()])
@pytest.mark.parametrize(("seconds", "takes", "asked"), [(1.0, 1.0, 3), (0.2, 0.2, 9), (1.0, 0.1, 9)])
async def test_being_late_counts_where_it_had_its_own_time(late, seconds, takes, asked):
    guarded = Guarded()
    for _ in range(9):
        await guarded.ask(late, seconds=seconds, takes=takes)
    assert guarded.inner.asked == asked


async def test_it_is_the_reranker_in_all_else():
    guarded = Guarded()
    assert guarded.reranker.version == "7"
    assert await guarded.reranker.score("why", [CANDIDATE], SECONDS) == Reranked((1.0,), "")
    await guarded.reranker.close()
    assert guarded.inner.closed
