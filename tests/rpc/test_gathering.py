"""A caller is told at once how its lanes fare, with as few messages as that takes."""

from __future__ import annotations

import asyncio
from typing import Any

from contextbroker.v1 import context_service_pb2 as pb

from broker.core.lanes import LaneEnd, LaneUpdate
from broker.rpc.gathering import TOLD_AT_ONCE, Telling
from broker.wire.updates import read_lane_updates


class Outlet:
    """A stream that hands messages on while there is room."""

    def __init__(self) -> None:
        self.told: list[list[LaneUpdate]] = []
        self.room = asyncio.Event()
        self.room.set()

    async def send(self, message: bytes) -> None:
        self.told.append(list(read_lane_updates(pb.ComposeResponse.FromString(message).lane_updates)))

    async def flush(self) -> None:
        await self.room.wait()


async def turns() -> None:
    """Returns when all that can happen has happened."""
    for _ in range(5):
        await asyncio.sleep(0)


def begun() -> tuple[Telling, Outlet, asyncio.Task[None]]:
    telling, outlet = Telling(), Outlet()
    stream: Any = outlet
    return telling, outlet, asyncio.create_task(telling.run(stream))


def frames(provider: str, count: int = 1) -> LaneUpdate:
    return LaneUpdate(provider, None, count)


def ended(provider: str, count: int = 1) -> LaneUpdate:
    return LaneUpdate(provider, LaneEnd.COMPLETE, count)


async def test_a_change_is_told_at_once_and_what_changes_with_it_in_the_same_message():
    telling, outlet, running = begun()
    await turns()
    telling.update(frames("a"))
    await turns()
    assert outlet.told == [[frames("a")]]
    for update in (frames("b"), ended("c"), ended("b", 2)):
        telling.update(update)
    await turns()
    assert outlet.told[1:] == [[ended("b", 2), ended("c")]]
    telling.end()
    await running


async def test_what_changes_while_a_message_is_written_is_told_together_and_of_a_lane_the_latest_alone():
    telling, outlet, running = begun()
    outlet.room.clear()
    telling.update(frames("a"))
    await turns()
    for update in (frames("b"), ended("a", 7)):
        telling.update(update)
        await turns()
    assert outlet.told == [[frames("a")]]
    telling.update(ended("b", 3))
    outlet.room.set()
    await turns()
    assert outlet.told[1:] == [[ended("b", 3), ended("a", 7)]]
    telling.end()
    await running


async def test_all_is_told_before_it_is_over():
    telling, outlet, running = begun()
    outlet.room.clear()
    telling.update(frames("a"))
    await turns()
    telling.update(ended("a"))
    telling.end()
    await turns()
    assert not running.done()
    outlet.room.set()
    await running
    assert outlet.told == [[frames("a")], [ended("a")]]


async def test_where_nothing_is_collected_nothing_is_told():
    telling, outlet, running = begun()
    telling.end()
    await running
    assert outlet.told == []


async def test_no_message_tells_of_more_lanes_than_fit():
    telling, outlet, running = begun()
    lanes = [f"p{number}" for number in range(TOLD_AT_ONCE * 2 + 1)]
    for name in lanes:
        telling.update(ended(name))
    telling.end()
    await running
    assert [len(message) for message in outlet.told] == [TOLD_AT_ONCE, TOLD_AT_ONCE, 1]
    assert [update.provider for message in outlet.told for update in message] == lanes
