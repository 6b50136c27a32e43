"""One reader and one writer for each call, both bounded; a read is never cancelled and a stalled peer is cut."""

from __future__ import annotations

import asyncio
import contextlib

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.auth.caller import anonymous
from broker.errors import ResourceExhausted
from broker.rpc.streams import INBOX, INBOX_BYTES, OUTBOX, ClientGone, Stream
from broker.rpc.tasks import Tasks
from tests.limits.support import holding

CALLER = anonymous("ipv4:127.0.0.1:1", operates=False)


class Wire:
    """A call's context that a test plays the peer of."""

    def __init__(self, *incoming: bytes, remaining: float | None = None) -> None:
        self.incoming: asyncio.Queue[object] = asyncio.Queue()
        for message in incoming:
            self.incoming.put_nowait(message)
        self.remaining = remaining
        self.reads = 0
        self.reading = self.writing = 0
        self.cancelled = False
        self.written: list[bytes] = []
        self.window = asyncio.Semaphore(1_000_000)
        self.fails = False

    async def read(self) -> object:
        self.reads += 1
        self.reading += 1
        assert self.reading == 1, "two readers"
        try:
            return await self.incoming.get()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.reading -= 1

    async def send_initial_metadata(self, metadata: object, /) -> None:
        if self.fails:
            raise RuntimeError("as the core does when a call was broken off")

    async def write(self, message: bytes) -> None:
        self.writing += 1
        assert self.writing == 1, "two writers"
        try:
            await self.window.acquire()
            if self.fails:
                raise RuntimeError("as the core does when a peer was killed")
            self.written.append(message)
        finally:
            self.writing -= 1

    def time_remaining(self) -> float | None:
        return self.remaining


def stream(wire: Wire, tasks: Tasks | None = None, *, stall_seconds: float = 20.0) -> Stream:
    return Stream(wire, tasks or Tasks(), caller=CALLER, held=holding(), stall_seconds=stall_seconds)


async def ticks(n: int = 20) -> None:
    """Lets everything run that can run now."""
    for _ in range(n):
        await asyncio.sleep(0)


async def test_messages_come_in_order_and_then_the_end() -> None:
    wire = Wire(b"1", b"2", grpc.aio.EOF)
    call = stream(wire)
    assert [await call.receive(), await call.receive(), await call.receive(), await call.receive()] == [
        b"1",
        b"2",
        None,
        None,
    ]


async def test_giving_up_on_a_message_cancels_no_read_and_loses_nothing() -> None:
    wire = Wire()
    call = stream(wire)
    with pytest.raises(TimeoutError):
        await call.receive(0)
    waiting = asyncio.create_task(call.receive())
    await ticks()
    waiting.cancel()
    await ticks()
    assert not wire.cancelled
    wire.incoming.put_nowait(b"late")
    assert await call.receive() == b"late"
    wire.incoming.put_nowait(grpc.aio.EOF)
    await ticks()


async def test_the_reader_stops_when_its_inbox_is_full_and_goes_on_when_it_is_not() -> None:
    wire = Wire(*(bytes([i]) for i in range(3 * INBOX)), grpc.aio.EOF)
    call = stream(wire)
    assert await call.receive() == b"\x00"
    await ticks()
    assert wire.reads == INBOX + 1
    got = [b"\x00"]
    while (message := await call.receive()) is not None:
        got.append(message)
    assert got == [bytes([i]) for i in range(3 * INBOX)]


async def test_one_large_message_fills_the_inbox() -> None:
    wire = Wire(*[bytes(INBOX_BYTES) for _ in range(3)])
    call = stream(wire)
    assert await call.receive() is not None
    await ticks()
    assert wire.reads == 2
    for _ in range(2):
        assert await call.receive() is not None
    wire.incoming.put_nowait(grpc.aio.EOF)
    assert await call.receive() is None


async def test_a_closed_stream_reads_no_more_but_never_cancels_a_read() -> None:
    wire, tasks = Wire(b"1"), Tasks()
    call = stream(wire, tasks)
    await call.receive()
    await ticks()
    call.close()
    await ticks()
    assert not wire.cancelled
    # The core ends the read once the call is over; then the task ends.
    wire.incoming.put_nowait(grpc.aio.EOF)
    await tasks.wait(20)
    assert wire.reads == 2


async def test_a_full_inbox_does_not_keep_the_reader_of_a_closed_stream() -> None:
    wire, tasks = Wire(*(b"x" for _ in range(3 * INBOX))), Tasks()
    call = stream(wire, tasks)
    await call.receive()
    await ticks()
    call.close()
    await tasks.wait(20)
    assert wire.reads < 3 * INBOX


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_what_is_sent_is_written_once_and_in_order(messages: list[bytes]) -> None:
    async def run() -> list[bytes]:
        wire, tasks = Wire(), Tasks()
        call = stream(wire, tasks)
        for message in messages:
            await call.send(message)
        await call.flush()
        call.close()
        await tasks.wait(20)
        return wire.written

    assert asyncio.run(run()) == messages


PART = bytes(OUTBOX // 4)
"""Four of these fill the outbox."""


async def test_sending_waits_for_room_and_no_more_than_the_outbox_is_held() -> None:
    wire = Wire()
    wire.window = asyncio.Semaphore(0)
    call = stream(wire)
    for _ in range(4):
        await call.send(PART)
    late = asyncio.create_task(call.send(b"late"))
    await ticks()
    assert not late.done()
    wire.window.release()
    await late
    assert wire.written == [PART]
    for _ in range(4):
        wire.window.release()
    await call.flush()
    assert wire.written[-1] == b"late"
    call.close()


async def test_a_peer_that_takes_nothing_is_cut() -> None:
    wire = Wire()
    wire.window = asyncio.Semaphore(0)
    call = stream(wire, stall_seconds=0.01)
    for _ in range(4):
        await call.send(PART)
    with pytest.raises(ResourceExhausted) as caught:
        await call.send(b"x")
    assert caught.value.reason == "SLOW_CONSUMER"
    with pytest.raises(ResourceExhausted):
        await call.flush()
    wire.window.release()
    call.close()


async def test_a_peer_that_takes_a_message_now_and_then_is_cut_only_once_it_stops() -> None:
    wire, time = Wire(), asyncio.get_running_loop().time
    wire.window = asyncio.Semaphore(0)
    call = stream(wire, stall_seconds=0.6)
    for part in range(6):
        await call.send(b"%d" % part)
    flushing = asyncio.create_task(call.flush())
    for _ in range(5):
        await asyncio.sleep(0.2)
        wire.window.release()
    taken = time()
    with pytest.raises(ResourceExhausted):
        await flushing
    assert wire.written == [b"0", b"1", b"2", b"3", b"4"]
    assert time() - taken >= 0.55
    wire.window.release()
    call.close()


async def test_several_wait_for_a_peer_each_for_its_own_room() -> None:
    wire = Wire()
    wire.window = asyncio.Semaphore(0)
    call = stream(wire)
    for _ in range(4):
        await call.send(PART)
    sending, flushing = asyncio.create_task(call.send(b"x")), asyncio.create_task(call.flush())
    await ticks()
    assert not sending.done()
    wire.window.release()
    await sending
    await ticks()
    assert not flushing.done()
    for _ in range(4):
        wire.window.release()
    await flushing
    assert len(wire.written) == 5
    call.close()


async def test_a_peer_that_is_gone_is_told_apart_and_nothing_waits_for_it() -> None:
    wire, tasks = Wire(), Tasks()
    wire.fails = True
    call = stream(wire, tasks)
    await call.send(b"x")
    with pytest.raises(ClientGone):
        await call.flush()
    with pytest.raises(ClientGone):
        await call.send(b"y")
    call.close()
    await tasks.wait(20)


async def test_a_call_that_was_broken_off_is_told_apart_from_one_that_has_said_everything() -> None:
    for broken_off in (False, True):
        wire = Wire(b"1", grpc.aio.EOF)
        wire.fails = broken_off
        call = stream(wire)
        assert [await call.receive(), await call.receive()] == [b"1", None]
        with pytest.raises(ClientGone) if broken_off else contextlib.nullcontext():
            await call.confirm()


async def test_the_callers_deadline_is_read_once_and_kept_on_the_loops_clock() -> None:
    wire = Wire(remaining=5.0)
    before = asyncio.get_running_loop().time()
    call = stream(wire)
    wire.remaining = 1e9
    assert call.deadline is not None
    assert before + 5.0 <= call.deadline <= asyncio.get_running_loop().time() + 5.0
    assert stream(Wire()).deadline is None


class SlowHead(Wire):
    """One whose core takes its time with the head of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = 0
        self.sent = asyncio.Event()

    async def send_initial_metadata(self, metadata: object, /) -> None:
        self.heads += 1
        await self.sent.wait()


async def test_a_stream_is_settled_once_no_head_is_on_its_way() -> None:
    wire = SlowHead()
    call = stream(wire)
    await call.settled()
    call.open()
    await ticks()
    call.close()
    settling = asyncio.create_task(call.settled())
    await ticks()
    assert not settling.done()
    wire.sent.set()
    await settling
    assert wire.heads == 1


async def test_a_head_that_the_core_does_not_send_holds_up_nobody_for_long() -> None:
    wire = SlowHead()
    call = stream(wire, stall_seconds=0.01)
    call.open()
    await ticks()
    call.close()
    await call.settled()
    assert not wire.sent.is_set()
    wire.sent.set()
    await ticks()


async def test_a_closed_stream_sends_no_head() -> None:
    wire = SlowHead()
    call = stream(wire)
    call.open()
    call.close()
    await ticks()
    await call.settled()
    assert wire.heads == 0
