"""A loop that is held up is late, and the worst of it is remembered for a while."""

from __future__ import annotations

import asyncio
import time

from broker.telemetry.lag import BEAT_SECONDS, WORST_SECONDS, LoopLag


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def beats(told: list[float], count: int) -> None:
    """Returns once so many more looks were told of."""
    wanted = len(told) + count
    async with asyncio.timeout(10):
        while len(told) < wanted:  # noqa: ASYNC110 - it is told of by no event
            await asyncio.sleep(0)


async def test_whoever_holds_the_loop_is_seen() -> None:
    told: list[float] = []
    watched = LoopLag(told.append)
    watched.start()
    await beats(told, 2)
    time.sleep(0.2)  # noqa: ASYNC251 - the loop is to be held
    await beats(told, 1)
    watched.stop()
    assert 0.2 - 2 * BEAT_SECONDS <= max(told) == watched.worst
    assert min(told) >= 0.0


async def test_nothing_is_looked_at_after_the_stop() -> None:
    told: list[float] = []
    watched = LoopLag(told.append)
    watched.start()
    await beats(told, 1)
    watched.stop()
    watched.stop()
    seen = len(told)
    await asyncio.sleep(3 * BEAT_SECONDS)
    assert len(told) == seen


async def test_the_worst_is_forgotten_after_its_time() -> None:
    clock = Clock()
    watched = LoopLag(lambda _: None, clock)
    watched.start()

    def look(late: float) -> float:
        watched.stop()
        clock.now += BEAT_SECONDS + late
        watched._look()
        return watched.worst

    assert look(3.0) == 3.0
    assert {look(0.5) for _ in range(int(WORST_SECONDS))} == {3.0}
    assert look(WORST_SECONDS) >= WORST_SECONDS
    assert [look(0.5) for _ in range(int(5 * WORST_SECONDS))][-1] == 0.5
    watched.stop()
