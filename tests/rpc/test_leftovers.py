"""However a request ends, it leaves no task, timer, object or descriptor behind."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from broker.config import Config
from broker.core.frames import Frame
from broker.gather.answer import Answer
from broker.gather.asked import Asked
from broker.gather.attempt import Attempt
from broker.gather.collect import Collection
from broker.gather.lane import OpenLane
from broker.gather.quarantine import Permit
from broker.gather.session import ProviderSession
from broker.rpc.streams import Stream
from broker.wire.events import Batch, Cancel, Detached, LaneEnded
from tests.rpc.peers import COMPOSE, SAFETY, Attached, Peer, compose_bytes, frames

KEPT = (Asked, Attempt, Collection, OpenLane, Answer, Permit, ProviderSession, Stream)
DESCRIPTORS = Path("/proc/self/fd")

LIE = Frame(id="x", title="t", content="c", score=0.5, token_cost=99)


def counted() -> Counter[str]:
    """What there is now of all that a request may leave."""
    gc.collect()
    found: Counter[str] = Counter()
    for task in asyncio.all_tasks():
        found[f"task {task.get_coro().__qualname__}"] += 1
    for each in gc.get_objects():
        if type(each) in KEPT:
            found[f"object {type(each).__name__}"] += 1
    # Those that the loop has forgotten already stand there until their time.
    timers = getattr(asyncio.get_running_loop(), "_scheduled", ())
    found["timers"] = sum(not timer.cancelled() for timer in timers)
    found["descriptors"] = len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.exists() else 0
    return found


async def complete(peer: Peer, provider: Attached) -> None:
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    await provider.answer(frames(("x", 0.5)))
    assert (await composing).error is None


async def failed(peer: Peer, provider: Attached) -> None:
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    await provider.answer([], failed=True)
    assert (await composing).error is not None


async def refused(peer: Peer, provider: Attached) -> None:
    assert (await peer.compose(max_tokens=0)).error is not None


async def timed_out(peer: Peer, provider: Attached) -> None:
    composing = asyncio.create_task(peer.compose(collect_timeout=0.3))
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    assert (await composing).error is None
    assert await provider.hear() == Cancel(ask.query_id)


async def cancelled(peer: Peer, provider: Attached) -> None:
    composing = await peer.composing(collect_timeout=SAFETY)
    ask = await provider.hear_ask()
    composing.call.cancel()
    assert await provider.hear() == Cancel(ask.query_id)


async def out_of_callers_time(peer: Peer, provider: Attached) -> None:
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY, deadline=0.05))
    ask = await provider.hear_ask()
    await composing
    assert await provider.hear() == Cancel(ask.query_id)


async def half_sent(peer: Peer, provider: Attached) -> None:
    call = peer.open(COMPOSE)
    await call.write(compose_bytes())
    call.cancel()


async def unreadable_batch(peer: Peer, provider: Attached) -> None:
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    ask = await provider.hear_ask()
    await provider.say(Batch(ask.query_id, b"\xff"))
    await provider.hear()
    await provider.say(LaneEnded(ask.query_id))
    await composing


async def no_push(peer: Peer, provider: Attached) -> None:
    await peer.compose(expect_pushes=("p",), no_providers=True, collect_timeout=0.05)


async def session_ended(peer: Peer, provider: Attached) -> None:
    other = await peer.attach("b")
    composing = asyncio.create_task(peer.compose(providers=("b",), collect_timeout=SAFETY))
    await other.hear_ask()
    other.call.cancel()
    assert (await composing).error is not None


async def detached(peer: Peer, provider: Attached) -> None:
    other = await peer.attach("b")
    composing = asyncio.create_task(peer.compose(providers=("b",), collect_timeout=SAFETY))
    ask = await other.hear_ask()
    await other.say(Detached())
    await other.say(LaneEnded(ask.query_id))
    await composing
    await other.call.done_writing()
    assert await other.ended() is None


async def lied(peer: Peer, provider: Attached) -> None:
    other = await peer.attach("liar")
    composing = asyncio.create_task(peer.compose(providers=("liar",), collect_timeout=SAFETY))
    ask = await other.hear_ask()
    await other.frames(ask.query_id, [LIE])
    await composing
    other.call.cancel()
    await peer.call("/contextbroker.v1.OperatorService/ReleaseProvider", b"\x0a\x04liar")


async def hedged(peer: Peer, provider: Attached) -> None:
    one, two = await peer.attach("hedged", "1"), await peer.attach("hedged", "2")
    composing = asyncio.create_task(peer.compose(providers=("hedged",), collect_timeout=SAFETY))
    asks = await asyncio.gather(one.hear_ask(), two.hear_ask())
    await two.say(LaneEnded(asks[1].query_id))
    await composing
    assert await one.hear() == Cancel(asks[0].query_id)
    one.call.cancel()
    two.call.cancel()


ENDINGS = [
    complete,
    failed,
    refused,
    timed_out,
    cancelled,
    out_of_callers_time,
    half_sent,
    unreadable_batch,
    no_push,
    session_ended,
    detached,
    lied,
    hedged,
]


@pytest.fixture
def broker_config() -> Config:
    # Here every request fails at will, and none may open a circuit.
    return Config(
        server={"listen": "127.0.0.1:0"},
        conduct={"breaker_failures": 0},
        providers={"hedged": {"hedge_seconds": 0.01}},
    )


@pytest.fixture(autouse=True)
def _only_what_is_new() -> Iterator[None]:
    """The collector looks at what was made since, and not at all that the suite has loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
async def test_a_request_that_has_ended_leaves_nothing(
    peer: Peer, ending: Callable[[Peer, Attached], Awaitable[None]]
) -> None:
    provider = await peer.attach("a")
    left: Counter[str] = Counter()
    try:
        async with asyncio.timeout(SAFETY):
            # What is made once, such as a connection, is there after the first.
            await ending(peer, provider)
            await settled(peer)
            before = await settled(peer)
            for _ in range(3):
                await ending(peer, provider)
            while left := await settled(peer) - before:
                pass
    except TimeoutError:
        assert left == Counter()
        raise


async def settled(peer: Peer) -> Counter[str]:
    """What there is once another call has gone through, for calls of one connection are taken in order."""
    await peer.providers()
    return counted()


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
async def test_a_request_that_has_ended_leaves_nothing_of_the_broker_s_to_the_collector(
    peer: Peer, ending: Callable[[Peer, Attached], Awaitable[None]]
) -> None:
    """What is part of a circle stays until the collector comes round, which may be long."""
    provider = await peer.attach("a")
    await ending(peer, provider)
    await settled(peer)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(3):
            await ending(peer, provider)
        await settled(peer)
        found = Counter(type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("broker"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert found.keys() <= OF_AN_ABORT


OF_AN_ABORT = {"Admission", "Call", "Caller", "Changed", "Holding", "InvalidArgument", "Stream", "Unavailable"}
"""What grpc.aio keeps of a call that was refused: it holds the error that it raises, whose traceback holds the call."""
