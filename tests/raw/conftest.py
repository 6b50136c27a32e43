"""Fixtures by which every test here holds four things besides its own.

Another client's call works after it, the broker's tasks and files are back to where they were, no traceback was
printed, and what it waits for comes within ``asking.ANSWER`` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from broker.config import Config
from broker.rpc.server import Broker
from tests.raw.asking import inline
from tests.raw.http2 import RawClient
from tests.rpc.conftest import certificate, connect, peer
from tests.rpc.peers import SAFETY, Peer

__all__ = ["certificate", "connect", "peer"]


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0", "first_message_seconds": 0.3})


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
async def other(broker: Broker, connect: Callable[[], Awaitable[Peer]]) -> Peer:
    """Another client, which has done nothing wrong and whose call has worked."""
    other = await connect()
    assert (await other.compose(**inline())).error is None
    return other


@pytest.fixture(autouse=True)
async def _nothing_is_left(other: Peer, capfd: pytest.CaptureFixture[str]) -> AsyncIterator[None]:
    tasks, files = len(asyncio.all_tasks()), open_files()
    yield
    assert (await other.compose(**inline())).error is None
    async with asyncio.timeout(SAFETY):
        # What has ended a moment ago is taken down while other calls are answered.
        while open_files() > files or len(asyncio.all_tasks()) > tasks:
            await other.providers()
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture
async def raw(broker: Broker, _nothing_is_left: None) -> AsyncIterator[RawClient]:
    """A connection on which wrong things may be done."""
    async with RawClient.connect(broker.address) as client:
        yield client
