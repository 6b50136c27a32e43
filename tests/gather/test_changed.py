"""Promise: whoever waits when a change is told wakes, nobody else does, and who gives up leaves nothing behind."""

from __future__ import annotations

import asyncio

from broker.gather.changed import Changed


async def begun(changed: Changed, seconds: float | None = None) -> asyncio.Task[bool]:
    """A task that waits by now."""
    task = asyncio.create_task(changed.wait(seconds))
    await asyncio.sleep(0)
    return task


async def test_all_who_wait_are_woken_and_those_who_come_later_wait() -> None:
    changed = Changed()
    changed.tell()
    one, two = await begun(changed), await begun(changed)
    assert not one.done()
    assert not two.done()
    changed.tell()
    later = await begun(changed)
    await asyncio.gather(one, two)
    assert not later.done()
    changed.tell()
    await later


async def test_who_gives_up_is_forgotten_and_holds_up_nobody() -> None:
    changed = Changed()
    gone, stays = await begun(changed), await begun(changed)
    gone.cancel()
    await asyncio.wait([gone])
    assert len(changed.waiting) == 1
    changed.tell()
    await stays


async def test_who_gives_up_while_being_told_takes_nothing_from_others() -> None:
    changed = Changed()
    gone, stays = await begun(changed), await begun(changed)
    changed.tell()
    gone.cancel()
    await asyncio.gather(stays, return_exceptions=True)
    again = await begun(changed)
    changed.tell()
    await again
    assert gone.cancelled()


async def test_who_waits_so_long_hears_whether_it_was_told_and_leaves_nothing_behind() -> None:
    changed = Changed()
    late, told, stays = await begun(changed, 0.001), await begun(changed, 60.0), await begun(changed)
    assert await late is False
    assert len(changed.waiting) == 2
    changed.tell()
    assert [await told, await stays] == [True, True]
    assert changed.waiting == ()


async def test_who_is_told_in_the_moment_that_its_time_ends_was_told() -> None:
    changed = Changed()
    late = await begun(changed, 0.0)
    changed.tell()
    assert await late is True


async def test_giving_up_before_the_time_is_over_stops_the_clock() -> None:
    changed = Changed()
    gone = await begun(changed, 0.01)
    gone.cancel()
    await asyncio.wait([gone])
    await asyncio.sleep(0.02)
    assert gone.cancelled()
    assert changed.waiting == ()
