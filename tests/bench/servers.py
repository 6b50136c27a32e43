"""The processes of a run: the broker, the floor, and the providers that are attached to both."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.loads import Load
from tests.faults.processes import Process, broker_process, running

PROVIDER_PROCESSES = 4
"""Processes that providers are dealt to, at most."""

_TICK = os.sysconf("SC_CLK_TCK")
# As they are when the run begins: it is kept off the first one itself.
_ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

SETTINGS = """
[limits]
tenant_calls_per_second = 1000000
{whole}
[store]
kind = "sqlite"
file = "{folder}/compositions.db"
[admin]
listen = "127.0.0.1:0"
"""
WHOLE = """
max_frames = 100000
lane_frames = 4096
lane_tokens = 100000000
lane_bytes = 1000000000
max_tokens = 100000000
tenant_held_bytes = 2000000000
held_bytes = 2000000000
"""


@contextlib.asynccontextmanager
async def servers(load: Load, folder: Path) -> AsyncIterator[dict[str, Process]]:
    """The floor and the broker with a load's providers attached to both, on one processor; the rest has another."""
    settings = SETTINGS.format(folder=folder, whole=WHOLE if load.whole else "")
    async with contextlib.AsyncExitStack() as stack:
        floor = await stack.enter_async_context(running("tests.bench.floor", errors=folder / "floor.log"))
        broker = await stack.enter_async_context(broker_process(folder, settings=settings))
        both = {"floor": floor, "broker": broker}
        pin([floor.pid, broker.pid], first=True)
        addresses = [process.address for process in both.values()]
        for start in range(min(PROVIDER_PROCESSES, load.providers)):
            places = range(start, load.providers, PROVIDER_PROCESSES)
            told = json.dumps({"load": asdict(load), "places": list(places), "addresses": addresses})
            answering = running("tests.bench.answering", told, errors=folder / "providers.log")
            process = await stack.enter_async_context(answering)
            assert process.ready["ready"], (folder / "providers.log").read_text()
            pin([process.pid], first=False)
        yield both


def pin(pids: Sequence[int], *, first: bool) -> bool:
    """Keeps processes on the first processor, or off it; whether there are two to choose of."""
    if not hasattr(os, "sched_setaffinity") or len(_ALLOWED) < 2:
        return False
    for pid in pids:
        # The threads too, that were there before.
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), {_ALLOWED[0]} if first else set(_ALLOWED[1:]))
    return True


def processor_seconds(pid: int) -> float:
    """Seconds of processor that a process has taken, all threads and the system's part."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
