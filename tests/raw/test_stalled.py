"""A caller that reads nothing is cut, is told so when it reads, costs little meanwhile, and harms only itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config import Config
from broker.core.composition import Composition
from broker.core.frames import Frame
from broker.errors import ResourceExhausted
from broker.wire.requests import InlineLane
from tests.raw.asking import BODY, answered, inline
from tests.raw.daemon import Daemon, serves
from tests.raw.http2 import WINDOW_UPDATE, RawClient, frame, message, request_headers, settings
from tests.rpc.peers import COMPOSE, SAFETY, Peer, compose_bytes
from tests.soaking import Soak


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0", "stall_seconds": 0.5})


def question(frames: int, size: int, **more: object) -> bytes:
    """The body of a call that is answered with so many frames of so many bytes of content."""
    sent = tuple(Frame(id=str(i), title="t", content=f"{i:04}" * (size // 4), score=0.5) for i in range(frames))
    return message(
        compose_bytes(**inline(inline_lanes=(InlineLane("mine", frames=sent),), max_tokens=1_000_000, **more))
    )


OPENINGS: dict[str, Callable[[int], bytes]] = {
    "of the stream": lambda stream: frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**30)),
    "of all streams": lambda _: settings(INITIAL_WINDOW_SIZE=2**30),
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
@pytest.mark.parametrize("window", [0, 50_000], ids=["from the start", "half way"])
async def test_h12_who_reads_nothing_is_cut_and_told_why_when_the_window_opens(
    raw: RawClient, other: Peer, window: int, opening: Callable[[int], bytes]
) -> None:
    await raw.send(settings(INITIAL_WINDOW_SIZE=window))
    stream = await raw.open(request_headers(COMPOSE), question(20, 20_000, request_id="r"))
    await answered(raw.outcomes[stream].begun.wait())
    # The name is free again once the call was given up.
    while (await other.compose(**inline(request_id="r"))).error is not None:
        pass
    await raw.send(opening(stream))
    outcome = await answered(raw.over(stream))
    assert isinstance(outcome.error, ResourceExhausted)
    assert outcome.reason == "SLOW_CONSUMER"
    assert outcome.error.quota == "server.stall_seconds"
    assert outcome.error.retry_after is not None


async def test_h12_nothing_of_what_was_composed_is_kept_for_a_caller_that_was_cut(raw: RawClient, other: Peer) -> None:
    # Those that other suites of this process hold on to.
    elsewhere = [thing for thing in gc.get_objects() if isinstance(thing, Composition)]
    known = {id(thing) for thing in elsewhere}
    await raw.send(settings(INITIAL_WINDOW_SIZE=0))
    stream = await raw.open(request_headers(COMPOSE), question(20, 20_000, request_id="r"))
    await answered(raw.outcomes[stream].begun.wait())
    while (await other.compose(**inline(request_id="r"))).error is not None:
        pass
    async with asyncio.timeout(SAFETY):
        while any(isinstance(thing, Composition) and id(thing) not in known for thing in gc.get_objects()):
            await other.providers()
    assert not raw.outcomes[stream].done.is_set(), "the caller is still there, and has read nothing"


async def test_h12_a_window_that_opens_in_time_costs_nothing(raw: RawClient) -> None:
    await raw.send(settings(INITIAL_WINDOW_SIZE=0))
    stream = await raw.open(request_headers(COMPOSE), question(5, 20_000))
    await raw.send(OPENINGS["of the stream"](stream))
    assert (await answered(raw.over(stream))).status == "OK"


async def test_h12_the_other_calls_of_its_connection_are_answered(raw: RawClient) -> None:
    await raw.send(settings(INITIAL_WINDOW_SIZE=0))
    stalled = await raw.open(request_headers(COMPOSE), question(5, 20_000))
    await raw.send(settings(INITIAL_WINDOW_SIZE=2**30) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))
    assert (await answered(raw.call(request_headers(COMPOSE), BODY))).status == "OK"
    assert (await answered(raw.over(stalled))).status == "OK"


@pytest.mark.soak
async def test_p9_a_hundred_callers_that_read_nothing_cost_little_and_slow_no_one(tmp_path: Path, soak: Soak) -> None:
    """Half of them give no window, half stop reading their socket. Each is answered with 256 KiB of content."""
    callers, body, loop = soak.count(100), question(64, 4096), asyncio.get_running_loop()
    with Daemon.running(
        tmp_path / "log", limits={"tenant_requests": 512, "tenant_calls_per_second": 100_000}
    ) as daemon:
        for _ in range(5):
            async with RawClient.connect(daemon.address) as client:
                assert (await client.call(request_headers(COMPOSE), body)).status == "OK"
        before = p99(await serves(daemon.address, calls=500))
        resident = daemon.resident
        async with contextlib.AsyncExitStack() as opened:
            stalled = []
            for i in range(callers):
                client = await opened.enter_async_context(RawClient.connect(daemon.address, window=65_535 * (i % 2)))
                stalled.append((client, await client.open(request_headers(COMPOSE), body)))
            # What making their answers takes of the processor is not what is measured.
            await asyncio.gather(*(client.outcomes[stream].begun.wait() for client, stream in stalled))
            begun = loop.time()
            during = p99(await serves(daemon.address, calls=500))
            cost = (daemon.resident - resident) / callers
            assert loop.time() - begun < 10.0, "they were cut before what they cost was measured"
            for client, stream in stalled:
                # Nothing tells from outside that they were cut, so each is let read a while after.
                await asyncio.sleep(max(0.0, begun + 12.0 - loop.time()))
                await client.send(OPENINGS["of the stream"](stream))
                assert (await client.over(stream)).reason == "SLOW_CONSUMER"
    soak.record(
        "P9",
        callers=callers,
        admitted_mib=round(64 * 4096 / 2**20, 2),
        cost_mib_each=round(cost, 2),
        others_p99_ms_before=round(before * 1000, 1),
        others_p99_ms_during=round(during * 1000, 1),
    )
    # Beyond the frames that were admitted, and once more as they are rendered.
    assert cost - 2 * 64 * 4096 / 2**20 <= 1.0


def p99(waits: list[float]) -> float:
    return sorted(waits)[len(waits) * 99 // 100]
