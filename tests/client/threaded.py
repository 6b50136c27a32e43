"""The blocking client in a thread, so that both clients are tested by the same words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from broker.client import BlockingContextClient


class Threaded:
    """A blocking client whose methods are awaited and whose iterators are asynchronous."""

    def __init__(self, address: str) -> None:
        self._client = BlockingContextClient(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str):
        method = getattr(self._client, name)

        async def call(*args, **kwargs):
            return await asyncio.to_thread(method, *args, **kwargs)

        return call

    async def stream(self, *args, **kwargs) -> AsyncIterator[object]:
        for event in await asyncio.to_thread(lambda: list(self._client.stream(*args, **kwargs))):
            yield event

    async def compositions(self, **kwargs) -> AsyncIterator[object]:
        for listed in await asyncio.to_thread(lambda: list(self._client.compositions(**kwargs))):
            yield listed
