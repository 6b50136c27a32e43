"""The fault proxy does to a connection what it is told, and to nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.faults.proxy import NONE, FaultProxy, Faults

TEXT = bytes(range(256)) * 400
Dial = Callable[..., AbstractAsyncContextManager[tuple[FaultProxy, asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects through a proxy to a server that sends everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    @asynccontextmanager
    async def connect(up: Faults = NONE, down: Faults = NONE):
        async with FaultProxy(target, up=up, down=down) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.address.split(":"))
            yield proxy, reader, writer
            writer.close()

    yield connect
    server.close()


@pytest.mark.parametrize("faults", [NONE, Faults(delay=0.001), Faults(rate=10e6)])
async def test_without_a_fatal_fault_all_bytes_pass(dial: Dial, faults: Faults) -> None:
    async with dial(up=faults, down=faults) as (proxy, reader, writer):
        writer.write(TEXT)
        assert await reader.readexactly(len(TEXT)) == TEXT
        assert proxy.passed == [len(TEXT), len(TEXT)]


@pytest.mark.parametrize("at", [0, 1, 5000, 50_000])
async def test_a_cut_comes_after_exactly_so_many_bytes(dial: Dial, at: int) -> None:
    async with dial(down=Faults(cut_at=at)) as (proxy, reader, writer):
        writer.write(TEXT)
        assert await reader.read(-1) == TEXT[:at]
        assert proxy.cuts == 1


async def test_a_black_hole_passes_so_many_bytes_and_closes_nothing(dial: Dial) -> None:
    async with dial(down=Faults(swallow_at=1000)) as (_, reader, writer):
        writer.write(TEXT)
        assert await reader.readexactly(1000) == TEXT[:1000]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)


async def test_one_bit_is_turned_over(dial: Dial) -> None:
    async with dial(up=Faults(corrupt_at=7777)) as (_, reader, writer):
        writer.write(TEXT)
        got = await reader.readexactly(len(TEXT))
    assert [i for i in range(len(TEXT)) if got[i] != TEXT[i]] == [7777]
    assert got[7777] == TEXT[7777] ^ 1


async def test_a_standing_connection_can_be_cut_or_swallowed(dial: Dial) -> None:
    async with dial() as (proxy, reader, writer):
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        proxy.swallow()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        proxy.cut()
        assert await reader.read(-1) == b""
