"""A caller is told all in order, in as few messages as keep it waiting for no more than a moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.core.lanes import LaneEnd, LaneUpdate
from broker.rpc import answering
from broker.rpc.answering import TOGETHER_BYTES, TOLD_AT_ONCE, Answer
from broker.rpc.streams import ClientGone
from broker.wire.updates import Accepted, accepted_message, read_lane_updates

ACCEPTED = accepted_message(Accepted("c", "r", ())).SerializeToString()
LONG = 60.0


class Outlet:
    """A stream that has room, or not, and hands on what it was given, or not."""

    def __init__(self) -> None:
        self.messages: list[pb.ComposeResponse] = []
        self.opened = False
        self.free = asyncio.Event()
        self.written = asyncio.Event()
        self.free.set()
        self.written.set()
        self.gone = False

    def open(self) -> None:
        self.opened = True

    @property
    def full(self) -> bool:
        return not self.free.is_set()

    async def room(self) -> None:
        while self.full:
            await self.free.wait()
        if self.gone:
            raise ClientGone

    def post(self, message: bytes) -> None:
        assert not self.full
        self.messages.append(pb.ComposeResponse.FromString(message))

    async def flush(self) -> None:
        await self.written.wait()

    @property
    def told(self) -> list[list[LaneUpdate]]:
        """The lanes that each message tells of, where it tells of any."""
        told = [list(read_lane_updates(message.lane_updates)) for message in self.messages]
        return [updates for updates in told if updates]

    @property
    def kinds(self) -> list[list[str]]:
        return [[field.name for field, _ in message.ListFields()] for message in self.messages]


@pytest.fixture
def outlet() -> Outlet:
    return Outlet()


@pytest.fixture
async def answer(outlet: Outlet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Answer]:
    """One in which nothing waits for long; :func:`hold` has it wait."""
    monkeypatch.setattr(answering, "TOGETHER_SECONDS", 0.0)
    stream: Any = outlet
    made = Answer(stream)
    yield made
    made.close()


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(answering, "TOGETHER_SECONDS", LONG)


async def turns() -> None:
    """Returns when all that can happen has happened."""
    for _ in range(5):
        await asyncio.sleep(0.001)


def frames(provider: str, count: int = 1) -> LaneUpdate:
    return LaneUpdate(provider, None, count)


def ended(provider: str, count: int = 1) -> LaneUpdate:
    return LaneUpdate(provider, LaneEnd.COMPLETE, count)


def part(*, size: int = 0, number: int = 1) -> bytes:
    """An encoded part of about so many bytes."""
    return composition_pb2.Part(
        placed=[composition_pb2.Placed(position=number, rendered="x" * size)]
    ).SerializeToString()


def end() -> bytes:
    return composition_pb2.Part(completed=composition_pb2.Completed(composition_id="c")).SerializeToString()


async def test_what_comes_within_a_moment_is_one_message(outlet, answer, hold):
    hold()
    answer.accept(ACCEPTED)
    telling = asyncio.create_task(answer.tell())
    answer.update(frames("a"))
    await turns()
    answer.update(ended("b"))
    answer.update(ended("a", 2))
    answer.end()
    await telling
    await answer.part(part())
    await turns()
    assert outlet.messages == []
    await answer.part(end())
    await answer.flush()
    assert outlet.kinds == [["accepted", "lane_updates", "part"]]
    assert outlet.told == [[ended("a", 2), ended("b")]]
    (message,) = outlet.messages
    assert [placed.position for placed in message.part.placed] == [1]
    assert message.part.completed.composition_id == "c"


async def test_the_head_of_the_answer_does_not_wait(outlet, answer, hold):
    hold()
    answer.accept(ACCEPTED)
    assert outlet.opened


async def test_what_has_waited_long_enough_is_told_while_lanes_are_collected(outlet, answer):
    answer.accept(ACCEPTED)
    telling = asyncio.create_task(answer.tell())
    await turns()
    assert outlet.kinds == [["accepted"]]
    for update in (frames("a"), frames("b"), ended("a", 7)):
        answer.update(update)
    await turns()
    assert outlet.told == [[ended("a", 7), frames("b")]]
    answer.update(ended("b", 3))
    await turns()
    assert outlet.told[1:] == [[ended("b", 3)]]
    answer.end()
    await telling


async def test_what_changes_while_a_message_is_written_is_told_together(outlet, answer):
    telling = asyncio.create_task(answer.tell())
    outlet.written.clear()
    answer.update(frames("a"))
    await turns()
    for update in (frames("b"), ended("a", 7)):
        answer.update(update)
        await turns()
    assert outlet.told == [[frames("a")]]
    answer.update(ended("b", 3))
    outlet.written.set()
    await turns()
    assert outlet.told[1:] == [[ended("b", 3), ended("a", 7)]]
    answer.end()
    await telling


async def test_what_is_due_as_the_last_lane_ends_does_not_wait_for_what_comes_next(outlet, answer):
    answer.accept(ACCEPTED)
    await turns()
    answer.update(ended("a"))
    answer.end()
    await answer.tell()
    await turns()
    assert outlet.kinds == [["accepted", "lane_updates"]]


async def test_parts_wait_for_no_more_than_a_moment_for_what_comes_after(outlet, answer):
    answer.end()
    await answer.tell()
    await answer.part(part(number=1))
    await answer.part(part(number=2))
    await turns()
    assert [[placed.position for placed in message.part.placed] for message in outlet.messages] == [[1, 2]]
    await answer.part(end())
    await answer.flush()
    assert outlet.kinds == [["part"], ["part"]]


async def test_what_has_waited_long_enough_waits_on_where_there_is_no_room(outlet, answer):
    answer.end()
    await answer.part(part())
    outlet.free.clear()
    await turns()
    assert outlet.messages == []
    flushing = asyncio.create_task(answer.flush())
    await turns()
    assert not flushing.done()
    outlet.free.set()
    await flushing
    assert outlet.kinds == [["part"]]


async def test_a_large_part_goes_at_once_behind_all_that_was_told_before(outlet, answer, hold):
    hold()
    answer.accept(ACCEPTED)
    answer.update(ended("a"))
    answer.end()
    await answer.tell()
    await answer.part(part(size=TOGETHER_BYTES, number=1))
    assert outlet.kinds == [["accepted", "lane_updates"], ["part"]]
    await answer.part(part(size=TOGETHER_BYTES // 2, number=2))
    await answer.part(part(size=TOGETHER_BYTES // 4, number=3))
    assert len(outlet.messages) == 2
    await answer.part(part(size=TOGETHER_BYTES // 2, number=4))
    await answer.part(end())
    await answer.flush()
    placed = [[placed.position for placed in message.part.placed] for message in outlet.messages]
    assert placed == [[], [1], [2, 3], [4]]
    assert outlet.messages[-1].part.HasField("completed")


async def test_no_message_tells_of_more_lanes_than_fit(outlet, answer, hold):
    hold()
    lanes = [f"p{number}" for number in range(TOLD_AT_ONCE * 2 + 1)]
    answer.accept(ACCEPTED)
    for name in lanes:
        answer.update(ended(name))
    answer.end()
    await answer.part(end())
    await answer.flush()
    assert [len(updates) for updates in outlet.told] == [TOLD_AT_ONCE, TOLD_AT_ONCE, 1]
    assert [update.provider for updates in outlet.told for update in updates] == lanes
    assert outlet.kinds == [["accepted", "lane_updates"], ["lane_updates"], ["lane_updates", "part"]]


async def test_a_snapshot_stands_alone_behind_what_was_told_before(outlet, answer, hold):
    hold()
    answer.accept(ACCEPTED)
    answer.update(ended("a"))
    message = pb.ComposeResponse(snapshot=pb.Snapshot(number=1)).SerializeToString()
    await answer.snapshot(message)
    await answer.snapshot(message)
    assert outlet.kinds == [["accepted", "lane_updates"], ["snapshot"], ["snapshot"]]


async def test_whoever_tells_hears_of_a_caller_that_is_gone(outlet, answer):
    outlet.gone = True
    answer.update(ended("a"))
    with pytest.raises(ClientGone):
        await answer.tell()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["turn", "snapshot", "block", "free"]), st.just("")),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.lists(st.sampled_from([0, TOGETHER_BYTES // 3, TOGETHER_BYTES]), max_size=5), st.booleans())
def test_however_it_comes_all_is_told_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, str]], sizes: list[int], waits: bool
) -> None:
    monkeypatch.setattr(answering, "TOGETHER_SECONDS", LONG if waits else 0.0)
    outlet = Outlet()
    asyncio.run(_told(outlet, steps, sizes))
    last = {name: number for number, (step, name) in enumerate(steps) if step == "update"}
    whole, latest = pb.ComposeResponse(), {}
    for message in outlet.messages:
        # Of what one message holds nothing belongs before what the messages before it hold.
        assert not (message.HasField("accepted") and whole.ListFields())
        assert not (message.HasField("lane_updates") and whole.HasField("part"))
        whole.MergeFrom(message)
        latest.update({update.provider: update.frames for update in read_lane_updates(message.lane_updates)})
    assert outlet.kinds[0][0] == "accepted"
    assert latest == last
    assert [placed.position for placed in whole.part.placed] == list(range(1, len(sizes) + 1))
    assert outlet.messages[-1].part.HasField("completed")
    assert outlet.kinds.count(["snapshot"]) == sum(step == "snapshot" for step, _ in steps)


async def _told(outlet: Outlet, steps: list[tuple[str, str]], sizes: list[int]) -> None:
    """Has an answer told step by step, while its caller reads or does not."""
    stream: Any = outlet
    answer = Answer(stream)
    answer.accept(ACCEPTED)
    telling = asyncio.create_task(answer.tell())
    sent = []
    for number, (step, name) in enumerate(steps):
        if step == "update":
            answer.update(frames(name, number))
        elif step == "turn":
            await asyncio.sleep(0)
        elif step == "snapshot":
            message = pb.ComposeResponse(snapshot=pb.Snapshot(number=1)).SerializeToString()
            sent.append(asyncio.create_task(answer.snapshot(message)))
        elif step == "block":
            outlet.free.clear()
        else:
            outlet.free.set()
    outlet.free.set()
    await asyncio.gather(*sent)
    answer.end()
    await telling
    for number, size in enumerate(sizes, 1):
        await answer.part(part(size=size, number=number))
    await answer.part(end())
    await answer.flush()
    answer.close()


async def test_nothing_is_told_of_nothing_nor_after_the_end(outlet, answer):
    answer.end()
    await answer.tell()
    await answer.flush()
    await answer.part(part())
    answer.close()
    await turns()
    assert outlet.messages == []
