"""Fixtures of the suites that hurt a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import pytest

from broker.rpc.server import Broker
from tests.rpc.peers import Peer


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[Peer]:
    """A client of the ``broker``."""
    async with grpc.aio.insecure_channel(broker.address) as channel:
        yield Peer(channel)
