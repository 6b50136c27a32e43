"""Many idle providers are cheap (P16), and a deadline is kept whoever is asked (P20)."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections import Counter
from pathlib import Path

import grpc.aio
import pytest

from broker.wire import sessions
from broker.wire.events import Ask, LaneEnded
from tests.faults.idle import Crowd
from tests.faults.processes import broker_process, until
from tests.rpc.peers import Attached, Peer, frames, lanes
from tests.soaking import Soak

# Providers that are late on purpose are asked again each time.
QUIET = 'log.level = "error"\nconduct.breaker_failures = 0\n'


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all does not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def answering(attached: Attached, *, frames_each: int = 5, delay: float = 0.0) -> None:
    """Answers every question, after a delay, until the session is over."""
    writing = asyncio.Lock()

    async def answer(query: str) -> None:
        await asyncio.sleep(delay)
        async with writing:
            await attached.frames(query, frames(*((f"f{i}", 0.5) for i in range(frames_each))))
            await attached.say(LaneEnded(query))

    tasks = set()
    while (message := await attached.call.read()) is not grpc.aio.EOF:
        event = sessions.read_attach_response(message)
        if isinstance(event, Ask):
            task = asyncio.create_task(answer(event.query_id))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def compose_times(peer: Peer, provider: str, count: int) -> list[float]:
    """Seconds that so many requests to one provider took, one after the other."""
    took = []
    for _ in range(count):
        started = time.monotonic()
        answer = await peer.compose(providers=(provider,), collect_timeout=20.0)
        took.append(time.monotonic() - started)
        assert lanes(answer.composition()) == {provider: "COMPLETE"}
    return took


async def visit(address: str, idle: int) -> None:
    """Idle providers come, a busy one answers among them, and all leave."""
    crowd = Crowd(address)
    await crowd.attach([f"idle-{i}" for i in range(idle)])
    async with grpc.aio.insecure_channel(address) as channel:
        peer = Peer(channel)
        assert await instances(peer) == idle
        working = asyncio.create_task(answering(await peer.attach("busy")))
        await compose_times(peer, "busy", 5)
        await crowd.leave()
        while await instances(peer) > 1:
            pass
        working.cancel()
        await asyncio.wait({working})


async def instances(peer: Peer) -> int:
    return sum(len(provider.instances) for provider in (await peer.providers()).values())


async def test_idle_providers_attach_stay_and_leave_no_descriptor(tmp_path: Path) -> None:
    async with broker_process(tmp_path, settings=QUIET) as broker:
        # The first of everything opens what stays.
        await visit(broker.address, 10)
        before = broker.descriptors
        await visit(broker.address, 300)
        await until(lambda: broker.descriptors <= before)


@pytest.mark.soak
async def test_ten_thousand_idle_providers(tmp_path: Path, soak: Soak) -> None:
    wanted = min(soak.count(9_999), resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    async with broker_process(tmp_path, settings=QUIET) as broker, grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        working = asyncio.create_task(answering(await peer.attach("busy")))
        alone, empty = await compose_times(peer, "busy", 300), broker.resident
        started = time.monotonic()
        crowd = Crowd(broker.address)
        await crowd.attach([f"idle-{i}" for i in range(wanted)])
        attaching = time.monotonic() - started
        crowded = await compose_times(peer, "busy", 1000)
        # Past two rounds of the broker's own pings: an idle one must not be taken for a dead one.
        await asyncio.sleep(50)
        soak.record(
            "P16",
            attached=wanted,
            still_attached=crowd.welcomed,
            attaching_s=round(attaching, 1),
            resident_mb=broker.resident // 2**20,
            resident_alone_mb=empty // 2**20,
            p50_ms=round(percentile(crowded, 0.5) * 1000, 1),
            p99_ms=round(percentile(crowded, 0.99) * 1000, 1),
            p50_alone_ms=round(percentile(alone, 0.5) * 1000, 1),
            p99_alone_ms=round(percentile(alone, 0.99) * 1000, 1),
        )
        assert crowd.welcomed == wanted
        await crowd.leave()
        working.cancel()
        await asyncio.wait({working})


DEADLINES = (0.1, 0.2, 0.5, 1.0)
BUCKETS_MS = (5, 10, 15, 20, 25, 50, 75, 100, 200)
RATE = 25
"""Requests a second: what two processors carry beside the load generator."""


@pytest.mark.soak
async def test_deadlines_under_load(tmp_path: Path, soak: Soak) -> None:
    """Callers with deadlines of their own; among the providers one is late, one is slow and one says nothing."""
    chance, left, missed = random.Random(20), {}, Counter()
    async with broker_process(tmp_path, settings=QUIET) as broker, grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        kinds = {"quick": 0.0, "slow": 0.05, "late": 5.0}
        working = [
            asyncio.create_task(answering(await peer.attach(name, max_in_flight=1000), delay=delay))
            for name, delay in kinds.items()
        ]
        silent = await peer.attach("silent", max_in_flight=1000)
        working.append(asyncio.create_task(answering(silent, delay=3600.0)))

        async def ask(deadline: float) -> None:
            started = time.monotonic()
            answer = await peer.compose(deadline=deadline)
            spare = deadline - (time.monotonic() - started)
            if answer.error is None:
                left.setdefault(deadline, []).append(spare)
            else:
                missed[f"{answer.error.code} {answer.error.reason}"] += 1

        count = soak.count(120 * RATE)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(ask(chance.choice(DEADLINES)))
                await asyncio.sleep(chance.expovariate(RATE))
        for task in working:
            task.cancel()
        await asyncio.wait(working)
    every = [spare for each in left.values() for spare in each]
    in_time = sum(spare >= 0.02 for spare in every)
    bounds = (0, *BUCKETS_MS)
    soak.record(
        "P20",
        requests=count,
        per_second=RATE,
        kept_percent=round(100 * in_time / count, 2),
        answers_missed=dict(missed),
        spare_p001_ms={f"{d:g} s": round(percentile(spares, 0.001) * 1000, 1) for d, spares in left.items()},
        spare_p50_ms={f"{d:g} s": round(percentile(spares, 0.5) * 1000, 1) for d, spares in left.items()},
        spare_histogram_ms={
            f"{low} to {high}": sum(low <= spare * 1000 < high for spare in every)
            for low, high in zip(bounds, (*bounds[1:], 10_000), strict=True)
        },
    )
