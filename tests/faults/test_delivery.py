"""Delivery twice counts once, a replaced session cannot speak, and a full queue loses nothing in silence (P2, P13)."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

from broker.core.frames import Frame
from broker.errors import Aborted
from broker.gather.session import ProviderSession
from broker.rpc import provider_service, streams
from broker.rpc.server import Broker
from broker.wire.events import Cancel, LaneEnded, Rejection
from tests.faults.checking import checked, kept
from tests.faults.connections import connections
from tests.faults.histories import Asking, RecordedSession
from tests.faults.recording import Recording
from tests.rpc.peers import COMPOSE, Attached, Peer, frames, lanes
from tests.soaking import Soak

TIMES = 3
ITEMS = tuple((f"f{i}", 0.9 - i / 100) for i in range(9))

# --- P13


async def said_until(attached: Attached, count: int) -> list[str]:
    """The reasons of so many rejections, reading past what crosses them."""
    reasons: list[str] = []
    while len(reasons) < count:
        event = await attached.hear()
        assert isinstance(event, Cancel | Rejection), event
        if isinstance(event, Rejection):
            reasons += [violation.reason for violation in event.violations]
    return reasons


async def repeat(peer: Peer, chance: random.Random, provider: str) -> None:
    """Everything is said three times, in any order before the end."""
    attached = await peer.attach(provider)
    asking = await peer.composing(providers=(provider,), collect_timeout=20.0, max_tokens=50_000)
    ask = await attached.hear_ask()
    batches = [ITEMS[start : start + 3] for start in (0, 3, 6)] * TIMES
    chance.shuffle(batches)
    for batch in batches:
        await attached.frames(ask.query_id, frames(*batch))
    for _ in range(TIMES):
        await attached.say(LaneEnded(ask.query_id))
    # The second and third end, each told once.
    assert await said_until(attached, TIMES - 1) == ["QUERY_NOT_OPEN"] * (TIMES - 1)
    composition = (await asking.rest()).composition()
    assert lanes(composition) == {provider: "COMPLETE"}
    reasons: dict[str, list[str]] = {}
    for row in composition.audit:
        reasons.setdefault(row.frame_id, []).append(row.reason or "INCLUDED")
    assert {name: sorted(found) for name, found in reasons.items()} == {
        name: ["DUPLICATE", "DUPLICATE", "INCLUDED"] for name, _ in ITEMS
    }
    attached.call.cancel()


async def replace(peer: Peer, chance: random.Random, provider: str) -> None:
    """A session is replaced in the middle of its answer; what it said is in no lane and what it says is not heard."""
    old = await peer.attach(provider)
    asking = await peer.composing(providers=(provider,), collect_timeout=20.0, max_tokens=50_000)
    ask = await old.hear_ask()
    await old.frames(ask.query_id, frames(*((f"old{i}", 0.95) for i in range(chance.randint(1, 5)))))
    await asking.until(provider, "COLLECTING")
    new = await peer.attach(provider)
    error = await old.ended()
    assert isinstance(error, Aborted)
    assert error.reason == "FENCED"
    again = await new.hear_ask()
    # The old question is nobody's any more, for the new session neither.
    await new.frames(ask.query_id, frames(("stolen", 0.99)))
    assert await said_until(new, 1) == ["QUERY_NOT_OPEN"]
    await new.frames(again.query_id, frames(*ITEMS))
    await new.say(LaneEnded(again.query_id))
    composition = (await asking.rest()).composition()
    assert [row.frame_id for row in composition.audit] == [name for name, _ in ITEMS]
    assert all(row.included for row in composition.audit)
    new.call.cancel()


async def test_what_is_said_three_times_counts_once(peer: Peer) -> None:
    chance = random.Random(13)
    for number in range(10):
        await repeat(peer, chance, f"a{number}")


async def test_a_replaced_session_is_in_no_lane(peer: Peer) -> None:
    chance = random.Random(31)
    for number in range(10):
        await replace(peer, chance, f"b{number}")


@pytest.mark.soak
async def test_deliveries_and_replacements_by_the_thousand(peer: Peer, soak: Soak) -> None:
    chance, rounds = random.Random(133), soak.count(2000)
    for number in range(rounds):
        await repeat(peer, chance, f"a{number}")
        await replace(peer, chance, f"b{number}")
    soak.record("P13", batches_sent_three_times=3 * rounds, credited_twice=0, replacements=rounds, heard_after_it=0)


# --- P2


@pytest.fixture
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every queue of the broker's holds one."""
    monkeypatch.setattr(streams, "INBOX", 1)
    monkeypatch.setattr(streams, "OUTBOX", 1)
    monkeypatch.setattr(provider_service, "ProviderSession", partial(ProviderSession, outbox_limit=1))


async def crowd(
    folder: Path, address: str, *, providers: int, rounds: int, at_once: int, items: int, chance: random.Random
) -> dict[str, object]:
    """Many providers that answer in small batches, and orchestrators that read when they like."""
    (folder / "recordings").mkdir()
    async with connections(address, 8) as connect:
        recording = Recording(folder / "recordings" / "all.jsonl")
        sessions = [RecordedSession("h", f"p{i:03}", recording) for i in range(providers)]
        for session in sessions:
            assert await session.attach(connect(), "one", max_in_flight=1 if chance.random() < 0.1 else 64)

        async def answer(session: RecordedSession) -> None:
            number = 0
            while (query := await session.next_query()) is not None:
                for _ in range(items):
                    number += 1
                    frame = Frame(f"{session.provider}.{number}", "t", f"{session.provider} {number}", chance.random())
                    await session.send(query, [frame])
                await session.end(query)

        answering = [asyncio.create_task(answer(session)) for session in sessions]
        names = tuple(session.provider for session in sessions)
        for number in range(rounds):
            asking = [Asking("h", f"h.r{number}.{i}", connect().open(COMPOSE), recording) for i in range(at_once)]
            for each in asking:
                pause = chance.choice((0.0, 0.001))
                each.start(providers=names, collect_timeout=20.0, max_tokens=20_000, pause=pause)
            await asyncio.gather(*(each.task for each in asking))
        await asyncio.gather(*(session.finish() for session in sessions), *answering)
        recording.close()
    return await checked(folder / "recordings")


@pytest.mark.usefixtures("small_queues")
async def test_with_queues_of_one_nothing_is_lost(tmp_path: Path, broker: Broker) -> None:
    said = await crowd(tmp_path, broker.address, providers=100, rounds=1, at_once=3, items=4, chance=random.Random(2))
    assert said["exit"] == 0, kept(tmp_path / "recordings", said)
    assert said["counts"]["code OK"] == 3
    assert said["counts"]["offered"] > 1000


@pytest.mark.soak
@pytest.mark.usefixtures("small_queues")
async def test_with_queues_of_one_nothing_is_lost_for_long(tmp_path: Path, broker: Broker, soak: Soak) -> None:
    rounds, chance = soak.count(30), random.Random(2)
    said = await crowd(tmp_path, broker.address, providers=100, rounds=rounds, at_once=4, items=8, chance=chance)
    soak.record("P2", counts=said["counts"], problems=len(said["problems"]))
    assert said["exit"] == 0, kept(tmp_path / "recordings", said)
