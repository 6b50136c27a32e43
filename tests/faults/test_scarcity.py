"""A broker that runs out of files or cannot write its log goes on serving those that it has, and recovers."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from pathlib import Path

import grpc.aio
import pytest

from broker.core.frames import Frame
from broker.wire.requests import InlineLane
from tests.faults.processes import broker_process, until
from tests.rpc.peers import Peer, ranked

FULL = Path("/dev/full")
"""Whatever is written there meets a disk without room."""

INLINE = {
    "no_providers": True,
    "inline_lanes": (InlineLane("memory", frames=(Frame("f", "t", "what is known", 0.5),)),),
}


async def test_with_few_descriptors_those_connected_are_served_and_room_comes_back(tmp_path: Path) -> None:
    if (prlimit := shutil.which("prlimit")) is None:
        pytest.skip("no prlimit command on this machine to limit descriptors with")
    wrapper = (prlimit, "--nofile=64:64", "--")
    async with broker_process(tmp_path, settings='log.level = "warning"\n', wrapper=wrapper) as broker:
        async with grpc.aio.insecure_channel(broker.address) as channel:
            peer = Peer(channel)
            provider = await peer.attach("a")
            host, _, port = broker.address.rpartition(":")
            with contextlib.ExitStack() as stack:
                for _ in range(200):
                    crowd = stack.enter_context(socket.socket())
                    crowd.setblocking(False)
                    crowd.connect_ex((host, int(port)))
                # It is full now, and answers none the less.
                await until(lambda: broker.descriptors >= 60)
                for _ in range(20):
                    assert ranked((await peer.compose(**INLINE)).composition()) == ["f"]
                asking = asyncio.create_task(peer.compose(providers=("a",), collect_timeout=20.0))
                await provider.answer([Frame("x", "t", "from the provider", 0.5)])
                assert ranked((await asking).composition()) == ["x"]
        async with grpc.aio.insecure_channel(broker.address) as channel:
            assert ranked((await Peer(channel).compose(**INLINE)).composition()) == ["f"]


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this machine")
async def test_a_log_that_cannot_be_written_stops_no_answer(tmp_path: Path) -> None:
    async with broker_process(tmp_path, errors=FULL) as broker, grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        provider = await peer.attach("a")
        asking = asyncio.create_task(peer.compose(providers=("a",), collect_timeout=20.0))
        await provider.answer([Frame("x", "t", "from the provider", 0.5)])
        assert ranked((await asking).composition()) == ["x"]
        # What is refused is logged, too.
        refused = await peer.compose(providers=("nobody",))
        assert refused.error is not None
        assert refused.error.reason == "PROVIDER_UNKNOWN"
