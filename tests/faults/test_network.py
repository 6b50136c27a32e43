"""Whatever a network does to one connection, the others are served, nothing hangs and every frame is accounted for."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from broker.core.frames import Frame
from broker.rpc.server import Broker
from tests.faults.checking import checked, kept
from tests.faults.histories import Asking, RecordedSession
from tests.faults.proxy import NONE, FaultProxy, Faults
from tests.faults.recording import Recording
from tests.rpc.peers import COMPOSE, Peer, lanes

SEED = 99


class Net:
    """A broker with a provider and an orchestrator beside those whose connection has the fault."""

    def __init__(self, folder: Path, broker: Broker, near: Peer, recording: Recording) -> None:
        self.folder = folder
        self.broker = broker
        self.near = near
        self.recording = recording

    async def provider(self, peer: Peer, history: str, name: str) -> asyncio.Task[None]:
        """Attaches a provider that answers one question with forty frames of a kilobyte."""
        session = RecordedSession(history, name, self.recording)
        assert await session.attach(peer, "one")

        async def answer() -> None:
            query = await session.next_query()
            if query is not None:
                for start in range(0, 40, 8):
                    numbers = range(start, start + 8)
                    batch = [Frame(f"f{i}", "title", f"{name} {i} ".ljust(1024, "x"), 1 / (i + 1)) for i in numbers]
                    await session.send(query, batch)
                await session.end(query)
            await session.finish()

        return asyncio.create_task(answer())

    def ask(self, peer: Peer, history: str, request: str = "r", **asked: object) -> Asking:
        asking = Asking(history, f"{history}.{request}", peer.open(COMPOSE), self.recording)
        asking.start(max_tokens=100_000, **asked)
        return asking

    @contextlib.asynccontextmanager
    async def far(self, **faults: object) -> AsyncIterator[tuple[FaultProxy, Peer]]:
        """A peer behind a proxy."""
        async with (
            FaultProxy(self.broker.address, **faults) as proxy,
            grpc.aio.insecure_channel(proxy.address) as channel,
        ):
            yield proxy, Peer(channel)

    async def check(self) -> None:
        said = await checked(self.folder)
        assert said["exit"] == 0, kept(self.folder, said)


@pytest.fixture
async def net(tmp_path: Path, broker: Broker) -> AsyncIterator[Net]:
    (tmp_path / "recordings").mkdir()
    recording = Recording(tmp_path / "recordings" / "all.jsonl")
    with contextlib.closing(recording):
        async with grpc.aio.insecure_channel(broker.address) as channel:
            yield Net(tmp_path / "recordings", broker, Peer(channel), recording)


async def round_with(net: Net, history: str, **faults: object) -> dict[str, str]:
    """One question to a provider on a good connection and to one on a bad one; how both lanes ended."""
    names = (f"good-{history}", f"bad-{history}")
    async with net.far(**faults) as (_, peer):
        answering = [await net.provider(net.near, history, names[0]), await net.provider(peer, history, names[1])]
        asking = net.ask(net.near, history, providers=names, collect_timeout=1.0)
        await asking.task
        assert asking.composition is not None, asking.error
    await asyncio.gather(*answering)
    ends = lanes(asking.composition)
    assert ends[names[0]] == "COMPLETE"
    return {"good": ends[names[0]], "bad": ends[names[1]]}


@pytest.mark.parametrize("faults", [Faults(delay=0.005), Faults(rate=2e6)], ids=["delay", "throttle"])
async def test_a_slow_connection_loses_nothing(net: Net, faults: Faults) -> None:
    assert (await round_with(net, "slow", up=faults, down=faults))["bad"] in ("COMPLETE", "PARTIAL")
    await net.check()


async def test_a_connection_cut_at_any_byte_costs_one_lane(net: Net) -> None:
    chance = random.Random(SEED)
    for number in range(6):
        # Past what attaching takes, before the end of what it has to say.
        cut = Faults(cut_at=chance.randrange(1500, 40_000))
        assert (await round_with(net, str(number), up=cut))["bad"] in ("LOST", "PARTIAL")
    await net.check()


async def test_a_connection_that_swallows_everything_costs_one_lane(net: Net) -> None:
    assert (await round_with(net, "hole", up=Faults(swallow_at=9000)))["bad"] in ("PARTIAL", "TIMED_OUT")
    await net.check()


async def test_turned_bits_cost_one_connection_at_most(net: Net) -> None:
    # Where no checksum of TLS watches, what comes may also be another frame: of this nothing can be told by the
    # recordings, so that they are left unread.
    chance = random.Random(SEED)
    for number in range(6):
        await round_with(net, str(number), up=Faults(corrupt_at=chance.randrange(1500, 40_000)))


async def test_an_orchestrator_cut_off_at_any_byte_leaves_nothing_running(net: Net) -> None:
    chance = random.Random(SEED)
    for number in range(6):
        history = f"o{number}"
        name = f"p-{history}"
        async with net.far(down=Faults(cut_at=chance.randrange(200, 40_000)), up=NONE) as (_, peer):
            answering = await net.provider(net.near, history, name)
            cut = net.ask(peer, history, providers=(name,), collect_timeout=20.0)
            await cut.task
            assert cut.composition is None
        await answering
        assert not (await net.near.providers())[name].instances
    await net.check()
