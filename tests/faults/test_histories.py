"""Every frame offered in a run is placed or left out for one reason, exactly once, whatever befalls anyone (P1)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checking import checked, kept
from tests.faults.histories import run_histories
from tests.faults.processes import broker_process
from tests.faults.recording import Recording
from tests.soaking import Soak

SEED = 20260000
SETTINGS = """
log.level = "warning"
# It is not what is tested here.
limits.tenant_calls_per_second = 100_000
limits.tenant_requests = 256
"""


async def run_and_check(folder: Path, count: int, at_once: int) -> dict[str, Any]:
    recordings = folder / "recordings"
    recordings.mkdir()
    recording = Recording(recordings / "actors.jsonl")
    async with broker_process(folder, settings=SETTINGS) as broker:
        await run_histories(broker.address, recording, range(count), seed=SEED, at_once=at_once)
        assert "Traceback" not in broker.errors
    recording.close()
    return await checked(recordings)


async def test_every_frame_is_accounted_for_exactly_once(tmp_path: Path) -> None:
    said = await run_and_check(tmp_path, 120, at_once=16)
    assert said["exit"] == 0, kept(tmp_path / "recordings", said)
    counts = said["counts"]
    assert counts["histories"] == 120
    # Without these the mix has lost what it is about.
    for lane in ("COMPLETE", "PARTIAL", "LOST", "FAILED", "REFUSED", "TIMED_OUT"):
        assert counts[f"lane {lane}"] > 0, counts


@pytest.mark.soak
async def test_ten_thousand_histories(tmp_path: Path, soak: Soak) -> None:
    started = time.monotonic()
    said = await run_and_check(tmp_path, soak.count(10_000), at_once=32)
    seconds = round(time.monotonic() - started)
    soak.record("P1", counts=said["counts"], problems=len(said["problems"]), seconds=seconds)
    assert said["exit"] == 0, kept(tmp_path / "recordings", said)
