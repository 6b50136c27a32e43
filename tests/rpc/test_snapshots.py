"""Snapshots are whole compositions of the lanes that have ended, and change nothing of the composition that follows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from structlog.testing import capture_logs

from broker.core.compose import compose
from broker.core.composition import Composition
from broker.core.frames import Frame
from broker.core.lanes import Lane, LaneEnd
from broker.core.request import CompositionRequest, PartialLanes, Rerank
from broker.errors import ResourceExhausted
from broker.rpc.snapshots import FRAME_SECONDS, MOST_SECONDS, TOKEN_SECONDS, Snapshots
from broker.rpc.streams import ClientGone
from broker.wire.requests import InlineLane
from broker.wire.snapshots import Snapshot, SnapshotReader
from tests.core.building import POLICY, frame, lane
from tests.rpc.peers import SAFETY, Answer, Composing, Peer, frames, lanes, ranked, rows

LONG = 20.0
"""A collect timeout that no test waits for."""


def snapshots_of(answer: Answer) -> list[Snapshot]:
    """Every whole snapshot of an answer."""
    reader = SnapshotReader(answer.responses[0].accepted.request_id)
    found = (reader.take(one.snapshot) for one in answer.responses if one.HasField("snapshot"))
    return [snapshot for snapshot in found if snapshot is not None]


def final(answer: Answer) -> bytes:
    """The composition itself, without the name that each call gets anew, however many messages brought it."""
    whole = composition_pb2.Part()
    for one in answer.responses:
        whole.MergeFrom(one.part)
    whole.completed.ClearField("composition_id")
    return whole.SerializeToString(deterministic=True)


async def until_snapshot(composing: Composing, number: int) -> None:
    """Reads up to the end of a snapshot."""
    while True:
        async with asyncio.timeout(SAFETY):
            message = await composing.call.read()
        composing.read.append(message)
        snapshot = pb.ComposeResponse.FromString(message).snapshot
        if snapshot.number == number and snapshot.part.HasField("completed"):
            return


# --- over a connection


async def test_each_lane_that_ends_while_others_collect_gives_a_whole_composition(peer: Peer) -> None:
    a, b, c = await peer.attach("a"), await peer.attach("b"), await peer.attach("c")
    composing = await peer.composing(collect_timeout=LONG, request_id="r", snapshots=True)
    await b.answer(frames(("b1", 0.9), ("b2", 0.1)))
    await until_snapshot(composing, 1)
    await a.answer(frames(("a1", 0.5)))
    await until_snapshot(composing, 2)
    await c.answer(frames(("c1", 0.7)))
    answer = await composing.rest()
    first, second = snapshots_of(answer)
    assert [(one.number, one.collecting) for one in (first, second)] == [(1, ("a", "c")), (2, ("c",))]
    assert rows(first.composition) == {("b", "b1"): "", ("b", "b2"): ""}
    assert ranked(second.composition) == ["a1", "b1", "b2"]
    assert [lane.provider for lane in second.composition.summary.lanes] == ["a", "b"]
    whole = answer.composition()
    assert ranked(whole) == ["a1", "b1", "c1", "b2"]
    assert {one.composition.composition_id for one in (first, second)} == {whole.composition_id}
    assert {one.composition.request_id for one in (first, second)} == {"r"}
    # Each is told after the lane that it follows.
    kinds = [kind for index, kind in enumerate(answer.kinds) if index == 0 or answer.kinds[index - 1] != kind]
    assert kinds[:5] == ["accepted", "lane_updates", "snapshot", "lane_updates", "snapshot"]


async def test_who_does_not_ask_gets_none_and_a_lone_lane_gives_none(peer: Peer) -> None:
    a = await peer.attach("a")
    for asked in ({"snapshots": True}, {}):
        answer = asyncio.create_task(peer.compose(collect_timeout=LONG, **asked))
        await a.answer(frames(("x", 0.5)))
        assert "snapshot" not in (await answer).kinds
    b = await peer.attach("b")
    composing = await peer.composing(collect_timeout=LONG)
    await a.answer(frames(("x", 0.5)))
    await composing.until("a", "COMPLETE")
    await b.answer(frames(("y", 0.5)))
    assert "snapshot" not in (await composing.rest()).kinds


async def test_the_composition_has_the_same_bytes_with_and_without_them_however_lanes_arrive(peer: Peer) -> None:
    rng = random.Random(4)
    names = ["a", "b", "c", "d"]
    providers = {name: await peer.attach(name) for name in names}
    offered = {
        name: [Frame(f"{name}{i}", "t", f"content {rng.randrange(12)} " * rng.randrange(1, 9), i / 9) for i in range(9)]
        for name in names
    }
    asked: dict[str, Any] = {"collect_timeout": LONG, "max_tokens": 900, "include_local_scores": True}
    seen: set[bytes] = set()
    counts = []
    for turn in range(12):
        composing = await peer.composing(**asked, request_id="r", snapshots=turn % 3 > 0)
        for place, name in enumerate(rng.sample(names, len(names))):
            await providers[name].answer(offered[name])
            # One that comes for sure, or as many as there happen to be.
            if turn % 3 == 1 and place == 0:
                await until_snapshot(composing, 1)
        answer = await composing.rest()
        counts.append(len(snapshots_of(answer)))
        seen.add(final(answer))
    assert len(seen) == 1
    assert set(counts[::3]) == {0}
    assert min(counts[1::3]) >= 1


async def test_they_rank_without_the_reranker_and_the_composition_with_it(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = await peer.composing(rerank=Rerank("lexical", top_n=1), collect_timeout=LONG, snapshots=True)
    await a.answer(frames(("a1", 0.9), ("a2", 0.1)))
    await until_snapshot(composing, 1)
    await b.answer([])
    answer = await composing.rest()
    (snapshot,) = snapshots_of(answer)
    assert ranked(snapshot.composition) == ["a1", "a2"]
    assert snapshot.composition.summary.rerank is None
    assert len(answer.composition().placed) == 1
    assert answer.composition().summary.rerank is not None


async def test_what_would_be_no_answer_is_no_snapshot(peer: Peer) -> None:
    a, b, c = await peer.attach("a"), await peer.attach("b"), await peer.attach("c")
    composing = await peer.composing(collect_timeout=LONG, required_providers=("b",), snapshots=True)
    await a.answer(frames(("a1", 0.5)))
    await composing.until("a", "COMPLETE")
    await b.answer(frames(("b1", 0.5)))
    await until_snapshot(composing, 1)
    await c.answer([], failed=True)
    (snapshot,) = snapshots_of(await composing.rest())
    assert snapshot.collecting == ("c",)
    composing = await peer.composing(collect_timeout=LONG, partial_lanes=PartialLanes.DROP, snapshots=True)
    await a.answer(frames(("a1", 0.5)), failed=True)
    await composing.until("a", "FAILED")
    await b.answer([])
    await until_snapshot(composing, 1)
    await c.answer([])
    (snapshot,) = snapshots_of(await composing.rest())
    assert lanes(snapshot.composition) == {"a": "FAILED", "b": "EMPTY"}
    assert rows(snapshot.composition) == {("a", "a1"): "LANE_PARTIAL"}


async def test_the_callers_own_lanes_stand_in_every_one(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    notes = InlineLane("notes", frames=tuple(frames(("n", 0.1))))
    composing = await peer.composing(collect_timeout=LONG, inline_lanes=(notes,), snapshots=True)
    await b.answer([], failed=True)
    await until_snapshot(composing, 1)
    await a.answer([])
    (snapshot,) = snapshots_of(await composing.rest())
    assert lanes(snapshot.composition) == {"b": "FAILED", "notes": "COMPLETE"}
    assert ranked(snapshot.composition) == ["n"]


async def test_a_caller_that_reads_late_gets_the_composition_whole(peer: Peer) -> None:
    """Each snapshot of these is larger than what a connection takes unread."""
    providers = {name: await peer.attach(name) for name in "abcd"}
    large = {name: [Frame(f"{name}{i}", "t", f"{name}{i}" * 40_000, i / 9) for i in range(9)] for name in providers}
    asked: dict[str, Any] = {"collect_timeout": LONG, "max_tokens": 1_000_000, "request_id": "r"}
    composing = await peer.composing(**asked, snapshots=True)
    for name, provider in providers.items():
        await provider.answer(large[name])
        if name == "a":
            await until_snapshot(composing, 1)
    late = await composing.rest()
    assert late.error is None
    composing = await peer.composing(**asked)
    for name, provider in providers.items():
        await provider.answer(large[name])
    assert final(late) == final(await composing.rest())


async def test_a_caller_that_leaves_takes_them_along(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = await peer.composing(collect_timeout=LONG, snapshots=True)
    await a.answer(frames(("x", 0.5)))
    await until_snapshot(composing, 1)
    ask = await b.hear_ask()
    composing.call.cancel()
    cancelled = await b.hear()
    assert cancelled is not None
    assert getattr(cancelled, "query_id", "") == ask.query_id


# --- when they are made, and when not


class Outlet:
    """An answer that takes what it is allowed to."""

    def __init__(self) -> None:
        self.parts: list[pb.Snapshot] = []
        self.room = asyncio.Event()
        self.room.set()
        self.failure: Exception | None = None

    async def snapshot(self, message: bytes) -> None:
        await self.room.wait()
        if self.failure is not None:
            raise self.failure
        self.parts.append(pb.ComposeResponse.FromString(message).snapshot)


class Maker:
    """Composes when it is let."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.begun = asyncio.Event()
        self.let = asyncio.Event()
        self.let.set()

    async def __call__(self, given: Sequence[Lane], large: bool) -> Composition:
        assert not large
        self.asked.append([lane.provider for lane in given])
        self.begun.set()
        await self.let.wait()
        return compose(given, CompositionRequest(max_tokens=4000), POLICY)


def ended(provider: str, count: int = 1) -> Lane:
    return lane(provider, [frame(f"{provider}{i}", 0.5, f"{provider} {i}") for i in range(count)])


def made(
    outlet: Outlet,
    maker: Callable[[Sequence[Lane], bool], Awaitable[Composition]],
    wanted: Sequence[str] = ("a", "b", "c", "d"),
    seconds: float = LONG,
) -> tuple[Snapshots, asyncio.Task[None]]:
    until = asyncio.get_running_loop().time() + seconds
    answer: Any = outlet
    snapshots = Snapshots(answer, wanted, (), until, is_answer=lambda _: True, compose=maker)
    return snapshots, asyncio.create_task(snapshots.run())


async def settled(task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(SAFETY):
        await task


async def test_lanes_that_end_while_one_is_made_share_the_next() -> None:
    outlet, maker = Outlet(), Maker()
    maker.let.clear()
    snapshots, running = made(outlet, maker)
    snapshots.lane_ended(ended("c"))
    await maker.begun.wait()
    snapshots.lane_ended(ended("a"))
    snapshots.lane_ended(ended("b"))
    maker.begun.clear()
    maker.let.set()
    await maker.begun.wait()
    snapshots.lane_ended(ended("d"))
    await settled(running)
    assert maker.asked == [["c"], ["c", "a", "b"]]
    assert {part.number for part in outlet.parts} <= {1, 2}
    assert [list(part.collecting) for part in outlet.parts if part.number == 1][-1] == ["a", "b", "d"]


async def test_one_that_might_last_until_collecting_ends_is_not_begun() -> None:
    outlet, maker = Outlet(), Maker()
    snapshots, running = made(outlet, maker, seconds=99 * FRAME_SECONDS)
    snapshots.lane_ended(ended("a", 100))
    await settled(running)
    assert maker.asked == []


@pytest.mark.parametrize(
    ("number", "size"), [(int(MOST_SECONDS / FRAME_SECONDS) + 1, 1), (1, 8 * int(MOST_SECONDS / TOKEN_SECONDS))]
)
async def test_one_that_could_hold_up_the_composition_for_long_is_not_begun(number: int, size: int) -> None:
    outlet, maker = Outlet(), Maker()
    snapshots, running = made(outlet, maker)
    snapshots.lane_ended(lane("a", [frame(f"a{i}", 0.5, "x" * size) for i in range(number)]))
    await settled(running)
    assert maker.asked == []


async def test_behind_one_others_have_their_turn_and_lanes_that_end_meanwhile_share_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []
    resting, rested = asyncio.Event(), asyncio.Event()

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        resting.set()
        await rested.wait()

    monkeypatch.setattr("broker.rpc.snapshots.asyncio.sleep", rest)
    outlet, maker = Outlet(), Maker()
    snapshots, running = made(outlet, maker)
    snapshots.lane_ended(ended("a"))
    await resting.wait()
    snapshots.lane_ended(ended("b"))
    snapshots.lane_ended(ended("c"))
    rested.set()
    while len(rests) < 2:
        resting.clear()
        await resting.wait()
    snapshots.lane_ended(ended("d"))
    await settled(running)
    assert maker.asked == [["a"], ["a", "b", "c"]]
    assert min(rests) > 0


async def test_when_the_last_lane_has_ended_nothing_more_is_sent_of_one() -> None:
    outlet, maker = Outlet(), Maker()
    outlet.room.clear()
    snapshots, running = made(outlet, maker, wanted=("a", "b"))
    snapshots.lane_ended(ended("a"))
    await maker.begun.wait()
    snapshots.lane_ended(ended("b"))
    outlet.room.set()
    await settled(running)
    assert len(outlet.parts) <= 1
    assert all(not snapshot.part.HasField("completed") for snapshot in outlet.parts)


async def test_at_most_one_part_waits_to_be_written_and_is_given_up_when_collecting_ends() -> None:
    outlet, maker = Outlet(), Maker()
    outlet.room.clear()
    snapshots, running = made(outlet, maker)
    snapshots.lane_ended(ended("a"))
    await maker.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settled(running)
    assert outlet.parts == []


@pytest.mark.parametrize(
    "failure", [ClientGone(), ResourceExhausted("SLOW_CONSUMER", "slow", quota="q", retry_after=1.0)]
)
async def test_a_reader_that_is_slow_or_gone_ends_them_and_nothing_else(failure: Exception) -> None:
    outlet, maker = Outlet(), Maker()
    outlet.failure = failure
    snapshots, running = made(outlet, maker)
    snapshots.lane_ended(ended("a"))
    await settled(running)
    snapshots.lane_ended(ended("b"))
    assert maker.asked == [["a"]]


async def test_a_fault_in_one_is_logged_and_ends_them_and_nothing_else() -> None:
    async def broken(_given: Sequence[Lane], _large: bool) -> Composition:
        raise LookupError("of theirs alone")

    snapshots, running = made(Outlet(), broken)
    with capture_logs() as logs:
        snapshots.lane_ended(Lane("a", None, LaneEnd.EMPTY))
        await settled(running)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("snapshot failed; the request goes on without any", "error")
    ]
