"""Promise: whoever gives a composition to be kept hears in bounded time whether it is known to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from broker.store.committing import BATCH, QUEUE, Committer
from broker.store.engine import StoreUnavailable
from broker.store.sqlite import SqliteEngine
from tests.store.values import kept

T = TypeVar("T")


class Gate:
    """A database in memory that does nothing while its gate is shut."""

    name = "gate"

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self._engine = SqliteEngine(None)

    async def run(self, work: Callable[[Connection], T], *, write: bool, patient: bool = False) -> T:
        await self.open.wait()
        return await self._engine.run(work, write=write, patient=patient)

    async def close(self) -> None:
        await self._engine.close()


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    made = Gate()
    yield made
    made.open.set()
    await made.close()


@pytest.fixture
async def commits() -> list[int]:
    """How many compositions each commit kept."""
    return []


@pytest.fixture
async def committer(gate: Gate, commits: list[int]) -> AsyncIterator[Committer]:
    made = Committer(gate, wait_seconds=10, committed=commits.append)
    await made.start()
    yield made
    await made.close(0)


async def test_those_that_come_while_one_is_committed_are_committed_together(
    gate: Gate, committer: Committer, commits: list[int]
) -> None:
    gate.open.clear()
    first = await _being_committed(committer)
    others = [asyncio.create_task(committer.record(kept(f"c{n}"))) for n in range(BATCH + 1)]
    await _until(lambda: committer.pending == BATCH + 1)
    gate.open.set()
    await asyncio.gather(first, *others)
    assert commits == [1, BATCH, 1]


@pytest.mark.parametrize("seconds", [0.05, 0.0, -1.0])
async def test_whoever_can_wait_no_longer_is_told_and_it_is_kept_all_the_same(
    gate: Gate, committer: Committer, commits: list[int], seconds: float
) -> None:
    gate.open.clear()
    with pytest.raises(StoreUnavailable, match=f"within {max(0, seconds):g} s"):
        await committer.record(kept("c1"), seconds)
    assert not committer.away
    gate.open.set()
    await committer.record(kept("c2"))
    assert sum(commits) == 2


async def test_more_than_may_wait_are_told_at_once(gate: Gate, committer: Committer) -> None:
    gate.open.clear()
    first = await _being_committed(committer)
    waiting = [asyncio.create_task(committer.record(kept(f"c{n}"))) for n in range(QUEUE)]
    await _until(lambda: committer.pending == QUEUE)
    with pytest.raises(StoreUnavailable, match="wait to be kept"):
        await committer.record(kept("one too many"))
    gate.open.set()
    await asyncio.gather(first, *waiting)


async def test_what_is_being_committed_when_it_is_closed_is_not_known_to_be_kept(
    gate: Gate, committer: Committer
) -> None:
    gate.open.clear()
    running = await _being_committed(committer)
    await committer.close(0)
    with pytest.raises(StoreUnavailable, match="it was closed"):
        await running


async def test_whoever_gave_up_holds_up_no_other(gate: Gate, committer: Committer) -> None:
    gate.open.clear()
    gone = asyncio.create_task(committer.record(kept("c1")))
    staying = asyncio.create_task(committer.record(kept("c2")))
    await _until(lambda: committer.pending == 2)
    gone.cancel()
    gate.open.set()
    await staying


async def _being_committed(committer: Committer) -> asyncio.Task[None]:
    """One that is no longer waiting for others."""
    running = asyncio.create_task(committer.record(kept("first")))
    await _until(lambda: committer.pending == 1)
    await _until(lambda: committer.pending == 0)
    return running


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0)
