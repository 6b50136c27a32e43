"""A session that is to drain goes on until another stands, and who refuses that other does not cost an answer."""

from __future__ import annotations

import asyncio
import gc

import grpc.aio
import pytest
from contextbroker.v1 import provider_service_pb2 as pb

from broker.client import Frame, Provider, Query, channel
from broker.client import provider as provider_module
from broker.client.backoff import Backoff
from broker.errors import PermissionDenied, Unavailable
from tests.client.fake import SAFETY, FakeBroker

DRAIN = {"drain": pb.Drain(remaining_ms=60_000)}


async def soon(future) -> object:
    return await asyncio.wait_for(future, SAFETY)


async def echo(query: Query) -> list[Frame]:
    return [Frame(query.text, query.text, "c", 0.5)]


@pytest.fixture(autouse=True)
def hurried(monkeypatch) -> None:
    monkeypatch.setattr(Backoff, "wait", lambda *_: 0.0)


@pytest.fixture
def opened(monkeypatch) -> list[grpc.aio.Channel]:
    """The channels that providers open."""
    channels: list[grpc.aio.Channel] = []

    def opening(*arguments, **keywords):
        channels.append(channel.open_channel(*arguments, **keywords))
        return channels[-1]

    monkeypatch.setattr(provider_module, "open_channel", opening)
    return channels


async def test_until_the_new_session_is_welcomed_the_old_one_answers(fake: FakeBroker, serve):
    """P6."""
    serve(Provider("notes", echo), fake.address)
    old = await fake.attached()
    await old.say(**DRAIN)
    new = await fake.called()
    assert new.hello != old.hello
    for name in ("a", "b"):
        await old.ask(name, goal=name)
        assert (await old.answer(name))[0] == [[name]]
    await new.welcome()
    assert new.hello == old.hello
    await old.hears("detach")
    assert await old.hear() is None
    await new.ask(goal="c")
    assert (await new.answer())[0] == [["c"]]


async def test_two_sessions_answer_no_more_questions_at_once_than_the_provider_may(fake: FakeBroker, serve):
    running, most, go_on = 0, 0, asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        return await echo(query)

    serve(Provider("notes", answer, max_in_flight=1), fake.address)
    old = await fake.attached()
    await old.ask(goal="a")
    await old.say(**DRAIN)
    new = await fake.attached()
    await new.ask(goal="b")
    await old.hears("detach")
    go_on.set()
    assert (await old.answer())[0] == [["a"]]
    assert (await new.answer())[0] == [["b"]]
    assert most == 1


async def test_a_broker_that_stops_gets_the_answers_that_are_open_and_another_call_later(fake: FakeBroker, serve):
    go_on = asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        await go_on.wait()
        return await echo(query)

    serve(Provider("notes", answer), fake.address)
    old = await fake.attached()
    await old.ask(goal="a")
    await old.say(**DRAIN)
    (await fake.called()).end(Unavailable("STOPPING", "stopping", retry_after=0.0))
    await old.hears("detach")
    go_on.set()
    assert (await old.answer())[0] == [["a"]]
    assert await old.hear() is None
    await fake.attached()


async def test_an_attempt_that_fails_otherwise_is_made_again_and_the_old_session_stays(fake: FakeBroker, serve):
    serve(Provider("notes", echo), fake.address)
    old = await fake.attached()
    await old.say(**DRAIN)
    for verdict in (Unavailable("BUSY", "busy"), grpc.StatusCode.INTERNAL, None):
        (await fake.called()).end(verdict)
        await old.ask(goal="a")
        assert (await old.answer())[0] == [["a"]]
    await fake.attached()
    await old.hears("detach")
    assert await old.hear() is None


async def test_a_provider_that_is_no_longer_allowed_finishes_and_gives_up(fake: FakeBroker, serve):
    task = serve(Provider("notes", echo), fake.address)
    old = await fake.attached()
    await old.say(**DRAIN)
    (await fake.called()).end(PermissionDenied("PROVIDER_NOT_ALLOWED", "no"))
    await old.hears("detach")
    assert await old.hear() is None
    with pytest.raises(PermissionDenied):
        await soon(task)


async def test_an_old_session_that_ends_first_leaves_the_place_to_the_new_one(fake: FakeBroker, serve, opened: list):
    provider = Provider("notes", echo)
    task = serve(provider, fake.address)
    old = await fake.attached()
    await old.say(**DRAIN)
    new = await fake.called()
    old.end(Unavailable("SESSION_AGE", "over"))
    await soon(old.gone.wait())
    await new.welcome()
    await new.ask(goal="a")
    assert (await new.answer())[0] == [["a"]]
    await soon(provider.stop())
    await soon(task)
    assert len(opened) == 2


@pytest.mark.parametrize("welcomed", [True, False])
async def test_a_stop_ends_both(fake: FakeBroker, serve, welcomed):
    never = asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        await never.wait()
        return []

    provider = Provider("notes", answer)
    task = serve(provider, fake.address)
    old = await fake.attached()
    await old.ask()
    await old.say(**DRAIN)
    new = await fake.called()
    if welcomed:
        await new.welcome()
        await old.hears("detach")
    await soon(provider.stop(grace=0))
    await soon(task)
    await soon(asyncio.gather(old.gone.wait(), new.gone.wait()))


async def test_every_session_has_a_connection_of_its_own_and_nothing_is_left_of_the_old_ones(
    fake: FakeBroker, serve, opened: list
):
    gc.collect()
    gc.disable()
    try:
        provider = Provider("notes", echo)
        task = serve(provider, fake.address)
        session = await fake.attached()
        for _ in range(3):
            await session.say(**DRAIN)
            older, session = session, await fake.attached()
            await older.hears("detach")
            assert await older.hear() is None
            await soon(older.gone.wait())
        assert len(opened) == 4
        await soon(provider.stop())
        await soon(task)
        for each in opened:
            with pytest.raises(grpc.aio.UsageError, match="closed"):
                each.stream_stream("/any/method")()
        calls = [found for found in gc.get_objects() if issubclass(type(found), grpc.aio.StreamStreamCall)]
        assert calls == []
    finally:
        gc.enable()
