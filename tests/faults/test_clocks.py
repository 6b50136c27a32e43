"""Clocks an hour off, or that jump by an hour while a request runs, change no deadline and no order (P17).

The wall clock of one process is shifted with libfaketime; its monotonic clock is left alone. What a deadline does shows
in how lanes end: one that an hour forward cut short would end a lane that has ample time, and one that an hour backward
moved would let a request outlast the test.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc.aio
import pytest

from tests.faults.processes import ROOT, broker_process, running
from tests.rpc.peers import Peer

LIBRARIES = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
PROVIDER = "notes"
WHOLE = {"frames": 40, "bytes": 50, "pause": 0.01}
ENDLESS = {"frames": 200, "bytes": 50, "pause": 0.1}
NOW, AHEAD, BEHIND = "+0", "+3600", "-3600"


class FakeClock:
    """The wall clock of the processes that get :attr:`environment`."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self.set(NOW)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, shift: str) -> None:
        """Moves it, also while they run."""
        self._file.write_text(shift)


@pytest.fixture
def clock(tmp_path: Path) -> FakeClock:
    if not LIBRARIES:
        pytest.skip("no libfaketime on this machine (Debian: libfaketime): no process's clock can be shifted")
    return FakeClock(tmp_path / "clock", LIBRARIES[0])


async def wall_clock(environment: dict[str, str]) -> float:
    code = "import time; print(time.time())"
    command = (sys.executable, "-c", code)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out)


async def test_the_clock_is_really_shifted(clock: FakeClock) -> None:
    clock.set(AHEAD)
    ahead = await wall_clock(clock.environment)
    clock.set(BEHIND)
    assert ahead - await wall_clock(clock.environment) > 7000


async def query(
    address: str, environment: dict[str, str], how: dict[str, float], seconds: float, jump: Callable[[], None]
) -> dict[str, object]:
    """Asks in a process of its own, which says when it was accepted; then ``jump`` is called."""
    asking = (sys.executable, "-m", "tests.faults.asker", address, json.dumps(how), str(seconds))
    process = await asyncio.create_subprocess_exec(
        *asking, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert json.loads(await process.stdout.readline()) == {"accepted": True}
    jump()
    out = await process.stdout.read()
    assert await process.wait() == 0
    return json.loads(out)


@pytest.mark.parametrize("side", ["broker", "provider", "orchestrator"])
async def test_a_clock_an_hour_off_or_jumping_changes_nothing(tmp_path: Path, clock: FakeClock, side: str) -> None:
    shifted = {**_plain(), **clock.environment}
    env = {each: shifted if each == side else _plain() for each in ("broker", "provider", "orchestrator")}
    async with broker_process(tmp_path, settings='log.level = "warning"\n', env=env["broker"]) as broker:
        file = str(tmp_path / "provider.jsonl")
        actor = ("tests.faults.actor", broker.address, file, PROVIDER)
        async with running(*actor, errors=tmp_path / "actor.log", env=env["provider"]):
            async with grpc.aio.insecure_channel(broker.address) as channel:
                assert (await Peer(channel).providers())[PROVIDER].instances
            # Each jumps in the middle of its answer; the last two are cut short by time.
            jumps = [(AHEAD, WHOLE, 20.0), (BEHIND, WHOLE, 20.0), (AHEAD, ENDLESS, 0.5), (BEHIND, ENDLESS, 0.5)]
            said = [
                await query(broker.address, env["orchestrator"], how, seconds, partial(clock.set, shift))
                for shift, how, seconds in jumps
            ]
    assert [each["lanes"] for each in said] == [{PROVIDER: end} for end in 2 * ["COMPLETE"] + 2 * ["PARTIAL"]]
    assert [each["order"] for each in said[:2]] == 2 * [list(range(40))]


def _plain() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_BROKER_")}
