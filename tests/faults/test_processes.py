"""A party that is killed or stopped at any moment costs its own frames and nobody's time (P3, P4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from broker.core.composition import Composition
from broker.errors import Unavailable
from broker.wire.listings import ListedInstance
from tests.faults.checking import checked, kept
from tests.faults.histories import Asking
from tests.faults.processes import Process, broker_process, running
from tests.faults.proxy import FaultProxy
from tests.faults.recording import Recording
from tests.rpc.peers import COMPOSE, Peer, lanes
from tests.soaking import Soak

STEADY = ("steady-1", "steady-2")
VICTIM = "victim"
# Providers that fail on purpose are asked again each time.
QUIET = 'log.level = "warning"\nconduct.breaker_failures = 0\n'
SEED = 4711


class Stage:
    """A broker, two providers that never fail, and what they all wrote down."""

    def __init__(self, folder: Path, broker: Process, peer: Peer) -> None:
        self.folder = folder
        self.recordings = folder / "recordings"
        self.broker = broker
        self.peer = peer
        self.orchestrator = Recording(self.recordings / "orchestrator.jsonl")

    def actor(self, address: str, *names: str) -> contextlib.AbstractAsyncContextManager[Process]:
        """A provider process."""
        file = self.recordings / f"{'-'.join(names)}.jsonl"
        return running("tests.faults.actor", address, str(file), *names, errors=self.folder / "actors.log")

    def ask(self, history: str, *, seconds: float, how: dict[str, float] | None = None, **asked: object) -> Asking:
        """Asks all three."""
        asking = Asking(history, f"{history}.r", self.peer.open(COMPOSE), self.orchestrator)
        asked.setdefault("providers", (*STEADY, VICTIM))
        asked.setdefault("max_tokens", 500_000)
        asking.start(collect_timeout=seconds, query_text=json.dumps(how or {}), **asked)
        return asking


@contextlib.asynccontextmanager
async def staged(folder: Path, broker: Process) -> AsyncIterator[Stage]:
    (folder / "recordings").mkdir()
    async with grpc.aio.insecure_channel(broker.address) as channel:
        stage = Stage(folder, broker, Peer(channel))
        with contextlib.closing(stage.orchestrator):
            yield stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with (
        broker_process(tmp_path, settings=QUIET) as broker,
        staged(tmp_path, broker) as stage,
        stage.actor(broker.address, *STEADY),
    ):
        await attached(stage.peer, *STEADY)
        yield stage


async def attached(peer: Peer, *names: str) -> None:
    async with asyncio.timeout(30):
        while True:
            known = await peer.providers()
            if all(name in known and known[name].instances for name in names):
                return


async def overslept(seconds: float) -> float:
    """By how much this process misses a moment without any broker: what a busy machine adds to every figure here."""
    moment = time.monotonic() + seconds
    await asyncio.sleep(seconds)
    return time.monotonic() - moment


async def statuses(peer: Peer, name: str) -> tuple[ListedInstance, ...]:
    return (await peer.providers())[name].instances


async def kill_one(stage: Stage, number: int, chance: random.Random, seconds: float) -> Asking:
    """Kills a provider's process at a random byte of what it sends."""
    how = {"frames": 60, "bytes": 2048, "pause": 0.0005}
    async with FaultProxy(stage.broker.address) as proxy, stage.actor(proxy.address, VICTIM) as victim:
        # The connection that stands is the one to be cut: its fault is set by what it has carried already.
        at = proxy.passed[0] + chance.randrange(1, 125_000)
        proxy.cut_when(at)
        proxy.on_cut = lambda: victim.send(signal.SIGKILL)
        asking = stage.ask(str(number), seconds=seconds, how=how)
        await asking.task
        victim.send(signal.SIGKILL)
        await victim.ended()
        stage.orchestrator.write(str(number), "gone", session=victim.ready["session"], why="killed")
    await stage.peer.until_gone(VICTIM)
    return asking


def found(asking: Asking) -> Composition:
    assert asking.error is None, asking.error
    assert asking.composition is not None
    return asking.composition


async def test_a_provider_killed_at_any_byte_costs_its_own_missing_frames_alone(stage: Stage) -> None:
    chance = random.Random(SEED)
    for number in range(3):
        ends = lanes(found(await kill_one(stage, number, chance, 20.0)))
        assert [ends[name] for name in STEADY] == ["COMPLETE", "COMPLETE"]
        assert ends[VICTIM] in ("LOST", "PARTIAL")
    said = await checked(stage.recordings)
    assert said["exit"] == 0, kept(stage.recordings, said)
    assert "Traceback" not in stage.broker.errors


async def stop_one(stage: Stage, victim: Process, number: int, chance: random.Random, seconds: float) -> Asking:
    """Stops a provider's process, without ending it, at a random moment of its answer; lets it go on afterwards."""
    # Long enough an answer that no moment is after it.
    asking = stage.ask(str(number), seconds=seconds, how={"frames": 250, "bytes": 200, "pause": seconds / 50})
    await asyncio.sleep(seconds * 0.8 * chance.random())
    victim.send(signal.SIGSTOP)
    await asking.task
    victim.send(signal.SIGCONT)
    return asking


async def test_a_provider_that_is_stopped_costs_nobody_more_than_the_deadline(stage: Stage) -> None:
    chance = random.Random(SEED)
    async with stage.actor(stage.broker.address, VICTIM) as victim:
        await attached(stage.peer, VICTIM)
        for number in range(3):
            composition = found(await stop_one(stage, victim, number, chance, 0.4))
            ends = lanes(composition)
            # All three are cut by the deadline; only that one may have nothing in hand.
            assert [ends[name] for name in STEADY] == ["PARTIAL", "PARTIAL"]
            assert ends[VICTIM] in ("PARTIAL", "TIMED_OUT")
        again = stage.ask("again", seconds=20.0)
        await again.task
    assert lanes(found(again)) == dict.fromkeys((*STEADY, VICTIM), "COMPLETE")
    said = await checked(stage.recordings)
    assert said["exit"] == 0, kept(stage.recordings, said)


async def test_an_orchestrator_that_is_killed_leaves_nothing_running(stage: Stage) -> None:
    how = json.dumps({"frames": 200, "bytes": 200, "pause": 0.1})
    asker = ("tests.faults.asker", stage.broker.address, how, "20")
    async with running(*asker, errors=stage.folder / "asker.log") as orchestrator:
        for name in STEADY:
            while not (await statuses(stage.peer, name))[0].in_flight:
                pass
        orchestrator.send(signal.SIGKILL)
        for name in STEADY:
            while (await statuses(stage.peer, name))[0].in_flight:
                pass
    assert "Traceback" not in stage.broker.errors


async def test_a_broker_that_is_killed_leaves_no_one_waiting_and_providers_find_the_next(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with (
        broker_process(one, settings=QUIET) as first,
        FaultProxy(first.address) as proxy,
        staged(tmp_path, first) as stage,
        stage.actor(proxy.address, *STEADY),
    ):
        await attached(stage.peer, *STEADY)
        how = {"frames": 200, "bytes": 200, "pause": 0.05}
        asking = [stage.ask(str(i), seconds=20.0, how=how, providers=STEADY) for i in range(5)]
        for name in STEADY:
            while not (await statuses(stage.peer, name))[0].in_flight:
                pass
        first.send(signal.SIGKILL)
        await asyncio.gather(*(each.task for each in asking))
        assert {type(each.error) for each in asking} == {Unavailable}
        async with broker_process(two, settings=QUIET) as second, grpc.aio.insecure_channel(second.address) as channel:
            proxy.target = second.address
            stage.peer = Peer(channel)
            await attached(stage.peer, *STEADY)
            again = stage.ask("again", seconds=20.0, providers=STEADY)
            await again.task
    assert lanes(found(again)) == dict.fromkeys(STEADY, "COMPLETE")
    said = await checked(stage.recordings)
    assert said["exit"] == 0, kept(stage.recordings, said)


@pytest.mark.soak
async def test_stopped_at_random_moments(stage: Stage, soak: Soak) -> None:
    chance, seconds, took, ends, control = random.Random(SEED), 0.5, [], {}, []
    async with stage.actor(stage.broker.address, VICTIM) as victim:
        await attached(stage.peer, VICTIM)
        for number in range(soak.count(100)):
            sleeping = asyncio.create_task(overslept(seconds))
            asking = await stop_one(stage, victim, number, chance, seconds)
            control.append(await sleeping)
            took.append(asking.seconds)
            end = lanes(found(asking))[VICTIM]
            ends[end] = ends.get(end, 0) + 1
        # How long it takes to be noticed where no deadline comes first: the connection's own pings must tell.
        patient = stage.ask("patient", seconds=60.0, how={"frames": 250, "bytes": 200, "pause": 1.0})
        await asyncio.sleep(2.0)
        victim.send(signal.SIGSTOP)
        stopped = time.monotonic()
        while await statuses(stage.peer, VICTIM):
            pass
        noticed = time.monotonic() - stopped
        patient.cancel()
    late = sum(each > seconds + 0.05 for each in took)
    soak.record(
        "P3",
        stops=len(took),
        late=late,
        slowest_over_ms=round((max(took) - seconds) * 1000, 1),
        median_over_ms=round((sorted(took)[len(took) // 2] - seconds) * 1000, 1),
        slowest_control_ms=round(max(control) * 1000, 1),
        ends=ends,
        noticed_after_s=round(noticed, 1),
    )


@pytest.mark.soak
async def test_two_hundred_kills(stage: Stage, soak: Soak) -> None:
    chance, seconds, started = random.Random(SEED), 1.0, time.monotonic()
    took, ends, kills = [], {}, soak.count(200)
    for number in range(kills):
        asking = await kill_one(stage, number, chance, seconds)
        composition = found(asking)
        took.append(asking.seconds)
        end = lanes(composition)
        assert [end[name] for name in STEADY] == ["COMPLETE", "COMPLETE"]
        ends[end[VICTIM]] = ends.get(end[VICTIM], 0) + 1
    said = await checked(stage.recordings)
    late = sum(each > seconds + 0.05 for each in took)
    soak.record(
        "P4",
        kills=kills,
        late=late,
        slowest_ms=round(max(took) * 1000),
        deadline_ms=round(seconds * 1000),
        ends=ends,
        counts=said["counts"],
        problems=len(said["problems"]),
        seconds=round(time.monotonic() - started),
    )
    assert said["exit"] == 0, kept(stage.recordings, said)
