"""``python -m tests.bench.crowded``: what a small request costs beside providers that are attached and quiet.

One JSON line for each number of them: processor time and latency of a request that asks three others, what the broker
takes while no one asks anything, how late its event loop was, and its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import tempfile
from dataclasses import replace
from pathlib import Path

import grpc.aio
from uvloop import new_event_loop

from tests.bench.asking import ask_for, quantile
from tests.bench.loads import LOADS, question
from tests.bench.rounds import CHANNEL
from tests.bench.servers import pin, processor_seconds, servers
from tests.bench.watching import lag_quantile, seen
from tests.faults.idle import Crowd

CROWDS = (0, 100, 1000, 5000)

_SPARE = 500
"""Descriptors that are for other things than the crowd's connections."""


async def crowded(folder: Path, crowd: int, *, seconds: float) -> dict[str, float]:
    """One crowd's line.

    Args:
        folder: Where the processes may write.
        crowd: How many are attached and quiet.
        seconds: How long requests are made, one after the other, and for how long none is.
    """
    load = replace(LOADS["small"], only=True)
    pin([os.getpid()], first=False)
    async with servers(load, folder) as processes:
        broker = processes["broker"]
        idle = Crowd(broker.address)
        await idle.attach([f"idle-{number:05}" for number in range(crowd)])
        async with grpc.aio.insecure_channel(broker.address, options=CHANNEL) as channel:
            await ask_for(channel, question(load), concurrency=1, seconds=1.0)
            before, lag = processor_seconds(broker.pid), await seen(broker)
            asked = await ask_for(channel, question(load), concurrency=1, seconds=seconds)
            busy, after = processor_seconds(broker.pid) - before, await seen(broker)
        before = processor_seconds(broker.pid)
        await asyncio.sleep(seconds)
        quiet = processor_seconds(broker.pid) - before
        assert idle.welcomed == crowd
        line = {
            "crowd": float(crowd),
            "cpu_ms": busy * 1000 / len(asked.seconds),
            "p50_ms": quantile(asked.seconds, 0.5) * 1000,
            "p99_ms": quantile(asked.seconds, 0.99) * 1000,
            "lag_p99_ms": lag_quantile(lag, after, 0.99) * 1000,
            "lag_max_ms": after.worst * 1000,
            "quiet_cpu_share": quiet / seconds,
            "resident_mb": broker.resident / 2**20,
        }
        await idle.leave()
    return {name: round(value, 3) for name, value in line.items()}


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.crowded", description=__doc__)
    parser.add_argument("crowds", nargs="*", type=int, metavar="COUNT", default=CROWDS)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE
    for crowd in asked.crowds:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, asyncio.Runner(loop_factory=new_event_loop) as run:
            line = run.run(crowded(Path(folder), min(crowd, room), seconds=asked.seconds))
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
