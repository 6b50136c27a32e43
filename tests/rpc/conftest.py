"""Fixtures of the suites that talk to a broker over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc.aio
import pytest

from broker.rpc.server import Broker
from tests.rpc.peers import SAFETY, Peer


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    """Holds after every test here: what it started has ended."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=SAFETY)
    assert not left, [task.get_coro() for task in left]


@pytest.fixture
async def connect(broker: Broker) -> AsyncIterator[Callable[[], Awaitable[Peer]]]:
    """Makes peers of the ``broker``, each with a connection of its own."""
    channels: list[grpc.aio.Channel] = []

    async def make() -> Peer:
        # Without this, channels to one address share a connection.
        channel = grpc.aio.insecure_channel(broker.address, options=[("grpc.use_local_subchannel_pool", 1)])
        channels.append(channel)
        return Peer(channel)

    yield make
    for channel in channels:
        await channel.close()


@pytest.fixture
async def peer(connect: Callable[[], Awaitable[Peer]]) -> Peer:
    """A client of the ``broker``."""
    return await connect()


@pytest.fixture
async def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(cert)]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
    except FileNotFoundError:
        pytest.skip("no openssl command on this machine to make a certificate with")
    assert await process.wait() == 0
    key.chmod(0o600)
    return cert, key
