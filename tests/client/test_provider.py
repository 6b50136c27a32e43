"""A provider attaches, answers, cancels, attaches again, drains, stops; it gives up where trying again cannot help."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from contextbroker.v1 import provider_service_pb2 as pb

from broker.client import Frame, Provider, Query, Rejection, ScoreScale, channel
from broker.client import provider as provider_module
from broker.client import session as session_module
from broker.client.answering import Answerer
from broker.client.backoff import Backoff
from broker.client.standing import Standing
from broker.errors import (
    Aborted,
    BrokerError,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from broker.wire.events import Ask, Hello
from broker.wire.events import Query as AskedQuery
from tests.client.fake import SAFETY, FakeBroker


def frame(name: str, content: str = "c") -> Frame:
    return Frame(name, name, content, 0.5)


async def nothing(_: Query) -> list[Frame]:
    return []


async def one(query: Query) -> list[Frame]:
    return [frame(query.text)]


async def soon(future) -> object:
    return await asyncio.wait_for(future, SAFETY)


async def test_it_says_who_it_is(fake: FakeBroker, serve):
    scale = ScoreScale("bm25", 0.0, float("inf"))
    provider = Provider(
        "notes", nothing, scale=scale, kinds=["doc", "kind-42"], instance_id="i1", version="2.1", max_in_flight=3
    )
    ids: list[str] = []
    serve(provider, fake.address, on_attached=ids.append)
    hello = (await fake.attached()).hello
    assert (hello.provider_id, hello.instance_id, hello.version, hello.max_in_flight) == ("notes", "i1", "2.1", 3)
    assert list(hello.kinds) == [4, 42]
    assert (hello.scale.id, hello.scale.max) == ("bm25", float("inf"))


async def test_it_tells_the_session_when_it_has_attached(fake: FakeBroker, serve):
    told = asyncio.get_running_loop().create_future()
    serve(Provider("notes", nothing), fake.address, on_attached=told.set_result)
    await fake.attached()
    assert await soon(told) == "s1"


def test_an_instance_has_a_name_of_its_own_unless_it_is_given_one():
    first, second = Provider("notes", nothing), Provider("notes", nothing)
    assert first.instance_id != second.instance_id
    assert str(os.getpid()) in first.instance_id
    assert len(first.instance_id.encode()) <= 128


@pytest.mark.parametrize(
    ("arguments", "field", "reason"),
    [
        ({"name": "Notes"}, "name", "PROVIDER_NAME"),
        ({"name": ""}, "name", "PROVIDER_NAME"),
        ({"name": "all"}, "name", "PROVIDER_NAME"),
        ({"name": "n", "kinds": ["doc", "poem"]}, "kinds[1]", "KIND_UNKNOWN"),
        ({"name": "n", "instance_id": ""}, "instance_id", "INSTANCE_ID"),
        ({"name": "n", "instance_id": "é" * 65}, "instance_id", "INSTANCE_ID"),
        ({"name": "n", "max_in_flight": 0}, "max_in_flight", "OUT_OF_RANGE"),
        ({"name": "n", "max_in_flight": 10_001}, "max_in_flight", "OUT_OF_RANGE"),
    ],
)
def test_what_no_broker_would_take_is_refused_at_once(arguments: dict, field: str, reason: str):
    with pytest.raises(InvalidArgument) as error:
        Provider(answer=nothing, **arguments)
    assert [(v.field, v.reason) for v in error.value.violations] == [(field, reason)]


async def test_the_question_arrives_as_it_was_asked(fake: FakeBroker, serve):
    asked: asyncio.Future[Query] = asyncio.get_running_loop().create_future()

    async def answer(query: Query) -> list[Frame]:
        asked.set_result(query)
        return [frame("a"), frame("b")]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(
        goal="g",
        query_text="q",
        kinds=[1, 99],
        anchors=["file:x"],
        max_frames=7,
        max_tokens=70,
        as_of="2025-01-01T00:00:00Z",
        traceparent="00-1-2-01",
        remaining_ms=30_000,
    )
    assert await session.answer() == ([["a", "b"]], pb.LaneEnd(query_id="q1", status=pb.LANE_END_STATUS_COMPLETE))
    query = asked.result()
    assert query == Query(
        goal="g",
        query_text="q",
        kinds=("snippet", "kind-99"),
        anchors=("file:x",),
        max_frames=7,
        max_tokens=70,
        as_of="2025-01-01T00:00:00Z",
        traceparent="00-1-2-01",
    )
    assert 0 < query.remaining <= 30


async def test_an_answer_without_frames_has_an_end_all_the_same(fake: FakeBroker, serve):
    serve(Provider("notes", nothing), fake.address)
    session = await fake.attached()
    await session.ask()
    assert await session.answer() == ([], pb.LaneEnd(query_id="q1", status=pb.LANE_END_STATUS_COMPLETE))


async def test_a_generators_frames_are_sent_while_it_goes_on(fake: FakeBroker, serve):
    goes_on = asyncio.Event()

    async def answer(_: Query) -> AsyncIterator[Frame]:
        yield frame("first")
        await goes_on.wait()
        yield frame("second")

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    batch = await session.hears("frame_batch")
    assert [f.id for f in batch.frames] == ["first"]
    goes_on.set()
    batches, _ = await session.answer()
    assert batches == [["second"]]


async def test_frames_are_batched_by_count_and_by_size(fake: FakeBroker, serve):
    async def answer(query: Query) -> AsyncIterator[Frame]:
        for i in range(150 if query.text == "many" else 8):
            yield frame(str(i), "c" if query.text == "many" else "c" * 150_000)

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(goal="many")
    batches, _ = await session.answer()
    assert [name for batch in batches for name in batch] == [str(i) for i in range(150)]
    assert max(map(len, batches)) == 64
    await session.ask("q2", goal="large")
    batches, _ = await session.answer("q2")
    assert [name for batch in batches for name in batch] == [str(i) for i in range(8)]
    assert max(map(len, batches)) == 3


async def test_a_brokers_smaller_limits_are_kept(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        return [frame(str(i), "c" * 1000) for i in range(8)]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached(max_message_bytes=4096, max_batch_frames=2, max_frame_bytes=2048)
    await session.ask()
    batches, _ = await session.answer()
    assert [len(batch) for batch in batches] == [2, 2, 2, 2]


async def test_an_answer_that_raises_ends_its_lane_and_tells_nothing_else(fake: FakeBroker, serve, caplog):
    async def answer(query: Query) -> AsyncIterator[Frame]:
        yield frame("before")
        if query.text == "bad":
            raise KeyError("a secret of the provider's")

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(goal="bad")
    batches, end = await session.answer()
    assert batches == [["before"]]
    assert (end.status, end.message) == (pb.LANE_END_STATUS_FAILED, "KeyError")
    assert "a secret of the provider's" in caplog.text
    await session.ask("q2", goal="good")
    assert (await session.answer("q2"))[1].status == pb.LANE_END_STATUS_COMPLETE


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (None, "TypeError"),
        (5, "TypeError"),
        ([5], "InvalidArgument"),
        (["text"], "InvalidArgument"),
        ([{"id": "a"}], "InvalidArgument"),
    ],
)
async def test_an_answer_that_is_no_frames_ends_its_lane(fake: FakeBroker, serve, wrong, kind: str):
    async def answer(_: Query) -> list[Frame]:
        return wrong

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    _, end = await session.answer()
    assert (end.status, end.message) == (pb.LANE_END_STATUS_FAILED, kind)


async def test_a_cancellation_of_the_users_own_ends_its_lane(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        raise asyncio.CancelledError

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    _, end = await session.answer()
    assert (end.status, end.message) == (pb.LANE_END_STATUS_FAILED, "CancelledError")


async def test_a_cancelled_question_is_cancelled_in_the_users_function(fake: FakeBroker, serve):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(query: Query) -> AsyncIterator[Frame]:
        if query.text == "next":
            return
        try:
            yield frame("a")
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    await soon(started.wait())
    await session.say(cancel_query=pb.CancelQuery(query_id="q1"))
    await soon(cancelled.wait())
    await session.ask("q2", goal="next")
    message = await session.hear()
    while message.WhichOneof("message") == "frame_batch":
        assert message.frame_batch.query_id == "q1"
        message = await session.hear()
    assert message.lane_end.query_id == "q2"


async def test_questions_cancelled_as_they_come_are_over(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        await asyncio.Event().wait()
        return []

    provider = Provider("notes", answer)
    task = serve(provider, fake.address)
    session = await fake.attached()
    for i in range(50):
        await session.ask(f"q{i}")
        await session.say(cancel_query=pb.CancelQuery(query_id=f"q{i}"))
    await session.say(drain=pb.Drain(remaining_ms=3_600_000))
    await fake.attached()
    await session.hears("detach")
    assert await session.hear() is None
    await soon(provider.stop())
    await soon(task)


def test_a_question_cancelled_before_its_task_starts_is_over():
    async def main() -> dict:
        hello = Hello("notes", "i")
        session = session_module.Session(None, "", hello, Answerer("notes", nothing), lambda _: None, lambda _: None)
        session._start(Ask("q", AskedQuery(goal="g", max_frames=1, max_tokens=1), 1000))
        [(_, task)] = session._open.values()
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0)
        return session._open

    assert asyncio.run(main()) == {}


async def test_cancelling_what_is_not_open_is_harmless(fake: FakeBroker, serve):
    serve(Provider("notes", one), fake.address)
    session = await fake.attached()
    await session.say(cancel_query=pb.CancelQuery(query_id="never"))
    await session.ask(goal="a")
    assert (await session.answer())[0] == [["a"]]


async def test_questions_are_answered_at_once_up_to_the_limit(fake: FakeBroker, serve):
    running: set[str] = set()
    seen = asyncio.Queue()
    go_on = asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        running.add(query.text)
        seen.put_nowait(set(running))
        await go_on.wait()
        running.discard(query.text)
        return []

    serve(Provider("notes", answer, max_in_flight=2), fake.address)
    session = await fake.attached()
    for name in ("a", "b", "c"):
        await session.ask(name, goal=name)
    assert await soon(seen.get()) == {"a"}
    assert await soon(seen.get()) == {"a", "b"}
    assert seen.empty()
    go_on.set()
    assert len(await soon(seen.get())) <= 2
    assert {(await session.hears("lane_end")).query_id for _ in range(3)} == {"a", "b", "c"}


async def test_what_the_broker_did_not_take_is_logged_and_told(fake: FakeBroker, serve, caplog):
    told: asyncio.Future[Rejection] = asyncio.get_running_loop().create_future()
    serve(Provider("notes", one, on_rejected=told.set_result), fake.address)
    session = await fake.attached()
    violation = pb.Violation(reason="TITLE_EMPTY", message="give a title", frame_id="f\n1")
    await session.say(rejected=pb.Rejected(query_id="q1", violations=[violation]))
    rejection = await soon(told)
    assert (rejection.query_id, rejection.violations[0].reason) == ("q1", "TITLE_EMPTY")
    warning = next(r for r in caplog.records if "TITLE_EMPTY" in r.getMessage())
    assert warning.levelno == logging.WARNING
    assert "give a title" in warning.getMessage()
    assert "f\n1" not in warning.getMessage()


async def test_the_echo_of_what_crossed_a_cancellation_is_nobodys_mistake(fake: FakeBroker, serve, caplog):
    told: asyncio.Queue[Rejection] = asyncio.Queue()
    serve(Provider("notes", one, on_rejected=told.put_nowait), fake.address)
    session = await fake.attached()
    not_open, lie = pb.Violation(reason="QUERY_NOT_OPEN", message="closed"), pb.Violation(reason="COST_MISMATCH")
    await session.ask()
    await session.answer()
    # As a broker does at a lie that it finds before the answer's end has come: refused, cancelled, then the echoes.
    await session.say(rejected=pb.Rejected(query_id="q1", violations=[lie]))
    await session.say(cancel_query=pb.CancelQuery(query_id="q1"))
    for _ in range(3):
        await session.say(rejected=pb.Rejected(query_id="q1", violations=[not_open]))
    # What is more than an echo is told, and so is one that follows no cancellation.
    await session.say(rejected=pb.Rejected(query_id="q1", violations=[not_open, lie]))
    await session.say(rejected=pb.Rejected(query_id="q2", violations=[not_open]))
    heard = [await soon(told.get()) for _ in range(3)]
    assert [(r.query_id, [v.reason for v in r.violations]) for r in heard] == [
        ("q1", ["COST_MISMATCH"]),
        ("q1", ["QUERY_NOT_OPEN", "COST_MISMATCH"]),
        ("q2", ["QUERY_NOT_OPEN"]),
    ]
    assert told.empty()
    assert caplog.text.count("COST_MISMATCH") == 2


def sent(batches: list[list[str]]) -> list[str]:
    return [name for batch in batches for name in batch]


async def test_an_answer_is_trimmed_to_the_frames_granted_and_that_is_said_once(fake: FakeBroker, serve, caplog):
    async def answer(_: Query) -> list[Frame]:
        return [frame(str(i)) for i in range(10)]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    for query, granted in (("q1", 10), ("q2", 3), ("q3", 1)):
        await session.ask(query, max_frames=granted)
        batches, end = await session.answer(query)
        assert sent(batches) == [str(i) for i in range(granted)]
        assert end.status == pb.LANE_END_STATUS_COMPLETE
    warnings = [r.getMessage() for r in caplog.records if "more than the broker grants" in r.getMessage()]
    assert len(warnings) == 1
    assert "3 frames" in warnings[0]


async def test_an_answer_is_trimmed_to_the_tokens_granted_and_smaller_frames_may_follow(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        return [frame("a", "c" * 40), frame("b", "é" * 40), frame("c", "c" * 36), frame("d", "c"), frame("e", "c")]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(max_tokens=20)
    assert sent((await session.answer())[0]) == ["a", "c", "d"]


async def test_a_frame_that_the_broker_counts_as_too_large_costs_no_tokens(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        return [frame("large", "c" * 5000), frame("a", "c" * 40)]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached(max_message_bytes=65_536, max_batch_frames=100, max_frame_bytes=4096)
    await session.ask(max_tokens=10)
    assert sent((await session.answer())[0]) == ["large", "a"]


async def test_a_generator_without_end_is_closed_at_the_grant(fake: FakeBroker, serve):
    closed = asyncio.Event()

    async def answer(_: Query) -> AsyncIterator[Frame]:
        try:
            while True:
                yield frame("a")
        finally:
            closed.set()

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(max_frames=100)
    assert sent((await session.answer())[0]) == ["a"] * 100
    assert closed.is_set()


async def test_a_generator_of_nothing_that_fits_can_be_cancelled(fake: FakeBroker, serve):
    async def answer(query: Query) -> AsyncIterator[Frame]:
        while query.text == "endless":
            yield frame("a", "c" * 1000)

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(goal="endless", max_tokens=10)
    await session.say(cancel_query=pb.CancelQuery(query_id="q1"))
    await session.ask("q2", goal="next")
    assert (await session.answer("q2"))[0] == []


async def test_a_callback_that_raises_harms_nothing(fake: FakeBroker, serve, caplog):
    def broken(_: object) -> None:
        raise RuntimeError("of the callback")

    serve(Provider("notes", one, on_rejected=broken), fake.address, on_attached=broken)
    session = await fake.attached()
    await session.say(rejected=pb.Rejected(violations=[pb.Violation(reason="R")]))
    await session.ask(goal="a")
    assert (await session.answer())[0] == [["a"]]
    assert caplog.text.count("RuntimeError: of the callback") == 2


async def test_a_message_of_a_later_broker_is_passed_over(fake: FakeBroker, serve):
    serve(Provider("notes", one), fake.address)
    session = await fake.attached()
    await session._context.write(pb.AttachResponse())
    await session.ask(goal="a")
    assert (await session.answer())[0] == [["a"]]


def connections(address: str) -> int:
    """Connections of this process that stand to an address, as the system counts them."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    tables = [Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return sum(1 for line in lines if line[2].endswith(port) and line[3] == "01")


@pytest.fixture
def opened(monkeypatch) -> list[grpc.aio.Channel]:
    """The channels that providers open."""
    channels: list[grpc.aio.Channel] = []

    def opening(*arguments):
        channels.append(channel.open_channel(*arguments))
        return channels[-1]

    monkeypatch.setattr(provider_module, "open_channel", opening)
    return channels


@pytest.fixture
async def brokers():
    """Stops the brokers that a test starts, however it ends."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def no_collector():
    """No garbage is collected: what is not let go of stays, as in a process that does little."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="counts connections in /proc, which is not here")
async def test_however_often_the_broker_restarts_one_connection_stands(
    fake: FakeBroker, serve, brokers: AsyncExitStack, opened: list, no_collector, monkeypatch
):
    failures: asyncio.Queue[BrokerError] = asyncio.Queue()
    monkeypatch.setattr(Standing, "failed", lambda _, error: failures.put_nowait(error))
    monkeypatch.setattr(Backoff, "wait", lambda *_: 0.01)
    provider = Provider("notes", one)
    serve(provider, fake.address)
    address, broker = fake.address, fake
    await fake.attached()
    for _ in range(4):
        await broker.stop()
        for _ in range(5):
            await soon(failures.get())
        broker = await FakeBroker().start(address)
        brokers.push_async_callback(broker.stop)
        session = await broker.attached()
        await session.ask(goal="a")
        assert (await session.answer())[0] == [["a"]]
        assert connections(address) == 1
    assert len(opened) == 1
    await soon(provider.stop())


async def test_nothing_refers_to_a_call_that_failed(fake: FakeBroker, serve, no_collector, monkeypatch):
    # In the core a channel lives as long as its calls do, and goes on connecting.
    failures: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(Standing, "failed", lambda _, error: failures.put_nowait(error.reason))
    monkeypatch.setattr(Backoff, "wait", lambda *_: 0.01)
    provider = Provider("notes", one)
    task = serve(provider, fake.address)
    for verdict in (None, Unavailable("STOPPING", "later"), grpc.StatusCode.INTERNAL, Aborted("OTHER", "odd")):
        (await fake.attached()).end(verdict)
    await fake.attached()
    await fake.stop()
    for _ in range(8):
        await soon(failures.get())
    await soon(provider.stop())
    await soon(task)
    calls = [found for found in gc.get_objects() if issubclass(type(found), grpc.aio.StreamStreamCall)]
    assert calls == []


async def test_a_channel_is_closed_when_serving_ends_however_it_does(fake: FakeBroker, serve, opened: list):
    provider = Provider("notes", one)
    task = serve(provider, fake.address)
    await fake.attached()
    await soon(provider.stop())
    await soon(task)
    refused = serve(Provider("notes", one), fake.address)
    (await fake.called()).end(PermissionDenied("PROVIDER_NOT_ALLOWED", "no"))
    with pytest.raises(PermissionDenied):
        await soon(refused)
    cancelled = asyncio.create_task(Provider("notes", one).serve(fake.address))
    await fake.attached()
    cancelled.cancel()
    await asyncio.wait({cancelled}, timeout=SAFETY)
    assert len(opened) == 3
    for each in opened:
        with pytest.raises(grpc.aio.UsageError, match="closed"):
            each.stream_stream("/any/method")()


async def test_a_provider_that_waited_for_its_broker_says_that_it_is_attached(
    fake: FakeBroker, serve, caplog, monkeypatch
):
    told, failed = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(Backoff, "wait", lambda *_: failed.set() or 0.01)
    address = fake.address
    await fake.stop()
    serve(Provider("notes", one), address, on_attached=lambda _: told.set())
    await soon(failed.wait())
    again = await FakeBroker().start(address)
    try:
        await again.attached()
        await soon(told.wait())
    finally:
        await again.stop()
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warnings[0].startswith(f"notes is not attached to {address} and will try again: no broker answers")
    assert warnings[1].startswith(f"notes is attached to {address} as s1, after ")


async def test_it_attaches_again_when_the_connection_is_lost(fake: FakeBroker, serve):
    serve(Provider("notes", one), fake.address)
    first = await fake.attached()
    address = fake.address
    await fake.stop()
    again = await FakeBroker().start(address)
    try:
        second = await again.attached()
        assert second.hello.instance_id == first.hello.instance_id
        await second.ask(goal="a")
        assert (await second.answer())[0] == [["a"]]
    finally:
        await again.stop()


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        grpc.StatusCode.INTERNAL,
        Unavailable("STOPPING", "later"),
        ResourceExhausted("FLAPPING", "too often", retry_after=0.01),
        FailedPrecondition("PROTOCOL_ORDER", "odd"),
        Aborted("OTHER", "odd"),
    ],
)
async def test_it_attaches_again_after_what_may_pass(fake: FakeBroker, serve, verdict):
    serve(Provider("notes", one), fake.address)
    (await fake.attached()).end(verdict)
    await fake.attached()


@pytest.mark.parametrize(
    "verdict",
    [
        InvalidArgument("PROVIDER_NAME", "bad name"),
        FailedPrecondition("SCALE_CONFLICT", "another scale"),
        PermissionDenied("PROVIDER_NOT_ALLOWED", "no"),
        Unauthenticated("UNAUTHENTICATED", "who are you"),
        Unimplemented("UNIMPLEMENTED", "no such method"),
        Aborted("FENCED", "another took your place"),
    ],
)
@pytest.mark.parametrize("welcomed", [False, True])
async def test_it_gives_up_where_trying_again_cannot_help(fake: FakeBroker, serve, verdict: BrokerError, welcomed):
    task = serve(Provider("notes", one), fake.address)
    session = await fake.called()
    if welcomed:
        await session.welcome()
    session.end(verdict)
    with pytest.raises(type(verdict)) as error:
        await soon(task)
    assert (error.value.reason, error.value.message) == (verdict.reason, verdict.message)
    assert fake.sessions.empty()


async def test_a_verdict_that_crosses_a_write_is_still_heard(fake: FakeBroker, serve):
    async def answer(_: Query) -> AsyncIterator[Frame]:
        while True:
            yield frame("a", "c" * 100_000)

    for rounds in range(12):
        task = serve(Provider("notes", answer), fake.address)
        session = await fake.attached()
        await session.ask()
        for _ in range(rounds % 4):
            await session.hears("frame_batch")
        session.end(Aborted("FENCED", "another took your place"))
        with pytest.raises(Aborted):
            await soon(task)


async def test_open_answers_are_cancelled_when_the_session_is_lost(fake: FakeBroker, serve):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    await soon(started.wait())
    session.end(Unavailable("GONE", "gone"))
    await soon(cancelled.wait())


async def test_a_drain_lets_open_questions_finish_while_a_new_session_stands(fake: FakeBroker, serve):
    """P6."""
    go_on = asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        await go_on.wait()
        return [frame(query.text)]

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask(goal="a")
    await session.say(drain=pb.Drain(remaining_ms=60_000))
    second = await fake.attached()
    await session.hears("detach")
    go_on.set()
    assert (await session.answer())[0] == [["a"]]
    assert await session.hear() is None
    await second.ask(goal="b")
    assert (await second.answer())[0] == [["b"]]


async def test_a_drain_ends_what_takes_too_long(fake: FakeBroker, serve):
    async def answer(_: Query) -> list[Frame]:
        await asyncio.Event().wait()
        return []

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    await session.say(drain=pb.Drain(remaining_ms=1))
    await fake.attached()
    await session.hears("detach")
    assert await session.hear() is None


async def test_stopping_detaches_finishes_and_returns(fake: FakeBroker, serve):
    started, go_on = asyncio.Event(), asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        started.set()
        await go_on.wait()
        return [frame(query.text)]

    provider = Provider("notes", answer)
    task = serve(provider, fake.address)
    session = await fake.attached()
    await session.ask(goal="a")
    await soon(started.wait())
    stopping = asyncio.create_task(provider.stop(grace=60))
    await session.hears("detach")
    go_on.set()
    assert (await session.answer())[0] == [["a"]]
    assert await session.hear() is None
    await soon(stopping)
    assert await soon(task) is None
    assert fake.sessions.empty()


async def test_stopping_again_with_less_grace_hurries(fake: FakeBroker, serve):
    started = asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        started.set()
        await asyncio.Event().wait()
        return []

    provider = Provider("notes", answer)
    task = serve(provider, fake.address)
    session = await fake.attached()
    await session.ask()
    await soon(started.wait())
    patient = asyncio.create_task(provider.stop(grace=3600))
    await session.hears("detach")
    hurried = asyncio.create_task(provider.stop(grace=0))
    assert await session.hear() is None
    await soon(asyncio.gather(task, patient, hurried))


async def test_stopping_before_the_welcome_and_between_attempts_returns(fake: FakeBroker, serve):
    provider = Provider("notes", one)
    task = serve(provider, fake.address)
    await fake.called()
    await soon(provider.stop())
    await soon(task)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    alone = Provider("notes", one)
    task = serve(alone, address)
    await asyncio.sleep(0)
    await soon(alone.stop())
    await soon(task)


async def test_a_broker_that_does_not_end_the_call_is_not_waited_for(fake: FakeBroker, serve, monkeypatch):
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.05)
    attached = asyncio.Event()
    provider = Provider("notes", one)
    task = serve(provider, fake.address, on_attached=lambda _: attached.set())
    session = await fake.attached()
    session.polite = False
    await soon(attached.wait())
    await soon(provider.stop())
    await soon(task)
    assert await session.hears("detach")
    assert await session.hear() is None


async def test_a_stop_while_the_session_is_closing_hurries_nothing_that_is_over(fake: FakeBroker, serve, caplog):
    provider = Provider("notes", one)
    task = serve(provider, fake.address)
    session = await fake.attached()
    session.polite = False
    await session.say(drain=pb.Drain(remaining_ms=0))
    await fake.attached()
    await session.hears("detach")
    assert await session.hear() is None
    stopping = asyncio.create_task(provider.stop())
    await asyncio.sleep(0)
    session.end()
    await soon(asyncio.gather(stopping, task))


async def test_a_broker_that_takes_nothing_does_not_hold_up_a_stop(fake: FakeBroker, serve, monkeypatch):
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.05)
    stuck = asyncio.Event()

    async def answer(_: Query) -> AsyncIterator[Frame]:
        for _ in range(10_000):
            yield frame("a", "c" * 190_000)
            stuck.set()

    provider = Provider("notes", answer)
    task = serve(provider, fake.address)
    session = await fake.attached()
    session.listening.clear()
    await session.ask()
    await soon(stuck.wait())
    await soon(provider.stop(grace=0.1))
    await soon(task)
    session.end()


async def test_a_broker_that_never_welcomes_is_left(fake: FakeBroker, serve, monkeypatch, caplog):
    monkeypatch.setattr(session_module, "WELCOME_SECONDS", 0.05)
    serve(Provider("notes", one), fake.address)
    await fake.called()
    await fake.called()
    assert "did not welcome" in caplog.text


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        ([{"query": pb.Query(query_id="q")}], "must send one Welcome, and send it first"),
        ([{"welcome": pb.Welcome()}, {"welcome": pb.Welcome()}], "must send one Welcome, and send it first"),
        (
            [{"welcome": pb.Welcome()}, {"query": pb.Query(query_id="q")}, {"query": pb.Query(query_id="q")}],
            "asked one query twice: q",
        ),
    ],
)
async def test_a_broker_that_breaks_the_order_is_left_and_tried_again(fake: FakeBroker, serve, says, complaint, caplog):
    async def answer(_: Query) -> list[Frame]:
        await asyncio.Event().wait()
        return []

    serve(Provider("notes", answer), fake.address)
    session = await fake.called()
    for message in says:
        await session.say(**message)
    await fake.called()
    assert complaint in caplog.text


async def test_serving_twice_at_once_is_refused(fake: FakeBroker, serve):
    provider = Provider("notes", one)
    serve(provider, fake.address)
    await fake.attached()
    with pytest.raises(RuntimeError, match="serving already"):
        await provider.serve(fake.address)


async def test_it_may_serve_again_after_it_was_stopped(fake: FakeBroker, serve):
    provider = Provider("notes", one)
    for _ in range(2):
        attached = asyncio.Event()
        task = serve(provider, fake.address, on_attached=lambda _, attached=attached: attached.set())
        session = await fake.attached()
        await soon(attached.wait())
        await soon(provider.stop())
        await soon(task)
        await session.hears("detach")


async def test_stopping_what_does_not_serve_does_nothing():
    await soon(Provider("notes", one).stop())


async def test_cancelling_serve_leaves_nothing_behind(fake: FakeBroker, serve):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    task = asyncio.create_task(Provider("notes", answer).serve(fake.address))
    session = await fake.attached()
    await session.ask()
    await soon(started.wait())
    task.cancel()
    await asyncio.wait({task}, timeout=SAFETY)
    assert task.cancelled()
    assert cancelled.is_set()
    await soon(session.gone.wait())


async def test_an_answer_that_holds_up_cancellation_does_not_hold_up_the_session(
    fake: FakeBroker, serve, monkeypatch, caplog
):
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.05)
    started, let_go = asyncio.Event(), asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return []

    serve(Provider("notes", answer), fake.address)
    session = await fake.attached()
    await session.ask()
    await soon(started.wait())
    session.end(Unavailable("GONE", "gone"))
    await fake.attached()
    assert "go on after they were cancelled" in caplog.text
    let_go.set()


async def test_a_certificate_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidArgument) as error:
        await Provider("notes", one).serve("127.0.0.1:1", tls_ca=tmp_path / "none.pem")
    assert error.value.reason == "TLS_CA"
