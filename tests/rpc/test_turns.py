"""Whoever can wait leaves a long turn of the loop to others, and has its own in time."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker.rpc.turns import LOOK_AT_ONCE, TURN_SECONDS, Turns


async def test_many_that_are_ready_together_do_not_hold_the_loop() -> None:
    turns = Turns()
    done, between = [], []

    async def work(number: int) -> None:
        if turns.over:
            await turns.another()
        time.sleep(TURN_SECONDS)  # noqa: ASYNC251 - work that takes its time
        done.append(number)

    def look() -> None:
        between.append(len(done))
        if len(done) < 10:
            loop.call_soon(look)

    loop = asyncio.get_running_loop()
    loop.call_soon(look)
    await asyncio.gather(*(work(number) for number in range(10)))
    assert done == list(range(10))
    assert all(after - before <= 2 for before, after in pairwise(between))


async def test_a_turn_that_is_short_makes_no_one_wait() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    assert not turns.over
    now = TURN_SECONDS
    assert not turns.over
    now = 2 * TURN_SECONDS
    assert turns.over
    await asyncio.sleep(0)
    assert not turns.over


@given(st.lists(st.sampled_from([0.0, 0.3, 1.1, 2.5]), max_size=60))
def test_those_who_wait_have_their_turns_in_order_however_long_each_takes(parts: list[float]) -> None:
    """And few of them look at a turn that has no room for them."""
    now, looked = 0.0, 0

    class Counted(Turns):
        @property
        def over(self) -> bool:
            nonlocal looked
            looked += 1
            return super().over

    async def run() -> list[int]:
        turns, done = Counted(lambda: now), []

        async def work(number: int, part: float) -> None:
            nonlocal now
            if turns.over:
                await turns.another()
            now += part * TURN_SECONDS
            done.append(number)

        await asyncio.gather(*(work(number, part) for number, part in enumerate(parts)))
        return done

    assert asyncio.run(run()) == list(range(len(parts)))
    assert looked <= len(parts) * (LOOK_AT_ONCE + 2)


async def test_who_is_cancelled_while_it_waits_keeps_no_one_behind_it_from_a_turn() -> None:
    now, turns = 0.0, Turns(lambda: now)
    assert not turns.over
    now = 2 * TURN_SECONDS
    waiting = [asyncio.create_task(turns.another()) for _ in range(LOOK_AT_ONCE + 4)]
    await asyncio.sleep(0)
    for each in waiting[:-1]:
        each.cancel()
    async with asyncio.timeout(20):
        await waiting[-1]


async def test_who_waits_has_a_turn_however_often_another_fills_it_first() -> None:
    now, waited = 0.0, 0
    turns = Turns(lambda: now)

    def fill() -> None:
        nonlocal now, waited
        waited += 1
        _ = turns.over
        now += 2 * TURN_SECONDS
        if not waiting.done() and waited < 100:
            loop.call_soon(fill)

    loop = asyncio.get_running_loop()
    assert not turns.over
    now = 2 * TURN_SECONDS
    waiting = asyncio.create_task(turns.another())
    loop.call_soon(fill)
    await waiting
    assert waited < 5
