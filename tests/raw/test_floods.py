"""A flood on one connection costs bounded memory, leaves nothing behind, and others are served while it lasts."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest

from broker.config import Config
from broker.rpc.server import Broker
from broker.wire.events import Ask, Cancel
from tests.raw.asking import BODY, answered, inline
from tests.raw.daemon import Daemon, serves
from tests.raw.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawClient,
    frame,
    message,
    request_headers,
    reset,
    settings,
)
from tests.rpc.peers import ATTACH, COMPOSE, Attached, Peer, compose_bytes

ALLOWED = 64.0
"""MiB by which 120 MB on one connection may make a broker grow, most of it what was read and not looked at yet."""


@pytest.fixture
def broker_config() -> Config:
    """All are one tenant here, whose quotas are not what is tested."""
    quotas = {"tenant_calls_per_second": 1_000_000, "tenant_requests": 512}
    return Config(server={"listen": "127.0.0.1:0", "first_message_seconds": 0.3}, limits=quotas)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker of its own process that all floods of this module go to."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("no /proc on this machine to read a process's memory from")
    with Daemon.running(tmp_path_factory.mktemp("daemon") / "log") as running:
        yield running


@pytest.fixture
async def flooding(daemon: Daemon) -> AsyncIterator[RawClient]:
    """A connection to flood; what the daemon has must not rise by much, and others are served before it is closed."""
    await serves(daemon.address)
    files = daemon.files
    with daemon.rising(ALLOWED):
        async with RawClient.connect(daemon.address) as client:
            yield client
            await answered(serves(daemon.address))
        while daemon.files > files:
            await serves(daemon.address, calls=1)


async def either(*waiting: Awaitable[object]) -> None:
    """Returns once one of these has come."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def test_h7_gzip_bombs(flooding: RawClient) -> None:
    """200 kB each, that would be 200 MB."""
    bomb = message(gzip.compress(bytes(200_000_000), 9), flag=1)
    for _ in range(3):
        outcome = await answered(flooding.call(request_headers(COMPOSE, ("grpc-encoding", "gzip")), bomb))
        assert outcome.status == "RESOURCE_EXHAUSTED"


LITERAL = b"\x00\x01a\x64" + b"b" * 100
"""A header of 100 bytes as it is, that is not put into the table."""


@pytest.mark.parametrize(
    ("first", "part"),
    [(b"", LITERAL * (FRAME // len(LITERAL))), (b"\x00\x01a\x7f\x80\xff\xff\x3f", b"b" * FRAME)],
    ids=["many headers", "one endless header"],
)
async def test_h9_a_continuation_flood(flooding: RawClient, first: bytes, part: bytes) -> None:
    """120 MB of headers that never end; they are dropped as they come."""
    block = flooding.encoder.encode(request_headers(COMPOSE))
    outcome = flooding.outcomes[1]
    await flooding.send(frame(HEADERS, 0, 1, block + first))
    for _ in range(120_000_000 // FRAME):
        await flooding.send(frame(CONTINUATION, 0, 1, part))
    await answered(outcome.done.wait())
    assert outcome.status == "RESOURCE_EXHAUSTED"


async def test_h9_a_flood_of_empty_continuations_is_hung_up_on(flooding: RawClient) -> None:
    await flooding.send(frame(HEADERS, 0, 1, flooding.encoder.encode(request_headers(COMPOSE))))
    for _ in range(1000):
        await flooding.send(frame(CONTINUATION, 0, 1) * 100)
    await answered(flooding.closed.wait())


@pytest.mark.parametrize("size", [1, 3900])
async def test_h10_a_header_compression_bomb(daemon: Daemon, size: int) -> None:
    """One header in the table and 15,000 references to it in each of 100 calls, of which nothing is read."""
    await serves(daemon.address)
    value = b"v" * size
    length = bytes((size,)) if size < 127 else b"\x7f" + bytes(((size - 127) & 127 | 128, (size - 127) >> 7))
    with daemon.rising(32.0):
        async with RawClient.connect(daemon.address, window=0) as client:
            for i in range(100):
                block = client.encoder.encode(request_headers(COMPOSE))
                block += (b"\x40\x01x" + length + value if i == 0 else b"") + b"\xbe" * 15_000
                client.outcomes[2 * i + 1]
                await client.send(frame(HEADERS, END_HEADERS, 2 * i + 1, block))
            await answered(serves(daemon.address))
            assert "OK" not in {outcome.status for outcome in client.outcomes.values()}


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(frame(PING, ACK, 0, bytes(8)), id="answers to no ping"),
        pytest.param(frame(SETTINGS, 0, 0), id="empty settings"),
        pytest.param(settings(HEADER_TABLE_SIZE=4096), id="settings"),
        pytest.param(settings(INITIAL_WINDOW_SIZE=0) + settings(INITIAL_WINDOW_SIZE=65_535), id="windows"),
        pytest.param(frame(SETTINGS, ACK, 0), id="answers to no settings"),
        pytest.param(frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"), id="priorities"),
        pytest.param(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), id="window updates"),
        pytest.param(frame(WINDOW_UPDATE, 0, 1001, b"\0\0\0\1"), id="window updates of no stream"),
        pytest.param(frame(RST_STREAM, 0, 1001, bytes(4)), id="resets of no stream"),
        pytest.param(frame(DATA, 0, 1001), id="data of no stream"),
        pytest.param(frame(0xBB, 0, 0, bytes(100)), id="frames of an unknown kind"),
    ],
)
async def test_a_flood_of_frames_that_cost_nothing_to_send(flooding: RawClient, flood: bytes) -> None:
    for _ in range(100):
        await flooding.send(flood * 200)


async def test_a_ping_flood_is_told_to_stop(flooding: RawClient) -> None:
    for _ in range(200):
        await flooding.send(frame(PING, 0, 0, bytes(8)) * 200)
    await answered(either(flooding.closed.wait(), flooding.leaving.wait()))
    # What was said before hanging up may be lost with what was not read.
    assert flooding.debug in {b"too_many_pings", b""}


@pytest.mark.parametrize(
    "part", [frame(DATA, 0, 1), frame(DATA, PADDED, 1, b"\xff" + bytes(255))], ids=["empty", "padding"]
)
async def test_a_flood_of_data_that_holds_nothing(flooding: RawClient, part: bytes) -> None:
    await flooding.open(request_headers(ATTACH), end=False)
    for _ in range(200):
        await flooding.send(part * 200)


# --- H11: streams that are opened and given up


def live_readers() -> int:
    """Calls that a handler has begun to read, of a broker in this process."""
    return sum(task.get_name() == "rpc-reader" for task in asyncio.all_tasks())


async def outstanding(provider: Attached) -> Counter[str]:
    """What a provider is asked and has not been told to leave; read up to where nothing more is to come."""
    heard: Counter[str] = Counter()
    while (event := await provider.hear()) is not None:
        if isinstance(event, Ask):
            heard[event.query_id] += 1
            if event.query.goal == "the last":
                break
        elif isinstance(event, Cancel):
            heard[event.query_id] -= 1
    return +heard


@pytest.mark.parametrize("begun", [False, True], ids=["at once", "once handlers have begun"])
async def test_h11_rapid_resets_leave_nothing_behind_and_harm_no_one(raw: RawClient, other: Peer, begun: bool) -> None:
    """Thousands of calls; another client's go on meanwhile, and the provider that was asked is told to leave each."""
    provider = await other.attach("a")
    body = message(compose_bytes(collect_timeout=20.0))
    most = 0
    for i in range(10 if begun else 50):
        opened, given_up = b"", b""
        for _ in range(100):
            stream, head = raw.head(request_headers(COMPOSE))
            opened += head + frame(DATA, END_STREAM, stream, body)
            given_up += reset(stream)
        await raw.send(opened)
        if begun:
            # Answered behind them, so that those of them that were taken have begun.
            await other.providers()
            most = max(most, live_readers())
        await raw.send(given_up)
        if i % 10 == 0:
            assert (await answered(other.compose(**inline()))).error is None
    assert most <= 100
    last = asyncio.create_task(other.compose(goal="the last", collect_timeout=20.0))
    left = await outstanding(provider)
    assert len(left) <= 1, "a query of a call that was given up is left"
    last.cancel()
    await asyncio.wait([last])
    provider.call.cancel()


async def test_h11_resets_on_many_connections_harm_no_one(broker: Broker, other: Peer) -> None:
    """More than the core queues by itself before it refuses callers by lot."""
    async with contextlib.AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(RawClient.connect(broker.address)) for _ in range(25)]
        for client in clients:
            data = b""
            for _ in range(100):
                stream, head = client.head(request_headers(COMPOSE))
                data += head + frame(DATA, END_STREAM, stream, BODY) + reset(stream)
            await client.send(data)
        for _ in range(10):
            assert (await answered(other.compose(**inline()))).error is None


async def test_a_connection_has_no_more_calls_than_it_may(raw: RawClient) -> None:
    """Those beyond are refused so that a client's library may send them again."""
    await raw.send(b"".join(raw.head(request_headers(ATTACH))[1] for _ in range(150)))
    outcomes = [await answered(raw.over(2 * i + 1)) for i in range(150)]
    assert Counter(outcome.status for outcome in outcomes) == {"INVALID_ARGUMENT": 100, "RESET REFUSED_STREAM": 50}


async def test_connections_that_do_wrong_write_no_line_each(daemon: Daemon) -> None:
    """The core has lines of its own for this, one a connection; that none is there is seen when the daemon ends."""
    for _ in range(3):
        async with RawClient.connect(daemon.address) as client:
            outcome = await answered(client.call(request_headers(COMPOSE, ("grpc-timeout", "x")), BODY))
            assert outcome.status == "INTERNAL"
