"""Sessions and pushes end to end: their order is kept, what is wrong is said, and blame falls on the sender."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest
from contextbroker.v1 import provider_service_pb2 as pb

from broker.auth.caller import anonymous
from broker.config import Config
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
)
from broker.gather.pushes import Reading
from broker.rpc import provider_service
from broker.rpc.quotas import Quotas
from broker.rpc.server import Broker
from broker.rpc.streams import ClientGone, Stream
from broker.rpc.tasks import Tasks
from broker.wire.batches import join_batch
from broker.wire.events import Batch, Detached, Hello, LaneEnded, Rejection
from broker.wire.pushes import PushHeader, push_header, push_part
from broker.wire.sessions import attach_request, read_limits
from tests.limits.support import holding
from tests.rpc.peers import ATTACH, PUSH, Peer, encoded, frames, lanes, read_all, rows

LONG = 20.0


@pytest.fixture
def broker_config() -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"}, limits={"lane_frames": 5, "push_hold_bytes": 4000, "push_hold_seconds": 30}
    )


async def composing(peer: Peer, **request: object) -> asyncio.Task:
    return asyncio.create_task(peer.compose(collect_timeout=LONG, **request))


# --- sessions


async def test_a_welcome_tells_what_the_broker_takes(broker: Broker, peer: Peer) -> None:
    call = peer.open(ATTACH)
    await call.write(attach_request(Hello("files", "1")))
    told = read_limits(await call.read())
    limits = broker.config.limits
    assert (told.max_message_bytes, told.max_frame_bytes) == (limits.max_message_bytes, limits.max_frame_bytes)
    call.cancel()


@pytest.mark.parametrize(
    "first", [Batch("q", b"\n\x01q"), LaneEnded("q"), Detached()], ids=lambda event: type(event).__name__
)
async def test_anything_before_hello_ends_the_session(peer: Peer, first: object) -> None:
    answer = await peer.call(ATTACH, attach_request(first), end=False)
    assert isinstance(answer.error, FailedPrecondition)
    assert answer.error.reason == "PROTOCOL_ORDER"
    assert answer.messages == []


@pytest.mark.parametrize("second", ["hello", "after detach"])
async def test_a_session_out_of_order_ends_and_its_open_lanes_fail(peer: Peer, second: str) -> None:
    bad, good = await peer.attach("bad"), await peer.attach("good")
    asked = await composing(peer)
    ask = await bad.hear_ask()
    await good.answer(frames(("x", 0.5)))
    if second == "hello":
        await bad.say(Hello("bad", "one"))
    else:
        await bad.say(Detached())
        await bad.say(Batch("another", b"\n\x07another"))
    error = await bad.ended()
    assert isinstance(error, FailedPrecondition)
    assert error.reason == "PROTOCOL_ORDER"
    assert lanes((await asked).composition()) == {"bad": "FAILED", "good": "COMPLETE"}
    assert ask.query_id


async def test_a_batch_for_no_open_query_is_rejected_with_one_text_for_all(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    asked = await composing(peer)
    mine, theirs = await a.hear_ask(), await b.hear_ask()
    texts = []
    for query_id in ("unknown", theirs.query_id):
        await a.frames(query_id, frames(("x", 0.5)))
        rejected = await a.hear()
        assert isinstance(rejected, Rejection)
        assert rejected.query_id == query_id
        texts.append(rejected.violations)
    await a.say(LaneEnded(mine.query_id))
    await a.frames(mine.query_id, frames(("x", 0.5)))
    rejected = await a.hear()
    assert isinstance(rejected, Rejection)
    texts.append(rejected.violations)
    assert texts[0] == texts[1] == texts[2]
    await b.say(LaneEnded(theirs.query_id))
    composition = (await asked).composition()
    assert rows(composition) == {}
    assert lanes(composition) == {"a": "EMPTY", "b": "EMPTY"}


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x12\x02\xff\xff", b"", b"\x22\x00\x22\x00"])
async def test_a_message_that_does_not_parse_is_rejected_and_the_session_lives_on(peer: Peer, data: bytes) -> None:
    provider = await peer.attach("a")
    asked = await composing(peer)
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("before", 0.5)))
    await provider.say_bytes(data)
    rejected = await provider.hear()
    assert isinstance(rejected, Rejection)
    assert rejected.violations[0].reason == "MALFORMED"
    await provider.frames(ask.query_id, frames(("after", 0.4)))
    await provider.say(LaneEnded(ask.query_id))
    assert rows((await asked).composition()) == {("a", "before"): "", ("a", "after"): ""}


async def test_what_is_rejected_again_and_again_is_read_more_slowly_and_nothing_else_is(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that floods takes its own time; one that answers is never held up, nor is it by a late batch or two."""
    paced: list[tuple[str, int]] = []

    async def pace(self: Quotas, holder: str, times: int = 1) -> None:
        paced.append((holder, times))

    monkeypatch.setattr(Quotas, "pace", pace)
    provider = await peer.attach("a")
    asked = await composing(peer)
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    for useless in (Batch("unknown", join_batch("unknown", [bytes(200_000)])), LaneEnded("unknown")):
        await provider.say(useless)
        assert isinstance(await provider.hear(), Rejection)
    await provider.say_bytes(b"\xff\xff")
    assert isinstance(await provider.hear(), Rejection)
    await provider.say(Batch(ask.query_id, join_batch(ask.query_id, [])))
    await provider.say(LaneEnded(ask.query_id))
    assert rows((await asked).composition()) == {("a", "x"): ""}
    holders, times = zip(*paced, strict=True)
    assert times == (4, 1, 1, 1)
    assert len(set(holders)) == 1
    assert holders[0].startswith("ipv4:127.0.0.1:")


async def test_a_push_of_far_too_many_frames_is_not_taken_apart(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    header = push_header(PushHeader("a", "r"))
    monkeypatch.setattr(provider_service, "batch_size", lambda _: pytest.fail("it was taken apart"))
    answer = await peer.call(PUSH, header, push_part([b""] * 300_000))
    assert isinstance(answer.error, ResourceExhausted)
    assert (answer.error.reason, answer.error.quota) == ("PUSH_FRAMES", "limits.lane_frames")


HELLOS = [
    (pb.Hello(provider_id="Files", instance_id="1"), "PROVIDER_NAME", "provider_id"),
    (pb.Hello(provider_id="all", instance_id="1"), "PROVIDER_NAME", "provider_id"),
    (pb.Hello(provider_id="default", instance_id="1"), "PROVIDER_NAME", "provider_id"),
    (pb.Hello(provider_id="a", instance_id=""), "INSTANCE_ID", "instance_id"),
    (pb.Hello(provider_id="a", instance_id="1", max_in_flight=10_001), "FIELD_INVALID", "max_in_flight"),
]


@pytest.mark.parametrize(("hello", "reason", "field"), HELLOS)
async def test_a_hello_that_breaks_a_rule_is_refused(peer: Peer, hello: pb.Hello, reason: str, field: str) -> None:
    answer = await peer.call(ATTACH, pb.AttachRequest(hello=hello).SerializeToString(), end=False)
    assert isinstance(answer.error, InvalidArgument)
    assert (answer.error.reason, answer.error.violations[0].field) == (reason, field)
    assert await peer.providers() == {}


async def test_an_instance_that_attaches_again_takes_its_own_place(
    peer: Peer, connect: Callable[[], Awaitable[Peer]]
) -> None:
    old = await peer.attach("a", "same")
    asked = await composing(peer)
    ask = await old.hear_ask()
    new = await (await connect()).attach("a", "same")
    error = await old.ended()
    assert isinstance(error, Aborted)
    assert error.reason == "FENCED"
    await new.answer(frames(("x", 0.5)))
    assert rows((await asked).composition()) == {("a", "x"): ""}
    assert [instance.session for instance in (await peer.providers())["a"].instances] == [new.session_id]
    assert ask.query_id


async def test_instances_of_other_names_share_one_lane(peer: Peer) -> None:
    both = [await peer.attach("a", "1"), await peer.attach("a", "2")]
    assert [instance.instance for instance in (await peer.providers())["a"].instances] == ["1", "2"]
    asked = await composing(peer)
    await both[0].answer(frames(("x", 0.5)))
    assert lanes((await asked).composition()) == {"a": "COMPLETE"}


async def test_an_instance_that_is_replaced_again_and_again_is_refused(peer: Peer) -> None:
    for _ in range(4):
        await peer.attach("a", "flapping")
    answer = await peer.call(ATTACH, attach_request(Hello("a", "flapping")), end=False)
    assert isinstance(answer.error, ResourceExhausted)
    assert answer.error.reason == "FLAPPING"
    assert answer.error.retry_after is not None


@pytest.mark.parametrize(
    "scale",
    [ScoreScale("other"), ScoreScale("unit", 0, 2), ScoreScale("unit", direction=Direction.LOWER_IS_BETTER)],
    ids=["id", "range", "direction"],
)
async def test_a_second_instance_of_another_scale_is_refused_at_hello(peer: Peer, scale: ScoreScale) -> None:
    await peer.attach("a", "1", UNIT)
    answer = await peer.call(ATTACH, attach_request(Hello("a", "2", scale=scale)), end=False)
    assert isinstance(answer.error, FailedPrecondition)
    assert answer.error.reason == "SCALE_CONFLICT"
    assert [instance.instance for instance in (await peer.providers())["a"].instances] == ["1"]


async def test_a_session_that_its_provider_ends_ends_well(peer: Peer) -> None:
    provider = await peer.attach("a")
    await provider.say(Detached())
    await provider.call.done_writing()
    assert await provider.hear() is None
    listed = (await peer.providers())["a"]
    assert listed.instances == ()
    assert listed.last_seen is not None


async def test_open_queries_may_be_answered_after_detach(peer: Peer) -> None:
    provider = await peer.attach("a")
    asked = await composing(peer)
    ask = await provider.hear_ask()
    await provider.say(Detached())
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    await provider.say(LaneEnded(ask.query_id))
    assert rows((await asked).composition()) == {("a", "x"): ""}
    await provider.call.done_writing()
    assert await provider.hear() is None


async def test_a_provider_that_never_reads_is_no_trouble_for_others(peer: Peer) -> None:
    deaf, good = await peer.attach("deaf"), await peer.attach("good")
    for _ in range(20):
        asked = asyncio.create_task(peer.compose(providers=("good",)))
        await good.answer([])
        assert (await asked).error is None
    deaf.call.cancel()


# --- pushes


def header(request_id: str = "r", provider: str = "a", scale: ScoreScale = UNIT) -> bytes:
    return push_header(PushHeader(provider, request_id, scale))


def part(*names: str) -> bytes:
    return push_part(encoded(frames(*((name, 0.5) for name in names))))


async def test_a_push_says_how_many_frames_were_read(peer: Peer) -> None:
    answer = await peer.call(PUSH, header(), part("a", "b"), part("c"))
    assert answer.error is None
    assert pb.PushResponse.FromString(answer.messages[0]).frames == 3


async def test_batches_without_frames_are_not_held(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    held, add = [], Reading.add
    monkeypatch.setattr(Reading, "add", lambda reading, data: held.append(data) or add(reading, data))
    answer = await peer.call(PUSH, header(), *[part()] * 3, part("a"), part())
    assert pb.PushResponse.FromString(answer.messages[0]).frames == len(held) == 1


@pytest.mark.parametrize(
    "messages",
    [(part("x"),), (header(), header()), (header(), part("x"), header())],
    ids=["batch first", "twice", "late"],
)
async def test_a_push_is_a_header_and_then_batches(peer: Peer, messages: tuple[bytes, ...]) -> None:
    answer = await peer.call(PUSH, *messages)
    assert isinstance(answer.error, FailedPrecondition)
    assert answer.error.reason == "PROTOCOL_ORDER"


@pytest.mark.parametrize(
    ("message", "reason", "field"),
    [(header(provider="*"), "PROVIDER_NAME", "provider_id"), (header(request_id=""), "REQUEST_ID", "request_id")],
)
async def test_a_header_that_breaks_a_rule_is_refused(peer: Peer, message: bytes, reason: str, field: str) -> None:
    answer = await peer.call(PUSH, message)
    assert isinstance(answer.error, InvalidArgument)
    assert (answer.error.reason, answer.error.violations[0].field) == (reason, field)


async def test_a_push_holds_no_more_frames_than_a_lane_may(peer: Peer) -> None:
    answer = await peer.call(PUSH, header(), part("1", "2", "3"), part("4", "5", "6"))
    assert isinstance(answer.error, ResourceExhausted)
    assert answer.error.reason == "PUSH_FRAMES"
    # Nothing of it was held.
    assert (await peer.call(PUSH, header(), part("1"))).error is None


async def test_early_pushes_are_bounded_in_bytes(peer: Peer) -> None:
    answers = [
        await peer.call(PUSH, header(f"r{i}"), push_part(encoded(frames(("x", 0.5), content="x" * 1000))))
        for i in range(4)
    ]
    error = answers[-1].error
    assert isinstance(error, ResourceExhausted)
    assert error.reason == "PUSH_BYTES"
    assert error.quota
    assert error.retry_after is not None


async def test_a_second_push_of_one_provider_for_one_request_is_refused(peer: Peer) -> None:
    assert (await peer.call(PUSH, header(), part("x"))).error is None
    answer = await peer.call(PUSH, header(), part("y"))
    assert isinstance(answer.error, AlreadyExists)
    assert answer.error.reason == "PUSH_REPEATED"


class BrokenOff:
    """A call as the core shows one that was broken off: it ends like any other, and writing to it fails."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = [*messages, grpc.aio.EOF]

    async def read(self) -> object:
        return self._messages.pop(0)

    async def write(self, message: bytes) -> None:
        raise RuntimeError

    async def send_initial_metadata(self, metadata: object, /) -> None:
        raise RuntimeError

    def time_remaining(self) -> None:
        return None


async def test_the_end_of_a_push_that_is_broken_off_is_not_taken_for_its_whole(broker: Broker, peer: Peer) -> None:
    call = Stream(
        BrokenOff(header(), part("x")),
        Tasks(),
        caller=anonymous("ipv4:127.0.0.1:1", operates=False),
        held=holding(),
        stall_seconds=LONG,
    )
    with pytest.raises(ClientGone):
        await asyncio.create_task(broker._running.provider_service._push(call))
    assert (await peer.call(PUSH, header(), part("y"))).error is None


async def test_a_push_that_is_broken_off_is_not_held(peer: Peer) -> None:
    call = peer.open(PUSH)
    await call.write(header())
    await call.write(part("x"))
    call.cancel()
    assert (await peer.call(PUSH, header(), part("y"))).error is None
    asked = await peer.compose(request_id="r", expect_pushes=("a",))
    assert rows(asked.composition()) == {("a", "y"): ""}


class TestThatTakesItsTime:
    """Of a push that comes in slowly."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, limits={"push_hold_bytes": 4000, "push_hold_seconds": 0.3})

    @pytest.mark.parametrize("drop", [b"", part()], ids=["silent", "a batch without frames, again and again"])
    async def test_it_gives_its_room_back_however_it_drags_on(self, peer: Peer, drop: bytes) -> None:
        call = peer.open(PUSH)
        await call.write(header())
        await call.write(push_part(encoded(frames(("x", 0.5), content="x" * 3000))))
        reading = asyncio.create_task(read_all(call))
        while not reading.done():
            if drop:
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await call.write(drop)
            await asyncio.wait([reading], timeout=0.01)
        error = (await reading).error
        assert error is not None
        # A write that meets the end of its call hides the status from this client.
        assert drop or (isinstance(error, DeadlineExceeded) and error.reason == "PUSH_STALLED")
        again = await peer.call(PUSH, header(), push_part(encoded(frames(("y", 0.5), content="y" * 3000))))
        assert again.error is None


async def test_a_push_in_another_scale_than_the_attached_provider_is_refused(peer: Peer) -> None:
    await peer.attach("a")
    answer = await peer.call(PUSH, header(scale=ScoreScale("other")), part("x"))
    assert isinstance(answer.error, FailedPrecondition)
    assert answer.error.reason == "SCALE_CONFLICT"
