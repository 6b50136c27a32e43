"""Nothing is left behind by what ended: no task, no descriptor, no session, and no memory that grows (P19)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config import Config
from broker.wire.events import LaneEnded
from tests.faults.connections import connections
from tests.faults.processes import broker_process
from tests.rpc.peers import Peer, frames
from tests.soaking import Soak

SETTINGS = """
log.level = "error"
# What a store keeps is no leak.
store.kind = "none"
conduct.breaker_failures = 0
limits.tenant_requests = 256
limits.tenant_calls_per_second = 100_000
"""
WAYS = ("detach", "die", "cancelled", "late")
"""How a round ends: in order, by a provider's death, by the caller's leaving, by the deadline."""

OF_TIMERS = frozenset({"TimerHandle", "Context", "hamt", "hamt_bitmap_node", "hamt_array_node", "hamt_collision_node"})
"""What a cancelled timer is made of, and the context that it holds: asyncio lets go of up to a hundred when it likes.
Whatever else such a context holds is counted."""


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0"}, conduct={"breaker_failures": 0}, store={"kind": "none"})


async def cycle(connect: Callable[[], Peer], sessions: int) -> None:
    """Attaches, composes and detaches so many providers, a quarter of them in each of :data:`WAYS`."""

    async def one(number: int) -> None:
        name, way = f"p{number}", WAYS[number % len(WAYS)]
        peer = connect()
        attached = await peer.attach(name)
        asking = await peer.composing(providers=(name,), collect_timeout=0.05 if way == "late" else 20.0)
        if way == "late":
            await asking.rest()
            attached.call.cancel()
            return
        ask = await attached.hear_ask()
        await attached.frames(ask.query_id, frames(*((f"f{i}", 0.5) for i in range(20))))
        if way == "detach":
            await attached.say(LaneEnded(ask.query_id))
        elif way == "die":
            # Once the broker has them in hand.
            await asking.until(name, "COLLECTING")
            attached.call.cancel()
        elif way == "cancelled":
            asking.call.cancel()
        if way != "cancelled":
            await asking.rest()
        attached.call.cancel()

    await asyncio.gather(*(one(number) for number in range(sessions)))
    while sum(len(provider.instances) for provider in (await connect().providers()).values()):
        pass


def alive() -> dict[str, int]:
    """What this process holds: tasks, descriptors, objects."""
    gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "objects": sum(type(each).__name__ not in OF_TIMERS for each in gc.get_objects()),
    }


async def settled(want: dict[str, int]) -> dict[str, int]:
    """What is alive once tasks and descriptors are back at what is wanted, or after ten seconds."""
    for _ in range(100):
        found = alive()
        if all(found[key] <= want[key] + 2 for key in ("tasks", "descriptors")):
            break
        await asyncio.sleep(0.1)
    return found


async def test_after_any_ending_tasks_and_descriptors_are_back(peer: Peer) -> None:
    # What the first of everything makes for good does not count.
    await cycle(lambda: peer, 20)
    await cycle(lambda: peer, 20)
    before = alive()
    for _ in range(10):
        await cycle(lambda: peer, 20)
    after = await settled(before)
    assert after["tasks"] <= before["tasks"] + 2
    assert after["descriptors"] <= before["descriptors"] + 2
    # 200 sessions and requests went by: even one object for each would show.
    assert after["objects"] < before["objects"] + 200


@pytest.mark.soak
async def test_two_hundred_cycles(tmp_path: Path, soak: Soak) -> None:
    size, cycles, warm = 100, max(21, soak.count(200)), 20
    resident, descriptors = [], []
    async with broker_process(tmp_path, settings=SETTINGS) as broker:
        started = time.monotonic()
        for number in range(cycles):
            if number == warm:
                started = time.monotonic()
            async with connections(broker.address, 4) as connect:
                await cycle(connect, size)
            await asyncio.sleep(0.05)
            resident.append(broker.resident / 2**20)
            descriptors.append(broker.descriptors)
        hours = (time.monotonic() - started) / 3600
    grown = resident[-1] - resident[warm]
    soak.record(
        "P19",
        cycles=cycles,
        attached_and_composed_each=size,
        resident_mb_at_20=round(resident[warm], 1),
        resident_mb_at_end=round(resident[-1], 1),
        grown_kb_a_cycle=round(grown * 1024 / (cycles - warm), 2),
        grown_mb_an_hour_at_this_load=round(grown / hours, 1),
        descriptors_at_20=descriptors[warm],
        descriptors_at_end=descriptors[-1],
    )
    assert descriptors[-1] <= descriptors[warm] + 2
