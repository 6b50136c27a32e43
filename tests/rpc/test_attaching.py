"""What a session and its call say to each other: each in order, to the end, and no read or write is ever cancelled."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import grpc.aio
import pytest

from broker.config import Config
from broker.errors import BrokerError, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable
from broker.gather.fabric import Ending
from broker.gather.session import ProviderSession, State
from broker.rpc.attaching import Attaching
from broker.rpc.server import Broker
from broker.rpc.streams import ClientGone
from broker.rpc.tasks import Tasks
from broker.wire import sessions
from broker.wire.events import Ask, Cancel, Detached, Hello, LaneEnded, Malformed, Outbound, Rejection, Welcome
from tests.gather.support import QUERY, Recorder
from tests.gather.test_local import LocalHarness
from tests.rpc.test_streams import Wire, stream, ticks

SAFETY = 20.0
HELLO = sessions.attach_request(Hello("a", "1"))


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0"})


class Attached:
    """A provider's call whose peer the test is; its session stands on a fabric of the test's."""

    def __init__(self, *incoming: bytes, first_message_seconds: float = SAFETY, stall_seconds: float = SAFETY) -> None:
        self.wire, self.tasks = Wire(*incoming), Tasks()
        self.call = stream(self.wire, self.tasks)
        serving = Broker(Config(server={"listen": "127.0.0.1:0"})).assembled().serving
        serving = replace(
            serving, tasks=self.tasks, first_message_seconds=first_message_seconds, stall_seconds=stall_seconds
        )
        attaching = Attaching(self.call, serving, sessions.DEFAULT_LIMITS)
        ids = (f"q{number}" for number in itertools.count(1))
        self.harness = LocalHarness()
        self.session = ProviderSession(
            fabric=self.harness.fabric,
            clock=asyncio.get_running_loop(),
            session_id="s",
            new_query_id=lambda: next(ids),
            now=self.harness.clock.time,
            notify=attaching.notify,
        )
        self.attached = 0
        self.serving = asyncio.create_task(attaching.serve(self.session, self._attached))

    def _attached(self, session: ProviderSession) -> None:
        assert session is self.session
        self.attached += 1

    def says(self, event: object) -> None:
        self.wire.incoming.put_nowait(sessions.attach_request(event))

    def ask(self) -> tuple[Recorder, object]:
        """A query of it, with five seconds left."""
        sink = Recorder()
        return sink, self.session.ask(QUERY, asyncio.get_running_loop().time() + 5, sink)

    @property
    def heard(self) -> list[Outbound | None]:
        return [sessions.read_attach_response(message) for message in self.wire.written]

    async def over(self) -> BrokerError | None:
        """What it ended with, as its handler would; the core then ends the read."""
        try:
            async with asyncio.timeout(SAFETY):
                await self.serving
        except BrokerError as error:
            return error
        finally:
            self.session.close()
            self.call.close()
            self.wire.incoming.put_nowait(grpc.aio.EOF)
            await self.tasks.wait(SAFETY)
        return None


async def test_a_provider_is_welcomed_asked_and_heard_in_order() -> None:
    provider = Attached(HELLO)
    await ticks()
    assert (provider.attached, provider.session.state) == (1, State.OPEN)
    (first, _), (second, handle) = provider.ask(), provider.ask()
    await ticks()
    handle.cancel()
    provider.says(LaneEnded("q1"))
    await ticks()
    welcome, *asks, cancel = provider.heard
    assert (welcome, cancel) == (Welcome("s"), Cancel("q2"))
    assert [(type(ask), ask.query_id) for ask in asks] == [(Ask, "q1"), (Ask, "q2")]
    assert all(4000 < ask.remaining_ms <= 5000 for ask in asks)
    assert (first.endings, second.endings) == ([Ending.COMPLETE], [])
    provider.says(Detached())
    provider.wire.incoming.put_nowait(grpc.aio.EOF)
    assert await provider.over() is None


async def test_a_quiet_provider_has_no_writer_and_one_that_was_asked_keeps_its_own() -> None:
    provider = Attached(HELLO)

    def writers() -> set[asyncio.Task[None]]:
        return {task for task in provider.tasks._tasks if task.get_name() == "rpc-writer"}

    await ticks()
    provider.session.receive(Malformed("MALFORMED", "m"))
    await ticks()
    assert (len(provider.heard), writers()) == (2, set())
    provider.ask()
    await ticks()
    (writer,) = writers()
    provider.ask()
    provider.ask()
    await ticks()
    assert (len(provider.heard), writers()) == (5, {writer})
    provider.session.close()
    assert await provider.over() is None
    assert writer.done()


async def test_a_query_that_is_over_before_it_could_be_written_is_never_sent() -> None:
    provider = Attached(HELLO)
    await ticks()
    provider.wire.window = asyncio.Semaphore(0)
    provider.ask()
    await ticks()
    _, handle = provider.ask()
    handle.cancel()
    provider.ask()
    for _ in range(3):
        provider.wire.window.release()
    await ticks()
    assert [ask.query_id for ask in provider.heard[1:]] == ["q1", "q3"]
    provider.session.close()
    assert await provider.over() is None


async def test_what_was_queued_is_written_before_the_call_ends_with_the_sessions_error() -> None:
    provider = Attached(HELLO)
    await ticks()
    provider.wire.window = asyncio.Semaphore(0)
    provider.session.receive(Malformed("MALFORMED", "1"))
    provider.session.receive(Malformed("MALFORMED", "2"))
    provider.session.close(Unavailable("STOPPING", "stopping"))
    await ticks()
    assert not provider.serving.done()
    for _ in range(2):
        provider.wire.window.release()
    error = await provider.over()
    assert error is not None
    assert error.reason == "STOPPING"
    assert [type(event) for event in provider.heard] == [Welcome, Rejection, Rejection]


async def test_a_peer_that_takes_nothing_is_cut_when_more_is_to_be_said_and_what_is_open_is_lost() -> None:
    provider = Attached(HELLO, stall_seconds=0.01)
    await ticks()
    provider.wire.window = asyncio.Semaphore(0)
    sink, _ = provider.ask()
    await asyncio.sleep(0.05)
    assert (provider.session.state, sink.endings) == (State.OPEN, [])
    late, _ = provider.ask()
    assert [sink.endings, late.endings] == [[Ending.LOST]] * 2
    await ticks()
    assert provider.serving.done()
    provider.wire.window.release()
    error = await provider.over()
    assert isinstance(error, ResourceExhausted)
    assert (error.reason, error.quota) == ("SLOW_CONSUMER", "server.stall_seconds")


async def test_a_peer_that_takes_nothing_does_not_keep_a_session_from_its_end() -> None:
    provider = Attached(HELLO, stall_seconds=0.01)
    await ticks()
    provider.wire.window = asyncio.Semaphore(0)
    provider.ask()
    await ticks()
    provider.session.close()
    async with asyncio.timeout(SAFETY):
        await asyncio.wait([provider.serving])
    provider.wire.window.release()
    error = await provider.over()
    assert error is not None
    assert error.reason == "SLOW_CONSUMER"


async def test_a_peer_that_is_gone_when_it_is_written_to_loses_what_is_open() -> None:
    provider = Attached(HELLO)
    await ticks()
    provider.wire.fails = True
    sink, _ = provider.ask()
    with pytest.raises(ClientGone):
        await provider.over()
    assert sink.endings == [Ending.LOST]
    assert provider.harness.fabric.instances() == ()


async def test_a_handler_that_is_cancelled_cancels_no_read_and_no_write() -> None:
    provider = Attached(HELLO)
    await ticks()
    provider.wire.window = asyncio.Semaphore(0)
    provider.ask()
    await ticks()
    provider.serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await provider.serving
    provider.session.close()
    provider.call.close()
    await ticks()
    assert not provider.wire.cancelled
    assert (provider.wire.reading, provider.wire.writing) == (1, 1)
    provider.wire.window.release()
    provider.wire.incoming.put_nowait(grpc.aio.EOF)
    await provider.tasks.wait(SAFETY)
    assert (provider.wire.reading, provider.wire.writing, provider.wire.reads) == (0, 0, 2)


async def test_a_call_that_says_nothing_in_time_ends() -> None:
    provider = Attached(first_message_seconds=0.01)
    error = await provider.over()
    assert isinstance(error, InvalidArgument)
    assert (error.reason, provider.attached) == ("NO_MESSAGE", 0)


async def test_a_call_that_ends_without_a_message_is_told_so() -> None:
    provider = Attached()
    provider.wire.incoming.put_nowait(grpc.aio.EOF)
    error = await provider.over()
    assert isinstance(error, InvalidArgument)
    assert error.reason == "NO_MESSAGE"


async def test_a_second_hello_ends_the_session_that_stood_once() -> None:
    provider = Attached(HELLO, HELLO)
    error = await provider.over()
    assert isinstance(error, FailedPrecondition)
    assert (error.reason, provider.attached) == ("PROTOCOL_ORDER", 1)


async def test_a_fault_ends_the_call_and_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Attached(HELLO)
    await ticks()
    sink, _ = provider.ask()
    monkeypatch.setattr(sessions, "read_attach_request", lambda *_: [].pop())
    provider.says(Detached())
    with pytest.raises(IndexError):
        await provider.over()
    assert sink.endings == [Ending.LOST]
