"""Connections enough for many calls at once: one connection carries a hundred at most."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable

import grpc.aio

from tests.rpc.peers import Peer


@contextlib.asynccontextmanager
async def connections(address: str, count: int) -> AsyncIterator[Callable[[], Peer]]:
    """Gives peers, on so many connections in turn."""
    async with contextlib.AsyncExitStack() as stack:
        peers = []
        for _ in range(count):
            # Without this, channels to one address share a connection.
            channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
            peers.append(Peer(await stack.enter_async_context(channel)))
        turn = itertools.cycle(peers)
        yield lambda: next(turn)
