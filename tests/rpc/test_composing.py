"""Compose end to end over a real connection: who is asked, what is answered, and how every lane ends."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace
from structlog.testing import capture_logs

from broker.config import Config
from broker.core.composition import Composition
from broker.core.frames import Frame
from broker.core.request import BudgetSplit, Floor, PartialLanes
from broker.core.scores import Direction, ScoreScale
from broker.core.strategies import ScoreDescending, TrustWeighted
from broker.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    Unavailable,
)
from broker.rpc import admission
from broker.rpc.answering import Answer as Answering
from broker.rpc.server import Broker
from broker.wire.batches import join_batch
from broker.wire.compositions import EncodedPart, encoded_parts
from broker.wire.events import Batch, Cancel, LaneEnded, Rejection
from broker.wire.requests import InlineLane
from tests.rpc.peers import (
    COMPOSE,
    SAFETY,
    Peer,
    compose_bytes,
    encoded,
    frames,
    lanes,
    ranked,
    read_all,
    rows,
    updates_of,
)
from tests.tokenizers.making import tiktoken_file

LONG = 20.0
"""A collect timeout that no test waits for."""


LYING = [replace(frame, token_cost=99) for frame in frames(("x", 0.5))]


async def asked(peer: Peer, **request: object) -> asyncio.Task:
    """A Compose call that is on its way, read in a task of its own."""
    request.setdefault("collect_timeout", LONG)
    return asyncio.create_task(peer.compose(**request))


# --- the happy path, and what a caller reads as it streams


async def test_two_providers_are_asked_at_once_and_placed(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer, goal="why", query_text="where", kinds=("doc",), anchors=("file:x",), max_tokens=1000)
    first, second = await a.hear_ask(), await b.hear_ask()
    assert first.query == second.query
    assert (first.query.goal, first.query.query_text) == ("why", "where")
    assert (first.query.kinds, first.query.anchors) == (("doc",), ("file:x",))
    assert (first.query.max_frames, first.query.max_tokens) == (256, 4000)
    for provider, ask in ((a, first), (b, second)):
        name = "a" if provider is a else "b"
        await provider.frames(ask.query_id, frames((f"{name}1", 0.9), (f"{name}2", 0.2)))
        await provider.say(LaneEnded(ask.query_id))
    composition = (await answer).composition()
    assert ranked(composition) == ["a1", "b1", "a2", "b2"]
    assert lanes(composition) == {"a": "COMPLETE", "b": "COMPLETE"}


async def test_an_answer_streams_in_order_and_ends_with_completed(peer: Peer) -> None:
    provider = await peer.attach("files")
    answer = await asked(peer, request_id="r-1")
    await provider.answer(frames(("a", 0.9), ("b", 0.8), ("c", 0.7)))
    done = await answer
    kinds = [kind for index, kind in enumerate(done.kinds) if index == 0 or done.kinds[index - 1] != kind]
    assert kinds == ["accepted", "lane_updates", "placed", "citations", "audit", "completed"]
    accepted, completed = done.responses[0].accepted, done.responses[-1].part.completed
    assert accepted.request_id == "r-1"
    assert accepted.composition_id == completed.composition_id != ""
    assert [lane.provider_id for lane in accepted.lanes] == ["files"]
    composition = done.composition()
    assert [placed.position for placed in composition.placed] == [1, 2, 3]
    assert [citation.position for citation in composition.citations] == [1, 2, 3]
    assert composition.prompt.count("<frame seal=") == 3


async def test_an_answer_that_comes_quickly_is_one_message(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.rpc.answering.TOGETHER_SECONDS", LONG)
    provider = await peer.attach("files")
    answer = await asked(peer)
    await provider.answer(frames(("a", 0.9), ("b", 0.8)))
    done = await answer
    assert done.kinds == ["accepted", "lane_updates", "placed", "citations", "audit", "completed"]
    assert len(done.messages) == 1


async def test_who_pushes_need_not_wait_to_hear_that_the_request_was_taken(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.rpc.answering.TOGETHER_SECONDS", LONG)
    composing = await peer.composing(expect_pushes=["logs"], request_id="r")
    async with asyncio.timeout(SAFETY):
        assert pb.ComposeResponse.FromString(await composing.call.read()).HasField("accepted")
    composing.call.cancel()


async def test_lane_updates_come_while_others_still_collect(peer: Peer) -> None:
    quick, slow = await peer.attach("quick"), await peer.attach("slow")
    composing = await peer.composing(collect_timeout=LONG)
    await quick.answer(frames(("q", 0.5)))
    await composing.until("quick", "COMPLETE")
    await slow.answer([])
    assert lanes((await composing.rest()).composition()) == {"quick": "COMPLETE", "slow": "EMPTY"}


async def test_ids_of_compositions_differ_and_sort_by_time(peer: Peer) -> None:
    lane = InlineLane("notes", frames=tuple(frames(("a", 0.5))))
    ids = [(await peer.compose(inline_lanes=(lane,))).composition().composition_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert [name[:13] for name in ids] == sorted(name[:13] for name in ids)


async def test_a_composition_is_logged_without_anything_that_was_said(peer: Peer) -> None:
    provider = await peer.attach("files")
    with capture_logs() as logs:
        answer = await asked(peer, goal="THE-GOAL", query_text="THE-QUERY")
        await provider.answer([Frame(id="THE-ID", title="THE-TITLE", content="THE-CONTENT", score=0.123456)])
        await answer
    (entry,) = [entry for entry in logs if entry["event"] == "composition"]
    assert entry["strategy"] == "round_robin"
    assert entry["lanes"] == {"files": "COMPLETE"}
    assert (entry["frames_offered"], entry["frames_placed"]) == (1, 1)
    assert "THE-" not in repr(logs)
    assert "123456" not in repr(logs)


# --- how lanes end


async def test_a_failing_provider_fails_its_lane_alone(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer)
    await a.answer(frames(("x", 0.5)))
    await b.answer([], failed=True, message="index is gone")
    composition = (await answer).composition()
    assert lanes(composition) == {"a": "COMPLETE", "b": "FAILED"}
    assert "index is gone" in composition.summary.lanes[1].message


async def test_all_providers_failing_is_unavailable_with_each_reason(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer)
    await a.answer([], failed=True, message="first reason")
    await b.answer([], failed=True, message="second reason")
    error = (await answer).error
    assert isinstance(error, Unavailable)
    assert error.reason == "ALL_LANES_FAILED"
    assert "first reason" in error.message
    assert "second reason" in error.message
    assert error.retry_after is None


async def test_the_log_of_a_failed_request_names_each_lane_and_no_words_of_others(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    with capture_logs() as logs:
        answer = await asked(peer, goal="the secret goal")
        await a.answer([], failed=True, message="the secret reason")
        await b.answer(LYING)
        error = (await answer).error
    assert isinstance(error, Unavailable)
    (line,) = [entry for entry in logs if entry["event"] == "call refused"]
    assert line["reason"] == "ALL_LANES_FAILED"
    assert line["lanes"] == {"a": "FAILED", "b": "REFUSED (COST_MISMATCH)"}
    assert line["composition_id"]
    assert "secret" not in str(logs)


async def test_a_provider_that_sits_out_says_for_how_long(peer: Peer) -> None:
    a = await peer.attach("a")
    answer = await asked(peer)
    await a.answer(LYING)
    caught, again = (await answer).error, (await peer.compose()).error
    assert isinstance(caught, Unavailable)
    assert isinstance(again, Unavailable)
    assert "frame 'x'" in caught.message
    assert "declared 99" in caught.message
    assert "QUARANTINED" in again.message
    assert caught.retry_after == 60.0
    assert again.retry_after is not None
    assert 50.0 < again.retry_after <= 60.0


async def test_failures_of_many_words_still_come_with_their_details(peer: Peer) -> None:
    providers = [await peer.attach(f"p{i}") for i in range(30)]
    answer = await asked(peer)
    for provider in providers:
        await provider.answer([], failed=True, message="💥" * 1000)
    error = (await answer).error
    assert isinstance(error, Unavailable)
    assert error.reason == "ALL_LANES_FAILED"


async def test_no_provider_at_all_is_unavailable(peer: Peer) -> None:
    error = (await peer.compose()).error
    assert isinstance(error, Unavailable)
    assert error.reason == "NO_PROVIDERS"
    assert error.retry_after is None
    assert "attach one" in error.message


async def test_a_request_that_wants_no_provider_and_brings_nothing_is_told_so(peer: Peer) -> None:
    await peer.attach("a")
    error = (await peer.compose(no_providers=True)).error
    assert isinstance(error, Unavailable)
    assert error.reason == "NO_PROVIDERS"
    assert "no_providers" in error.message
    assert "inline_lanes" in error.message
    assert "expect_pushes" in error.message


async def test_a_required_provider_that_fails_fails_the_request(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer, required_providers=("b",))
    await a.answer(frames(("x", 0.5)))
    await b.answer([], failed=True, message="index is gone")
    done = await answer
    assert set(done.kinds) == {"accepted", "lane_updates"}
    told = {update.provider_id: update.state for message in done.messages for update in updates_of(message)}
    assert told == {"a": composition_pb2.LANE_STATE_COMPLETE, "b": composition_pb2.LANE_STATE_FAILED}
    error = done.error
    assert isinstance(error, FailedPrecondition)
    assert error.reason == "REQUIRED_PROVIDER"
    assert [violation.field for violation in error.violations] == ["required_providers[0]"]
    assert "b: FAILED (index is gone)" in error.message


async def test_lanes_say_whether_they_were_partial_failed_or_complete(peer: Peer) -> None:
    a, b, c = await peer.attach("a"), await peer.attach("b"), await peer.attach("c")
    answer = await asked(peer, collect_timeout=1.5)
    ask = await a.hear_ask()
    await a.frames(ask.query_id, frames(("half", 0.5)))
    await b.answer([], failed=True, message="broken")
    await c.answer(frames(("whole", 0.5), ("more", 0.4)))
    composition = (await answer).composition()
    assert lanes(composition) == {"a": "PARTIAL", "b": "FAILED", "c": "COMPLETE"}
    assert [lane.offered for lane in composition.summary.lanes] == [1, 0, 2]
    # What comes later is for a query that is over.
    assert await a.hear() == Cancel(ask.query_id)
    await a.frames(ask.query_id, frames(("late", 0.5)))
    late = await a.hear()
    assert isinstance(late, Rejection)


async def test_a_silent_provider_does_not_hold_the_deadline_up(peer: Peer) -> None:
    silent, failing, good = await peer.attach("silent"), await peer.attach("failing"), await peer.attach("good")
    answer = await asked(peer, collect_timeout=1.5)
    await failing.answer([], failed=True)
    await good.answer(frames(("x", 0.5)))
    composition = (await answer).composition()
    assert lanes(composition) == {"silent": "TIMED_OUT", "failing": "FAILED", "good": "COMPLETE"}
    ask = await silent.hear_ask()
    assert await silent.hear() == Cancel(ask.query_id)


async def test_the_callers_own_deadline_is_kept_with_time_left_to_answer(peer: Peer) -> None:
    silent, good = await peer.attach("silent"), await peer.attach("good")
    answer = asyncio.create_task(peer.compose(collect_timeout=LONG, deadline=2.0))
    ask = await silent.hear_ask()
    assert ask.remaining_ms < 2000
    await good.answer(frames(("x", 0.5)))
    composition = (await answer).composition()
    assert lanes(composition) == {"good": "COMPLETE", "silent": "TIMED_OUT"}


async def test_partial_lanes_can_be_dropped(peer: Peer) -> None:
    slow, good = await peer.attach("slow"), await peer.attach("good")
    answer = await asked(peer, collect_timeout=1.5, partial_lanes=PartialLanes.DROP)
    ask = await slow.hear_ask()
    await slow.frames(ask.query_id, frames(("late", 0.5)))
    await good.answer(frames(("x", 0.5)))
    composition = (await answer).composition()
    assert rows(composition) == {("good", "x"): "", ("slow", "late"): "LANE_PARTIAL"}


async def test_a_provider_that_is_lost_is_replaced_by_its_other_instance(peer: Peer) -> None:
    first = await peer.attach("a", "1")
    answer = await asked(peer)
    ask = await first.hear_ask()
    await first.frames(ask.query_id, frames(("lost", 0.5)))
    second = await peer.attach("a", "2")
    first.call.cancel()
    await second.answer(frames(("found", 0.5)))
    composition = (await answer).composition()
    assert rows(composition) == {("a", "found"): ""}


async def test_a_provider_lost_without_another_keeps_what_came(peer: Peer) -> None:
    lost, good = await peer.attach("lost"), await peer.attach("good")
    composing = await peer.composing(collect_timeout=LONG)
    ask = await lost.hear_ask()
    await lost.frames(ask.query_id, frames(("kept", 0.5)))
    await composing.until("lost", "COLLECTING")
    lost.call.cancel()
    await composing.until("lost", "LOST")
    await good.answer(frames(("x", 0.5)))
    composition = (await composing.rest()).composition()
    assert lanes(composition) == {"good": "COMPLETE", "lost": "LOST"}
    assert rows(composition) == {("good", "x"): "", ("lost", "kept"): ""}


# --- the caller goes away


async def test_a_cancelled_caller_cancels_its_providers_at_once(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = await peer.composing(collect_timeout=LONG, request_id="r")
    asks = [await a.hear_ask(), await b.hear_ask()]
    composing.call.cancel()
    assert [await a.hear(), await b.hear()] == [Cancel(ask.query_id) for ask in asks]
    # Nothing of it is left: its name is free.
    again = await asked(peer, request_id="r")
    await a.answer([])
    await b.answer([])
    assert (await again).error is None


async def test_a_callers_deadline_that_passes_cancels_its_providers(peer: Peer) -> None:
    silent = await peer.attach("silent")
    composing = asyncio.create_task(peer.compose(collect_timeout=LONG, deadline=0.3))
    ask = await silent.hear_ask()
    assert await silent.hear() == Cancel(ask.query_id)
    # Alone it was not worth an answer; whichever comes first, the caller's own clock or ours.
    assert isinstance((await composing).error, DeadlineExceeded | Unavailable)


async def test_a_request_leaves_no_task_behind(peer: Peer, broker: Broker) -> None:
    provider = await peer.attach("a")
    for _ in range(2):
        # The first query of a session starts the one writer that the session then keeps.
        before = asyncio.all_tasks()
        answer = await asked(peer)
        await provider.answer(frames(("x", 0.5)))
        await answer
    # The server's own wait for its next call is always there, as a new task each time.
    left = {task for task in asyncio.all_tasks() - before if "_request_call" not in repr(task)}
    if left:
        _, left = await asyncio.wait(left, timeout=LONG)
    assert not left


# --- names of requests


async def test_a_request_id_is_used_by_one_running_request_at_a_time(peer: Peer) -> None:
    provider = await peer.attach("a")
    first = await asked(peer, request_id="r")
    ask = await provider.hear_ask()
    error = (await peer.compose(request_id="r")).error
    assert isinstance(error, AlreadyExists)
    assert error.reason == "REQUEST_ID_IN_USE"
    assert [violation.field for violation in error.violations] == ["request_id"]
    await provider.say(LaneEnded(ask.query_id))
    assert (await first).error is None
    again = await asked(peer, request_id="r")
    await provider.answer([])
    assert (await again).error is None


# --- pushes


async def test_a_push_joins_whether_it_comes_before_or_after(peer: Peer) -> None:
    early = await peer.push("pushed", "before", frames(("p", 0.5)))
    assert early.error is None
    answer = await peer.compose(request_id="before", expect_pushes=("pushed",), collect_timeout=LONG)
    assert rows(answer.composition()) == {("pushed", "p"): ""}
    composing = await peer.composing(request_id="after", expect_pushes=("pushed",), collect_timeout=LONG)
    late = await peer.push("pushed", "after", frames(("p", 0.5)))
    assert late.messages == early.messages
    assert rows((await composing.rest()).composition()) == {("pushed", "p"): ""}


async def test_a_push_that_no_one_asked_for_joins_no_lane_and_is_answered_alike(peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = await peer.composing(request_id="r", collect_timeout=LONG)
    ask = await provider.hear_ask()
    unexpected = await peer.push("intruder", "r", frames(("p", 0.5)))
    nobody = await peer.push("intruder", "no such request", frames(("p", 0.5)))
    assert unexpected == nobody
    assert unexpected.error is None
    await provider.say(LaneEnded(ask.query_id))
    assert lanes((await composing.rest()).composition()) == {"a": "EMPTY"}


# --- the caller's own lanes


async def test_inline_lanes_alone_are_composed(peer: Peer) -> None:
    lane = InlineLane("notes", frames=tuple(frames(("a", 0.9), ("n", math.nan), ("b", 0.4))))
    composition = (await peer.compose(inline_lanes=(lane,))).composition()
    assert ranked(composition) == ["a", "b"]
    (bad,) = [row for row in composition.audit if row.frame_id == "n"]
    assert (bad.reason, bad.detail.split()[0].rstrip(":;,")) == ("INVALID", "SCORE_NOT_FINITE")


async def test_inline_lanes_stand_beside_attached_providers_unless_none_is_wanted(peer: Peer) -> None:
    provider = await peer.attach("a")
    lane = InlineLane("notes", frames=tuple(frames(("n", 0.1))))
    answer = await asked(peer, inline_lanes=(lane,))
    await provider.answer(frames(("x", 0.9)))
    assert ranked((await answer).composition()) == ["x", "n"]
    alone = (await peer.compose(inline_lanes=(lane,), no_providers=True)).composition()
    assert lanes(alone) == {"notes": "COMPLETE"}


async def test_many_inline_frames_are_composed_all_the_same(peer: Peer) -> None:
    """Enough for a thread to read them and to compose them."""
    many = tuple(Frame(id=f"{i:04}", title="t", content=f"{i:060}", score=i / 3000) for i in range(2500))
    composition = (await peer.compose(inline_lanes=(InlineLane("notes", frames=many),), max_tokens=300)).composition()
    assert len(composition.audit) == 2500
    assert composition.placed[0].frame.id == "2499"


async def test_a_part_is_made_once_those_before_it_are_on_their_way(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    told = Answering.part

    def watched(composition: Composition) -> Iterator[EncodedPart]:
        for part in encoded_parts(composition):
            order.append("made")
            yield part

    async def telling(answer: Answering, data: bytes) -> None:
        await told(answer, data)
        order.append("told")

    monkeypatch.setattr("broker.rpc.composing.encoded_parts", watched)
    monkeypatch.setattr(Answering, "part", telling)
    many = tuple(Frame(id=f"{i:04}", title="t", content=f"{i:060}", score=i / 3000) for i in range(2500))
    composition = (await peer.compose(inline_lanes=(InlineLane("notes", frames=many),), max_tokens=900)).composition()
    assert len(composition.audit) == 2500
    # The end of the answer, which was made before, comes last.
    assert order[:-1] == ["made", "told"] * (len(order) // 2)
    assert len(order) > 4


async def test_a_request_that_was_still_read_when_draining_began_is_refused_and_not_answered_without_its_providers(
    peer: Peer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await peer.attach("a")
    read = admission.read

    def meanwhile(*args: object) -> object:
        broker._running.drain()
        return read(*args)

    monkeypatch.setattr(admission, "read", meanwhile)
    error = (await peer.compose()).error
    assert isinstance(error, Unavailable)
    assert error.reason == "DRAINING"


# --- lies


LIES = {
    "COST_MISMATCH": [Frame(id="x", title="x", content="12345678", score=0.5, token_cost=cost) for cost in (1, 3, 0)]
    + [Frame(id="x", title="x", content="12345678", score=0.5, token_cost=2**32 - 1)],
    "DIGEST_MISMATCH": [Frame(id="x", title="x", content="x", score=0.5, content_digest="sha256:" + "0" * 64)],
}


@pytest.mark.parametrize(
    ("reason", "frame"),
    [(reason, frame) for reason, found in LIES.items() for frame in found],
    ids=lambda v: str(v)[:20],
)
async def test_a_lie_drops_the_lane_and_quarantines_its_provider(peer: Peer, reason: str, frame: Frame) -> None:
    liar, good = await peer.attach("liar"), await peer.attach("good")
    answer = await asked(peer)
    ask = await liar.hear_ask()
    await liar.frames(ask.query_id, [*frames(("honest", 0.9)), frame])
    await good.answer(frames(("g", 0.1)))
    composition = (await answer).composition()
    assert lanes(composition) == {"good": "COMPLETE", "liar": "REFUSED"}
    assert composition.summary.lanes[1].violation == reason
    assert rows(composition) == {("good", "g"): "", ("liar", "honest"): "LANE_REFUSED", ("liar", "x"): "LANE_REFUSED"}
    told = await liar.hear()
    assert isinstance(told, Rejection)
    assert told.violations[0].reason == reason
    again = await asked(peer)
    await good.answer(frames(("g", 0.1)))
    assert lanes((await again).composition()) == {"good": "COMPLETE", "liar": "QUARANTINED"}


async def test_a_true_cost_or_none_is_no_lie(peer: Peer) -> None:
    provider = await peer.attach("a")
    answer = await asked(peer)
    true = Frame(id="x", title="x", content="12345678", score=0.5, token_cost=2)
    await provider.answer([true, *frames(("y", 0.4))])
    assert lanes((await answer).composition()) == {"a": "COMPLETE"}


async def test_more_tokens_than_granted_is_a_lie(peer: Peer) -> None:
    provider, good = await peer.attach("a"), await peer.attach("good")
    answer = await asked(peer, max_tokens=150)
    ask = await provider.hear_ask()
    half = ask.query.max_tokens * 2 + 8
    await provider.frames(
        ask.query_id, [Frame(id=str(i), title="t", content=str(i) * half, score=0.5) for i in range(2)]
    )
    await good.answer([])
    assert (await answer).composition().summary.lanes[0].violation == "TOKENS_EXCEEDED"


async def test_of_two_replicas_one_that_lies_costs_the_whole_lane(peer: Peer) -> None:
    replicas = [await peer.attach("a", "1"), await peer.attach("a", "2")]
    good = await peer.attach("good")
    answer = await asked(peer)
    liar = replicas[0]
    ask = await liar.hear_ask()
    await liar.frames(ask.query_id, LIES["DIGEST_MISMATCH"])
    await good.answer(frames(("g", 0.5)))
    assert lanes((await answer).composition()) == {"a": "REFUSED", "good": "COMPLETE"}
    again = await asked(peer)
    await good.answer(frames(("g", 0.5)))
    assert lanes((await again).composition()) == {"a": "QUARANTINED", "good": "COMPLETE"}


class TestSmallGrant:
    """With a grant of five frames a lane."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, limits={"lane_frames": 5})

    async def test_a_lane_may_hold_what_it_was_granted(self, peer: Peer) -> None:
        provider = await peer.attach("a")
        answer = await asked(peer)
        ask = await provider.answer(frames(*((str(i), 0.5) for i in range(5))))
        assert ask.query.max_frames == 5
        assert lanes((await answer).composition()) == {"a": "COMPLETE"}

    @pytest.mark.parametrize("sent", [6, 5000])
    async def test_more_frames_than_granted_is_a_lie(self, peer: Peer, sent: int) -> None:
        provider, good = await peer.attach("a"), await peer.attach("good")
        answer = await asked(peer)
        ask = await provider.hear_ask()
        await provider.frames(ask.query_id, frames(*((str(i), 0.5) for i in range(sent)), content="x"))
        await good.answer([])
        composition = (await answer).composition()
        assert composition.summary.lanes[0].violation == "COUNT_EXCEEDED"
        # The rest was not read.
        assert composition.summary.lanes[0].offered == 6
        assert set(rows(composition).values()) == {"LANE_REFUSED"}


# --- ranking and budgets that only show end to end


async def test_score_descending_may_fill_the_answer_from_one_provider_and_says_so(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer, strategy=ScoreDescending(), max_frames=3)
    await a.answer(frames(("a1", 0.9), ("a2", 0.8), ("a3", 0.7), ("a4", 0.6)))
    await b.answer(frames(("b1", 0.3)))
    done = await answer
    composition = done.composition()
    assert ranked(composition) == ["a1", "a2", "a3"]
    assert {key: reason for key, reason in rows(composition).items() if reason} == {
        ("a", "a4"): "FRAME_LIMIT",
        ("b", "b1"): "FRAME_LIMIT",
    }
    assert composition.summary.strategy.compares_raw_scores
    assert b"relevance" not in b"".join(done.messages).lower()


async def test_a_weight_of_zero_is_last_resort_and_not_exclusion(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    answer = await asked(peer, strategy=TrustWeighted({"a": 0.0, "b": 1.0}))
    await a.answer(frames(("x", 0.9)))
    await b.answer(frames(("z", 0.1)))
    assert ranked((await answer).composition()) == ["z", "x"]


async def test_frames_that_do_not_fit_are_left_out_of_an_answer_that_is_ok(peer: Peer) -> None:
    provider = await peer.attach("a")
    answer = await asked(peer, max_tokens=150)
    await provider.answer([Frame(id="x", title="x", content="x" * 1200, score=0.5)])
    composition = (await answer).composition()
    (row,) = composition.audit
    assert row.reason == "OVER_BUDGET"
    assert row.cost > row.remaining
    assert composition.prompt


async def test_a_floor_keeps_what_equals_it_also_where_lower_is_better(peer: Peer) -> None:
    dist = ScoreScale("dist", 0, 2, Direction.LOWER_IS_BETTER)
    provider = await peer.attach("a", scale=dist)
    answer = await asked(peer, floors=(Floor("a", "dist", 0.3),))
    await provider.answer(frames(("a", 0.1), ("b", 0.9), ("c", 0.3), ("d", 0.31)))
    composition = (await answer).composition()
    assert ranked(composition) == ["a", "c"]
    assert rows(composition)["a", "b"] == rows(composition)["a", "d"] == "BELOW_FLOOR"


async def test_a_floor_for_a_provider_that_left_is_unused(peer: Peer) -> None:
    gone, good = await peer.attach("gone"), await peer.attach("good")
    gone.call.cancel()
    await peer.until_gone("gone")
    answer = await asked(peer, floors=(Floor("gone", "unit", 0.3),))
    await good.answer(frames(("x", 0.1)))
    composition = (await answer).composition()
    assert [(record.used, record.dropped) for record in composition.summary.floors] == [(False, 0)]
    named = await asked(peer, providers=("gone", "good"))
    await good.answer(frames(("x", 0.1)))
    assert lanes((await named).composition()) == {"gone": "ABSENT", "good": "COMPLETE"}


async def test_metadata_has_no_say(peer: Peer) -> None:
    provider = await peer.attach("a")
    call = peer.open(COMPOSE, metadata=(("min_score", "0.9"),))
    await call.write(compose_bytes(query_text="min_score: 0.9", collect_timeout=LONG))
    await call.done_writing()
    ask = await provider.answer(frames(("x", 0.1)))
    assert ask.query.query_text == "min_score: 0.9"
    assert rows((await read_all(call)).composition()) == {("a", "x"): ""}


async def test_a_frame_that_does_not_parse_costs_itself_alone(peer: Peer) -> None:
    provider = await peer.attach("a")
    answer = await asked(peer)
    ask = await provider.hear_ask()
    good = encoded(frames(("x", 0.5)))
    bad_utf8 = good[0].replace(b"content of x", b"content\xffof x")
    await provider.say(Batch(ask.query_id, join_batch(ask.query_id, [bad_utf8, *good, b"\xff"])))
    await provider.say(LaneEnded(ask.query_id))
    composition = (await answer).composition()
    assert lanes(composition) == {"a": "COMPLETE"}
    assert sorted(row.reason for row in composition.audit) == ["", "INVALID", "INVALID"]
    rejected = await provider.hear()
    assert isinstance(rejected, Rejection)
    assert {violation.reason for violation in rejected.violations} == {"FRAME_MALFORMED"}


class TestLaneOrder:
    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, ranking={"lane_order": ["z"]}, providers={"m": {}, "z": {}})

    async def test_lanes_are_opened_in_the_order_that_the_composition_has_them_in(self, peer: Peer) -> None:
        inline = tuple(InlineLane(name, frames=tuple(frames((name, 0.5)))) for name in ("notes", "b"))
        done = await peer.compose(providers=("m", "z"), inline_lanes=inline)
        opened = [lane.provider_id for lane in done.responses[0].accepted.lanes]
        assert opened == [lane.provider for lane in done.composition().summary.lanes] == ["z", "b", "m", "notes"]


# --- budgets


async def test_a_split_budget_grants_each_lane_its_share_and_says_so(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    await peer.push("pushed", "r", frames(("p", 0.5)))
    answer = await asked(
        peer, request_id="r", expect_pushes=("pushed",), max_tokens=1000,
        budget_split=BudgetSplit.WEIGHTED, budget_weights={"a": 2.0, "pushed": 1.0},
        inline_lanes=(InlineLane("notes", frames=tuple(frames(("n", 0.5)))),),
    )  # fmt: skip
    granted = [(await provider.answer(frames(("f", 0.5)))).query.max_tokens for provider in (a, b)]
    done = await answer
    opened = {lane.provider_id: lane.max_tokens for lane in done.responses[0].accepted.lanes}
    assert granted == [500, 250]
    assert opened == {"a": 500, "b": 250, "pushed": 250, "notes": admission.INLINE_TOKENS}
    assert done.composition().summary.budget.split == "WEIGHTED"


async def test_a_lane_beyond_its_share_lied_and_a_push_beyond_it_is_trimmed(peer: Peer) -> None:
    good, greedy = await peer.attach("good"), await peer.attach("greedy")
    many = frames(*((f"p{n}", 1 - n / 10) for n in range(8)), content="")
    large = [replace(one, content=f"{one.id:400}") for one in many]
    await peer.push("pushed", "r", large)
    answer = await asked(
        peer, request_id="r", expect_pushes=("pushed",), max_tokens=900, budget_split=BudgetSplit.EQUAL
    )
    await good.answer(large[:3])
    await greedy.answer(large[:4])
    composition = (await answer).composition()
    assert lanes(composition) == {"good": "COMPLETE", "greedy": "REFUSED", "pushed": "COMPLETE"}
    assert {name: rows(composition)["pushed", name] for name in ("p3", "p7")} == dict.fromkeys(
        ("p3", "p7"), "PUSH_TRIMMED"
    )
    assert rows(composition)["pushed", "p2"] != "PUSH_TRIMMED"
    again = await asked(peer, request_id="s", expect_pushes=("pushed",))
    await peer.push("pushed", "s", large[:1])
    await good.answer([])
    assert lanes((await again).composition())["pushed"] == "COMPLETE", "and its pusher does not sit out"


async def test_the_operators_cap_on_frames_holds_and_is_no_conflict_of_the_callers(peer: Peer, broker: Broker) -> None:
    lane = InlineLane("notes", frames=tuple(frames(*((f"f{n}", 0.5) for n in range(3)))))
    composition = (await peer.compose(inline_lanes=(lane,), max_frames_per_provider=2)).composition()
    assert (len(composition.placed), composition.summary.limit_conflicts) == (2, ())
    told = (await peer.compose(inline_lanes=(lane,), max_frames_per_provider=2, max_frames=1)).composition()
    assert [(one.limit, one.overridden_by) for one in told.summary.limit_conflicts] == [
        ("max_frames_per_provider", "max_frames")
    ]


class TestFewFrames:
    """With one frame a composition."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, limits={"max_frames": 1})

    async def test_no_composition_has_more_than_the_operator_allows(self, peer: Peer) -> None:
        lane = InlineLane("notes", frames=tuple(frames(("a", 0.9), ("b", 0.8))))
        composition = (await peer.compose(inline_lanes=(lane,))).composition()
        assert rows(composition) == {("notes", "a"): "", ("notes", "b"): "FRAME_LIMIT"}


class TestTokenizers:
    """With two tokenizers, one of them the default."""

    @pytest.fixture
    def broker_config(self, tmp_path: Path) -> Config:
        ranks = tmp_path / "small.tiktoken"
        ranks.write_bytes(tiktoken_file())
        return Config(
            server={"listen": "127.0.0.1:0"},
            tokenizers={"small": {"kind": "tiktoken", "file": ranks, "encoding": "o200k_base"}},
            render={"tokenizer": "small"},
        )

    async def test_the_operators_tokenizer_counts_where_a_request_names_none(self, peer: Peer) -> None:
        lane = InlineLane("notes", frames=tuple(frames(("a", 0.9))))
        composition = (await peer.compose(inline_lanes=(lane,))).composition()
        name, _, version = composition.summary.budget.counter.partition(" sha256:")
        assert name == "small"
        assert version == hashlib.sha256(tiktoken_file()).hexdigest()[:16]
        named = (await peer.compose(inline_lanes=(lane,), tokenizer="bytes/4")).composition()
        assert named.summary.budget.counter == "bytes/4"
        assert named.prompt == composition.prompt
        assert named.summary.budget.used != composition.summary.budget.used
