"""What a broker says of itself while it is measured: how late its event loop is, and what memory its requests take."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from broker.telemetry.metrics import PREFIX
from tests.faults.processes import Process

LAG = f"{PREFIX}_event_loop_lag_seconds"


@dataclass(frozen=True, slots=True)
class Seen:
    """What its figures were at one moment.

    Attributes:
        lag: How many looks at the loop found it at most so many seconds late, by these seconds.
        worst: How late it was at most in the last half a minute, in seconds.
    """

    lag: dict[float, float]
    worst: float


async def seen(broker: Process) -> Seen:
    """Asks a broker that has a port for its operators."""
    return await asyncio.to_thread(_seen, operators_address(broker.errors))


def operators_address(log: str) -> str:
    """Where its figures are, by what its log says as it starts."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return str(next(event["admin"] for event in events if event["event"] == "serving"))


def lag_quantile(before: Seen, after: Seen, part: float) -> float:
    """Seconds that so large a part of the looks between two moments stayed below, as the histogram's bounds allow.

    Between two bounds looks are taken as evenly spread, which is how Prometheus does it.
    """
    counts = {bound: count - before.lag.get(bound, 0.0) for bound, count in sorted(after.lag.items())}
    wanted = part * max(counts.values())
    low, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / max(count - below, 1.0)
        low, below = bound, count
    return low


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had since it began, or since :func:`forget_peak`."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def forget_peak(pid: int) -> int:
    """Has the peak begin anew; bytes that the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _seen(address: str) -> Seen:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return Seen(
        {float(sample.labels["le"]): sample.value for sample in samples if sample.name == f"{LAG}_bucket"},
        next(sample.value for sample in samples if sample.name == LAG.replace("_seconds", "_max_seconds")),
    )
