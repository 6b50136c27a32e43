"""A provider that is stopped, and falls silent without leaving, is lost after a few heartbeats, not at the deadline."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from broker.config import Config
from broker.rpc.server import Broker
from tests.rpc.peers import SAFETY, Peer, frames, lanes

PROVIDER = """
import asyncio, sys
from broker.client import Provider

async def answer(query):
    print("asked", flush=True)
    await asyncio.Event().wait()
    return []

Provider("a", answer, instance_id=sys.argv[2]).run(sys.argv[1], on_attached=lambda _: print("attached", flush=True))
"""


class Stopped:
    """A provider in a process of its own, stopped while it answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, address: str, instance: str = "1") -> Stopped:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROVIDER, address, instance, stdout=asyncio.subprocess.PIPE
        )
        provider = cls(process)
        await provider.says(b"attached")
        return provider

    async def says(self, line: bytes) -> None:
        assert self.process.stdout is not None
        while (await asyncio.wait_for(self.process.stdout.readline(), SAFETY)).strip() != line:
            pass

    async def end(self) -> None:
        self.process.kill()
        await self.process.communicate()


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0", "heartbeat_seconds": 1.0})


async def test_a_stopped_provider_is_lost_long_before_the_deadline(broker: Broker, peer: Peer) -> None:
    """P3."""
    stopped, other = await Stopped.start(broker.address), await peer.attach("b")
    composing = asyncio.create_task(peer.compose(collect_timeout=300.0))
    await stopped.says(b"asked")
    stopped.process.send_signal(signal.SIGSTOP)
    await other.answer(frames(("b1", 0.5)))
    composition = (await composing).composition()
    assert lanes(composition) == {"a": "LOST", "b": "COMPLETE"}
    assert [placed.frame.id for placed in composition.placed] == ["b1"]
    await peer.until_gone("a")
    await stopped.end()


async def test_another_instance_answers_for_one_that_was_stopped(broker: Broker, peer: Peer) -> None:
    """P3."""
    stopped = await Stopped.start(broker.address)
    composing = asyncio.create_task(peer.compose(collect_timeout=300.0))
    await stopped.says(b"asked")
    other = await peer.attach("a", "2")
    stopped.process.send_signal(signal.SIGSTOP)
    await other.answer(frames(("second", 0.5)))
    composition = (await composing).composition()
    assert lanes(composition) == {"a": "COMPLETE"}
    assert [placed.frame.id for placed in composition.placed] == ["second"]
    await stopped.end()
