"""Collecting returns all lanes in the order wanted by its deadline, and leaves nothing behind on any path."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.lanes import Lane, LaneEnd
from broker.core.scores import UNIT
from broker.errors import AlreadyExists
from broker.gather.collect import Collector
from broker.gather.fabric import Fabric, PushKey
from broker.gather.gathering import WantedLane
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry
from tests.gather.support import QUERY, FakeClock, Recorder, ScriptedInstance, frame, read
from tests.limits.support import holding

KEY = PushKey("", "r1", "p")


class World:
    """A fabric and a collector; instances set ``asked`` when a query reaches one."""

    def __init__(self, clock=None) -> None:
        self.clock = clock or FakeClock()
        self.pushes = Pushes(self.clock)
        self.fabric: Fabric = LocalFabric(self.clock, Registry(), self.pushes)
        self.conduct = Conduct(self.clock)
        self.collector = Collector(
            fabric=self.fabric,
            conduct=self.conduct,
            clock=self.clock,
            read=read,
            lane_bytes=2**20,
            hedges={},
        )
        self.asked = asyncio.Event()

    def attach(self, provider: str, instance: str = "1") -> ScriptedInstance:
        attached = ScriptedInstance(provider, instance, on_ask=lambda _: self.asked.set())
        self.fabric.offer(attached)
        return attached

    async def collect(self, *wanted: WantedLane, seconds: float = 2.0, **told: Any) -> list[Lane]:
        done = asyncio.Event()
        told = {"on_update": lambda _: None, "on_lie": lambda _: None} | told
        deadline = self.clock.time() + seconds
        collection = self.collector.collection(wanted, QUERY, deadline, held=holding(), on_done=done.set, **told)
        try:
            collection.start()
            await done.wait()
            return collection.lanes()
        finally:
            collection.close()

    def assert_clean(self) -> None:
        assert not self.fabric._answers
        assert self.pushes.waiting == 0
        assert all(record.trial is None for record in self.conduct._records.values())


async def test_lanes_come_in_the_order_wanted_whatever_the_order_of_their_ends():
    world = World()
    a, b = world.attach("a"), world.attach("b")
    task = asyncio.create_task(world.collect(WantedLane("b"), WantedLane("x"), WantedLane("a")))
    await world.asked.wait()
    for instance in (a, b):
        instance.asked[0].send(frame("f"))
        instance.asked[0].end()
    lanes = await asyncio.wait_for(task, 5)
    assert [(lane.provider, lane.end) for lane in lanes] == [
        ("b", LaneEnd.COMPLETE),
        ("x", LaneEnd.ABSENT),
        ("a", LaneEnd.COMPLETE),
    ]
    world.assert_clean()
    assert world.clock.pending == 0


async def test_each_lane_is_told_once_as_it_ends_and_after_its_update():
    world = World()
    a, b = world.attach("a"), world.attach("b")
    told: list[object] = []
    task = asyncio.create_task(
        world.collect(
            *(WantedLane("a"), WantedLane("x"), WantedLane("b")),
            on_update=lambda update: told.append((update.provider, update.end)) if update.end else None,
            on_lane=told.append,
        )
    )
    await world.asked.wait()
    for instance in (b, a):
        instance.asked[0].send(frame("f"))
        instance.asked[0].end()
    first, absent, second = await asyncio.wait_for(task, 5)
    assert told == [part for lane in (absent, second, first) for part in ((lane.provider, lane.end), lane)]


async def test_no_lanes_are_no_wait():
    assert await asyncio.wait_for(World().collect(), 5) == []


async def test_on_a_real_loop_the_deadline_ends_what_is_still_open():
    """C27: the slowest source does not set the latency."""
    world = World(asyncio.get_running_loop())
    a, b = world.attach("a"), world.attach("b")
    task = asyncio.create_task(world.collect(WantedLane("a"), WantedLane("b"), seconds=0.05))
    await world.asked.wait()
    a.asked[0].send(frame("f"))
    a.asked[0].end()
    lanes = await asyncio.wait_for(task, 5)
    assert [lane.end for lane in lanes] == [LaneEnd.COMPLETE, LaneEnd.TIMED_OUT]
    assert b.asked[0].cancelled == 1
    world.assert_clean()


async def test_cancelling_the_request_cancels_every_provider_at_once():
    """C24: a cancelled request is no partial result."""
    world = World()
    instances = [world.attach("a"), world.attach("b")]
    wanted = (WantedLane("a"), WantedLane("b"), WantedLane("p", KEY))
    task = asyncio.create_task(world.collect(*wanted))
    await world.asked.wait()
    instances[0].asked[0].send(frame("f"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [instance.asked[0].cancelled for instance in instances] == [1, 1]
    assert [instance.in_flight for instance in instances] == [0, 0]
    world.assert_clean()
    assert world.clock.pending == 0


async def test_cancelling_after_a_failover_cancels_the_second_instance():
    world = World()
    one, two = world.attach("a", "1"), world.attach("a", "2")
    task = asyncio.create_task(world.collect(WantedLane("a")))
    await world.asked.wait()
    first, second = (one, two) if one.asked else (two, one)
    first.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert second.asked[0].cancelled == 1
    world.assert_clean()


async def test_a_cancelled_trial_is_given_to_the_next_request():
    world = World()
    a = world.attach("a")
    task = asyncio.create_task(world.collect(WantedLane("a")))
    await world.asked.wait()
    a.asked[0].send(frame("bad", token_cost=9))
    assert [lane.end for lane in await asyncio.wait_for(task, 5)] == [LaneEnd.REFUSED]
    world.clock.advance(60)
    for number in (1, 2):
        world.asked.clear()
        task = asyncio.create_task(world.collect(WantedLane("a")))
        await asyncio.wait_for(world.asked.wait(), 5)
        assert len(a.asked) == number + 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    world.assert_clean()


async def test_a_push_that_another_request_waits_for_refuses_this_one_before_anyone_is_asked():
    world = World()
    a = world.attach("a")
    other = Recorder()
    world.fabric.expect(KEY, other)
    with pytest.raises(AlreadyExists):
        await world.collect(WantedLane("a"), WantedLane("p", KEY))
    assert a.asked == []
    assert world.pushes.waiting == 1
    assert world.clock.pending == 0


async def test_a_fault_while_lanes_are_opened_leaves_nothing_behind():
    world = World()
    a = world.attach("a")

    def broken(exchange):
        raise RuntimeError("a fault")

    world.fabric.offer(ScriptedInstance("b", on_ask=broken))
    with pytest.raises(RuntimeError):
        await world.collect(WantedLane("a"), WantedLane("b"))
    assert a.asked[0].cancelled == 1
    assert world.clock.pending == 0


async def test_requests_at_once_do_not_touch_each_other():
    world = World()
    a = world.attach("a")
    tasks = [asyncio.create_task(world.collect(WantedLane("a"))) for _ in range(3)]
    await world.asked.wait()
    assert len(a.asked) == 3
    tasks[0].cancel()
    for number in (2, 1):
        a.asked[number].send(frame(f"f{number}"))
        a.asked[number].end()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert [[c.frame.id for c in lanes[0].candidates] for lanes in results[1:]] == [["f1"], ["f2"]]
    assert results[1][0].scale == UNIT
    world.assert_clean()
