"""Rounds of one load: the floor and the broker in turn, and the medians of what came out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import grpc.aio

from tests.bench.asking import Asked, ask_for, quantile
from tests.bench.loads import Load, provider_batches, question
from tests.bench.servers import pin, processor_seconds, servers
from tests.bench.watching import forget_peak, lag_quantile, peak_bytes, seen

CHANNEL = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]

Figures = dict[str, float]


async def measured(load: Load, folder: Path, *, rounds: int, seconds: float) -> dict[str, object]:
    """One load's line.

    Args:
        load: The load.
        folder: Where the processes may write.
        rounds: How often both are measured; the medians count.
        seconds: How long, each time.

    Returns:
        The broker's and the floor's figures, and ``ratios`` of the one to the other, each the median of the rounds' own
        ratios: what disturbs a round disturbs both sides of it. Of the broker's figures ``lag_max_ms`` and ``peak_mb``
        are over all rounds, and ``peak_per_held`` is by how much its memory grew at most from before its first request
        on, for each byte that its requests held where each had all its frames.
    """
    request = question(load)
    pinned = pin([os.getpid()], first=False)
    taken: dict[str, list[Figures]] = {"floor": [], "broker": []}
    async with servers(load, folder) as processes:
        channels = {
            name: grpc.aio.insecure_channel(process.address, options=CHANNEL) for name, process in processes.items()
        }
        try:
            empty = forget_peak(processes["broker"].pid)
            lags, worst = [], 0.0
            for channel in channels.values():
                await ask_for(channel, request, concurrency=load.concurrency, seconds=1.0)
            for number in range(rounds):
                for name in ("floor", "broker") if number % 2 == 0 else ("broker", "floor"):
                    pid, lag = processes[name].pid, await seen(processes["broker"])
                    before = processor_seconds(pid)
                    asked = await ask_for(channels[name], request, concurrency=load.concurrency, seconds=seconds)
                    taken[name].append(_figures(asked, processor_seconds(pid) - before))
                    if name == "broker":
                        after = await seen(processes["broker"])
                        lags.append(lag_quantile(lag, after, 0.99) * 1000)
                        worst = max(worst, after.worst * 1000)
        finally:
            for channel in channels.values():
                await channel.close()
        resident, peak = processes["broker"].resident, peak_bytes(processes["broker"].pid)
    return {
        "load": load.name,
        "rounds": rounds,
        "pinned": pinned,
        "busy": round(os.getloadavg()[0], 1),
        "ratios": ratios(taken),
        "broker": _medians(taken["broker"])
        | {
            "lag_p99_ms": round(median(lags), 2),
            "lag_max_ms": round(worst, 2),
            "resident_mb": round(resident / 2**20, 1),
            "peak_mb": round(peak / 2**20, 1),
            "peak_per_held": round((peak - empty) / held_bytes(load), 2),
        },
        "floor": _medians(taken["floor"]),
    }


def held_bytes(load: Load) -> int:
    """Bytes of what all requests in flight hold of their providers' answers."""
    batches = (batch for place in range(load.providers) for batch in provider_batches(load, place))
    return load.concurrency * sum(map(len, batches))


def ratios(taken: Mapping[str, Sequence[Figures]]) -> Figures:
    """The medians of each round's ratios of the broker to the floor."""
    pairs = list(zip(taken["broker"], taken["floor"], strict=True))
    keys = {"rate": "per_second", "cpu": "cpu_ms", "p50": "p50_ms", "p99": "p99_ms", "bytes": "answer_bytes"}
    return {name: round(median(broker[key] / floor[key] for broker, floor in pairs), 3) for name, key in keys.items()}


def _figures(asked: Asked, processor: float) -> Figures:
    figures = {
        "requests": float(len(asked.seconds)),
        "per_second": asked.rate,
        "cpu_ms": processor * 1000 / len(asked.seconds),
        "cpu_share": processor / asked.wall,
        "p50_ms": quantile(asked.seconds, 0.5) * 1000,
        "p99_ms": quantile(asked.seconds, 0.99) * 1000,
        "answer_bytes": float(asked.bytes),
    }
    return figures | ({"first_placed_ms": quantile(asked.first, 0.5) * 1000} if asked.first else {})


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {key: round(median(figures[key] for figures in rounds), 3) for key in rounds[0]}
