"""An outbox gives out what was put in, in order, says when it is full, and ends."""

from __future__ import annotations

import asyncio

from broker.gather.outbox import Outbox


async def test_items_come_out_in_order_then_the_end():
    box = Outbox[int](3)
    assert [box.put(number) for number in (1, 2, 3)] == [True, True, True]
    box.close()
    assert [await box.get() for _ in range(4)] == [1, 2, 3, None]


def test_a_full_one_takes_nothing_until_there_is_room():
    box = Outbox[int](1)
    assert box.put(1)
    assert not box.put(2)
    assert box.take() == 1
    assert box.put(3)
    assert [box.take(), box.take()] == [3, None]


async def test_a_reader_that_waits_is_woken_by_an_item_and_by_the_end():
    box = Outbox[int](1)
    reader = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.put(7)
    assert await asyncio.wait_for(reader, 5) == 7
    reader = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.close()
    assert await asyncio.wait_for(reader, 5) is None


async def test_a_cancelled_reader_loses_nothing():
    box = Outbox[int](1)
    reader = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    box.put(7)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    assert box.take() == 7


async def test_closing_discards_on_demand_and_what_comes_later_vanishes():
    box = Outbox[int](1)
    box.put(1)
    box.close(discard=True)
    assert box.put(2)
    assert await box.get() is None
