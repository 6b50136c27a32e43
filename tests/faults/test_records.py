"""Promise: what was answered is on record, however and whenever its broker ends (P14, P7)."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import ContextClient
from tests.faults.answered import Answered, missing, settings
from tests.faults.processes import Process, broker_process
from tests.soaking import Soak
from tests.store import postgres

WORKERS = 8
"""Callers at a time, so that several answers wait for the same commit."""


async def ended_under_load(broker: Process, number: signal.Signals, chance: random.Random) -> Answered:
    """Sends a signal at a random point of a load; what was answered until the broker's end."""
    answered = Answered()
    asking = [asyncio.create_task(answered.ask(broker.address)) for _ in range(WORKERS)]
    await asyncio.wait_for(answered.until(chance.randrange(1, 40)), 30)
    await asyncio.sleep(chance.uniform(0, 0.01))
    broker.send(number)
    await asyncio.gather(*asking)
    assert await broker.ended() == (0 if number is signal.SIGTERM else -number)
    return answered


class Ends:
    """Brokers on the same store, one after the other: each is ended under load, and the next asked for its records.

    Attributes:
        ended: Brokers that were ended.
        recorded: Answers that said that they are on record.
        lost: Those that are not.
        unheard: Compositions that are on record, and whose callers heard of no end.
        states: How all calls ended.
    """

    def __init__(self, folder: Path, text: str, seed: int) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._text = text
        self._chance = random.Random(seed)
        self.ended = self.recorded = self.unheard = 0
        self.lost: list[str] = []
        self.states: Counter[str] = Counter()

    async def run(self, count: int, number: signal.Signals) -> None:
        last: Answered | None = None
        for _ in range(count):
            async with broker_process(self._folder, settings=self._text) as broker:
                await self._check(broker, last)
                last = await ended_under_load(broker, number, self._chance)
                self.ended += 1
            self.states.update(last.ends)
        async with broker_process(self._folder, settings=self._text) as broker:
            await self._check(broker, last)
            assert "Traceback" not in broker.errors

    async def _check(self, broker: Process, last: Answered | None) -> None:
        if last is None:
            return
        async with ContextClient(broker.address) as client:
            self.lost += await missing(client, last)
            listed = {found.composition_id async for found in client.compositions(made_from=last.since)}
        self.recorded += len(last.recorded)
        self.unheard += len(listed - last.recorded.keys())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
async def test_what_a_broker_answered_before_its_end_is_on_record(tmp_path: Path, number: signal.Signals) -> None:
    text = settings(kind="sqlite", file=str(tmp_path / "c.db"), wait_seconds=30.0)
    ends = Ends(tmp_path / "ends", text, seed=14)
    await ends.run(2, number)
    assert ends.lost == []
    assert ends.recorded >= 2
    assert ends.states["DEGRADED"] == 0
    # In order it ends no call half-way: what is on record was answered, too.
    assert number is signal.SIGKILL or ends.unheard == 0


@pytest.fixture
def own_server() -> Iterator[postgres.PostgresServer]:
    with postgres.running() as server:
        yield server


@pytest.mark.soak
@pytest.mark.timeout(3600)  # A broker takes a second to start, and five hundred take their time.
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("number", "count"), [(signal.SIGKILL, 500), (signal.SIGTERM, 50)], ids=["kill", "term"])
async def test_ended_again_and_again(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, number: signal.Signals, count: int, soak: Soak
) -> None:
    """P14 and P7: two brokers at a time, each on a store of its own; the commits are fully synchronised."""
    started, total, chains = time.monotonic(), soak.count(count), []
    for seed in range(2):
        if kind == "sqlite":
            text = settings(kind="sqlite", file=str(tmp_path / f"{seed}.db"))
        else:
            dsn = tmp_path / f"{seed}.dsn"
            dsn.write_text(request.getfixturevalue("own_server").create(f"chain{seed}"))
            dsn.chmod(0o600)
            text = settings(kind="postgresql", dsn_file=str(dsn))
        chains.append(Ends(tmp_path / str(seed), text, seed))
    await asyncio.gather(*(chain.run(-(-total // len(chains)), number) for chain in chains))
    lost = [composition for chain in chains for composition in chain.lost]
    soak.record(
        "P14" if number is signal.SIGKILL else "P7",
        store=kind,
        signal=number.name,
        ends=sum(chain.ended for chain in chains),
        answered_as_recorded=sum(chain.recorded for chain in chains),
        missing=len(lost),
        recorded_and_not_answered=sum(chain.unheard for chain in chains),
        calls=dict(sum((chain.states for chain in chains), Counter())),
        seconds=round(time.monotonic() - started),
    )
    assert lost == []
