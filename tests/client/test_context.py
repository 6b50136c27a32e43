"""Both clients ask, stream, list and push; what goes wrong is an error of the broker's own, and says what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from unittest.mock import patch

import grpc
import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb

from broker.client import (
    Accepted,
    BlockingContextClient,
    BudgetSplit,
    Composition,
    ContextClient,
    Duplicates,
    Fence,
    Floor,
    Frame,
    InlineLane,
    LaneUpdate,
    PartialLanes,
    Placed,
    Placement,
    RenderMode,
    Rerank,
    ScoreDescending,
    ScoreScale,
    Snapshot,
)
from broker.client.calls import Answer, parsed
from broker.errors import (
    BrokerError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from tests.client.fake import SAFETY, FakeBroker
from tests.client.threaded import Threaded


@pytest.fixture(params=[ContextClient, Threaded], ids=["async", "blocking"])
def client_class(request):
    return request.param


@pytest.fixture
async def client(fake: FakeBroker, client_class):
    async with client_class(fake.address) as client:
        yield client


ANSWER = (
    pb.ComposeResponse(
        accepted=pb.Accepted(
            composition_id="c1",
            request_id="r1",
            lanes=[pb.OpenedLane(provider_id="a", source=pb.LANE_SOURCE_ATTACHED, max_frames=5, max_tokens=50)],
        )
    ),
    pb.ComposeResponse(
        lane_updates=pb.LaneUpdates(
            updates=[
                pb.LaneUpdate(provider_id="b", state=composition_pb2.LANE_STATE_COLLECTING),
                pb.LaneUpdate(provider_id="a", state=composition_pb2.LANE_STATE_LOST, frames=2, message="gone"),
            ]
        )
    ),
    pb.ComposeResponse(
        part=composition_pb2.Part(
            placed=[
                composition_pb2.Placed(position=1, total=2, provider_id="a", rendered="one\n"),
                composition_pb2.Placed(position=2, total=2, provider_id="a", rendered="two\n"),
            ],
            citations=[composition_pb2.Citation(label="l", position=1)],
        )
    ),
    pb.ComposeResponse(
        part=composition_pb2.Part(
            audit=[composition_pb2.AuditRow(provider_id="a"), composition_pb2.AuditRow()],
            completed=composition_pb2.Completed(
                composition_id="c1", summary=composition_pb2.AuditSummary(rows=2), preamble="top\n", closing="end\n"
            ),
        )
    ),
)


async def test_a_composition_is_whole(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    composition = await client.compose("g", max_tokens=100)
    assert isinstance(composition, Composition)
    assert composition.prompt == "top\none\ntwo\nend\n"
    assert (composition.composition_id, composition.request_id) == ("c1", "r1")
    assert (len(composition.audit), len(composition.citations)) == (2, 1)


async def test_a_stream_yields_whole_snapshots_and_compose_passes_them_over(fake: FakeBroker, client):
    rows = composition_pb2.Part(audit=[composition_pb2.AuditRow(provider_id="a")])
    end = composition_pb2.Completed(
        composition_id="c1", summary=composition_pb2.AuditSummary(rows=1), preamble="so far"
    )
    snapshots = [
        pb.ComposeResponse(snapshot=pb.Snapshot(number=1, part=rows)),
        pb.ComposeResponse(snapshot=pb.Snapshot(number=2, part=rows)),
        pb.ComposeResponse(snapshot=pb.Snapshot(number=2, collecting=["b"], part=composition_pb2.Part(completed=end))),
    ]
    fake.compose = lambda: (ANSWER[0], *snapshots, *ANSWER[1:])
    events = [event async for event in client.stream("g", max_tokens=100, snapshots=True)]
    (snapshot,) = [event for event in events if isinstance(event, Snapshot)]
    assert (snapshot.number, snapshot.collecting, snapshot.composition.prompt) == (2, ("b",), "so far")
    assert snapshot.composition.request_id == "r1"
    assert (await client.compose("g", max_tokens=100, snapshots=True)).prompt == "top\none\ntwo\nend\n"
    assert {request.snapshots for request in fake.requests} == {pb.SNAPSHOTS_ON_LANE_END}


async def test_an_answer_in_one_message_is_the_same_as_in_many(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    events = [event async for event in client.stream("g", max_tokens=100)]
    whole = pb.ComposeResponse()
    for message in ANSWER:
        whole.MergeFrom(message)
    fake.compose = lambda: (whole,)
    assert [event async for event in client.stream("g", max_tokens=100)] == events


async def test_a_stream_yields_what_happens_and_last_the_composition(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    events = [event async for event in client.stream("g", max_tokens=100)]
    assert [type(event) for event in events] == [Accepted, LaneUpdate, LaneUpdate, Placed, Placed, Composition]
    assert events[0].lanes[0].provider == "a"
    assert [event.state for event in events[1:3]] == ["COLLECTING", "LOST"]
    assert tuple(events[3:5]) == events[5].placed


async def test_every_option_reaches_the_broker(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    frame = Frame("m1", "t", "said before", 0.5)
    await client.compose(
        "g",
        query_text="q",
        max_tokens=100,
        strategy=ScoreDescending(),
        floors=[Floor("a", "unit", 0.5)],
        providers=["a", "b"],
        required_providers=["a"],
        expect_pushes=["p"],
        inline_lanes=[InlineLane("memory", ScoreScale("s", 0.0, 2.0), [frame])],
        no_providers=True,
        kinds=["doc", "kind-99"],
        anchors=["file:x"],
        as_of="2025-01-01T00:00:00Z",
        max_frames=5,
        max_frames_per_provider=2,
        max_frames_per_source=3,
        tokenizer="o200k",
        safety_factor=1.5,
        budget_split=BudgetSplit.WEIGHTED,
        budget_weights={"a": 2.0},
        collect_timeout=1.5,
        duplicates=Duplicates.SAME_BYTES_OR_SOURCE,
        placement=Placement.AUTO,
        fold_min_tokens=9,
        partial_lanes=PartialLanes.DROP,
        mode=RenderMode.MARKDOWN,
        fence=Fence.PLAIN,
        restate_question=True,
        question="r",
        include_local_scores=True,
        request_id="r1",
        rerank=Rerank("lexical", 20, top_n=5, min_score=0.0),
        snapshots=True,
    )
    request = pb.ComposeRequest(
        request_id="r1",
        goal="g",
        query_text="q",
        kinds=[4, 99],
        anchors=["file:x"],
        as_of="2025-01-01T00:00:00Z",
        providers=["a", "b"],
        required_providers=["a"],
        expect_pushes=["p"],
        max_tokens=100,
        max_frames=5,
        max_frames_per_provider=2,
        max_frames_per_source=3,
        tokenizer="o200k",
        safety_factor=1.5,
        budget_split=pb.BUDGET_SPLIT_WEIGHTED,
        duplicates=pb.DUPLICATES_MODE_SAME_BYTES_OR_SOURCE,
        placement=pb.PLACEMENT_AUTO,
        fold_min_tokens=9,
        partial_lanes=pb.PARTIAL_LANES_DROP,
        render=pb.RenderOptions(
            mode=pb.RENDER_MODE_MARKDOWN, fence=pb.FENCE_PLAIN, restate_question=True, question="r"
        ),
        include_local_scores=True,
        no_providers=True,
        rerank=pb.Rerank(name="lexical", candidates=20, top_n=5, min_rerank_score=0.0),
        snapshots=pb.SNAPSHOTS_ON_LANE_END,
    )
    request.budget_weights.add(provider_id="a", weight=2.0)
    request.strategy.score_descending.SetInParent()
    request.floors.add(provider_id="a", scale_id="unit", value=0.5)
    request.collect_timeout.FromMilliseconds(1500)
    lane = request.inline_lanes.add(provider_id="memory")
    lane.scale.id, lane.scale.max, lane.scale.direction = "s", 2.0, 1
    lane.frames.add(id="m1", kind=1, title="t", content="said before", score=0.5)
    assert fake.requests == [request]


@pytest.mark.parametrize("wrong", [Rerank("lexical", 0), Rerank("lexical", top_n=0), Rerank("lexical", min_score="x")])
async def test_a_rerank_that_the_wire_cannot_carry_is_refused_here(client, wrong: Rerank):
    with pytest.raises(InvalidArgument) as caught:
        await client.compose("g", max_tokens=100, rerank=wrong)
    assert caught.value.violations[0].field.partition(".")[0] == "rerank"


async def test_a_request_of_two_words_leaves_the_rest_to_the_broker(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    await client.compose("g", max_tokens=100)
    [request] = fake.requests
    assert not request.HasField("strategy")
    assert not request.HasField("collect_timeout")
    assert (request.max_frames, request.render.restate_question) == (0, False)


@pytest.mark.parametrize(
    ("options", "restated"),
    [
        ({"question": "r"}, "r"),
        ({"restate_question": True}, "g"),
        ({"restate_question": True, "query_text": "q"}, "q"),
        ({"query_text": "q"}, ""),
    ],
)
async def test_what_is_restated(fake: FakeBroker, client, options: dict, restated: str):
    fake.compose = lambda: ANSWER
    await client.compose("g", max_tokens=100, **options)
    render = fake.requests[0].render
    assert (render.restate_question, render.question) == (bool(restated), restated)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1, "providers": "files"}, "providers"),
        ({"max_tokens": 1, "kinds": ["poem"]}, "kinds[0]"),
        ({"max_tokens": 1, "max_frames": 0}, "max_frames"),
        ({"max_tokens": 1, "query_text": "\ud800"}, "query_text"),
        (
            {"max_tokens": 1, "inline_lanes": [InlineLane("m", frames=(Frame("i", "t", "\ud800"),))]},
            "inline_lanes[0].frames[0]",
        ),
    ],
)
async def test_what_the_wire_cannot_carry_is_refused_before_it_is_sent(fake: FakeBroker, client, options, field):
    with pytest.raises(InvalidArgument) as error:
        await client.compose("g", **options)
    assert error.value.violations[0].field == field
    assert fake.requests == []


async def test_an_option_that_does_not_exist_is_a_type_error(client):
    with pytest.raises(TypeError, match="min_score"):
        await client.compose("g", max_tokens=1, min_score=0.5)
    with pytest.raises(TypeError, match="max_tokens"):
        await client.compose("g")


async def test_an_error_of_the_broker_arrives_as_itself(fake: FakeBroker, client):
    sent = InvalidArgument(
        "FLOOR_SCALE", "wrong scale", violations=[FieldViolation("floors[0].scale_id", "FLOOR_SCALE", "wrong scale")]
    )
    fake.compose = lambda: (ANSWER[0], sent)
    with pytest.raises(InvalidArgument) as error:
        await client.compose("g", max_tokens=100)
    assert vars(error.value) == vars(sent)
    sent = ResourceExhausted("COUNT_EXCEEDED", "too many", retry_after=1.5, quota="calls")
    fake.verdict = sent
    for call in (client.providers(), client.strategies(), client.push("a", "r", [])):
        with pytest.raises(ResourceExhausted) as error:
            await call
        assert vars(error.value) == vars(sent)


async def test_an_unavailable_of_the_broker_is_not_taken_for_a_lost_connection(fake: FakeBroker, client):
    fake.compose = lambda: (Unavailable("NO_PROVIDERS", "no provider is attached", retry_after=1.0),)
    with pytest.raises(Unavailable) as error:
        await client.compose("g", max_tokens=100)
    assert error.value.reason == "NO_PROVIDERS"


@pytest.mark.parametrize("messages", range(len(ANSWER)))
async def test_an_answer_that_ends_without_its_end_is_an_error(fake: FakeBroker, client, messages: int):
    fake.compose = lambda: ANSWER[:messages]
    with pytest.raises(Internal) as error:
        await client.compose("g", max_tokens=100)
    assert error.value.reason == "ANSWER_BROKEN"


async def test_a_broker_that_is_not_there_is_named_with_what_to_do(client_class):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    async with client_class(address) as client:
        for call in (client.compose("g", max_tokens=1), client.providers(), client.push("a", "r", [])):
            with pytest.raises(Unavailable) as error:
                await call
            assert error.value.reason == "UNREACHABLE"
            assert address in error.value.message
            assert "context-broker serve" in error.value.message


async def test_a_broker_that_goes_away_in_mid_answer_is_a_lost_connection(fake: FakeBroker, client):
    async def going() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        stopping.append(asyncio.create_task(fake.stop()))
        await asyncio.Event().wait()

    stopping: list[asyncio.Task[None]] = []
    fake.compose = going
    with pytest.raises(BrokerError) as error:
        await asyncio.wait_for(client.compose("g", max_tokens=100), SAFETY)
    assert error.value.code in {"UNAVAILABLE", "CANCELLED"}
    await asyncio.wait(stopping)


async def test_a_timeout_is_a_deadline(fake: FakeBroker, client):
    async def never() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        await asyncio.Event().wait()

    fake.compose = never
    with pytest.raises(DeadlineExceeded, match=r"did not answer within"):
        await client.compose("g", max_tokens=100, timeout=0.05)
    await asyncio.wait_for(fake.cancelled.wait(), SAFETY)


async def test_a_bare_status_is_an_error_of_its_code(fake: FakeBroker, client):
    fake.verdict = grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(Unimplemented, match="so it is"):
        await client.providers()
    fake.verdict = grpc.StatusCode.DATA_LOSS
    with pytest.raises(BrokerError) as error:
        await client.providers()
    assert (type(error.value), error.value.reason) == (BrokerError, "DATA_LOSS")
    fake.verdict = grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(FailedPrecondition):
        await client.strategies()


async def test_a_message_larger_than_the_server_takes_is_too_large(client_class):
    small = await FakeBroker(max_receive_message_length=1000).start()
    async with client_class(small.address) as client:
        with pytest.raises(ResourceExhausted) as error:
            await client.push("a", "r", [Frame("i", "t", "c" * 5000)])
        assert error.value.reason == "TOO_LARGE"
    await small.stop()


async def test_lists_are_typed(client):
    [provider] = await client.providers()
    assert (provider.provider, provider.kinds, provider.scale, provider.last_seen) == (
        "notes",
        ("snippet",),
        None,
        None,
    )
    [strategy] = await client.strategies()
    assert (strategy.name, strategy.default) == ("round_robin", True)


async def test_a_push_sends_a_header_then_batches(fake: FakeBroker, client):
    frames = [Frame(str(i), "t", "c" * 100_000, 0.5) for i in range(12)]
    assert await client.push("notes", "r1", frames, scale=ScoreScale("s", 0.0, 2.0)) == 12
    header, *batches = fake.requests
    assert (header.header.provider_id, header.header.request_id, header.header.scale.id) == ("notes", "r1", "s")
    assert [len(batch.batch.frames) for batch in batches] == [5, 5, 2]


async def test_a_push_of_what_cannot_be_sent_is_refused_with_its_place(fake: FakeBroker, client):
    with pytest.raises(InvalidArgument) as error:
        await client.push("notes", "r1", [Frame("a", "t", "c"), Frame("b", "t", "c", token_cost=-1)])
    assert error.value.violations[0].field == "frames[1].token_cost"
    with pytest.raises(InvalidArgument):
        await client.push("\ud800", "r1", [])
    assert fake.requests == []


async def test_a_verdict_that_crosses_a_push_is_still_heard(fake: FakeBroker, client):
    frames = [Frame(str(i), "t", "c" * 100_000, 0.5) for i in range(100)]
    fake.verdict = ResourceExhausted("PUSH_BYTES", "too much is held")
    for _ in range(12):
        with pytest.raises(ResourceExhausted) as error:
            await client.push("notes", "r1", frames)
        assert error.value.reason == "PUSH_BYTES"


async def test_a_push_that_is_not_answered_is_an_error(fake: FakeBroker):
    async with ContextClient(fake.address) as client:
        # What ends such a call well and without a word is no broker; Compose of the fake does.
        with (
            patch("broker.client.context.PUSH", "/contextbroker.v1.ContextService/Compose"),
            patch("broker.client.context.push_data", lambda *_: [b""]),
            pytest.raises(Internal) as error,
        ):
            await client.push("notes", "r1", [])
        assert error.value.reason == "ANSWER_BROKEN"


async def test_a_client_may_be_closed_twice(fake: FakeBroker, client_class):
    client = client_class(fake.address)
    async with client:
        await client.providers()
    await client.close()


async def test_cancelling_the_coroutine_cancels_the_call(fake: FakeBroker):
    started = asyncio.Event()

    async def never() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        started.set()
        await asyncio.Event().wait()

    fake.compose = never
    async with ContextClient(fake.address) as client:
        task = asyncio.create_task(client.compose("g", max_tokens=100))
        await asyncio.wait_for(started.wait(), SAFETY)
        task.cancel()
        await asyncio.wait({task}, timeout=SAFETY)
        assert task.cancelled()
        await asyncio.wait_for(fake.cancelled.wait(), SAFETY)


async def test_leaving_a_stream_early_cancels_the_call(fake: FakeBroker):
    async def never() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        await asyncio.Event().wait()

    fake.compose = never
    async with ContextClient(fake.address) as client:
        stream = client.stream("g", max_tokens=100)
        assert isinstance(await anext(stream), Accepted)
        await stream.aclose()
        await asyncio.wait_for(fake.cancelled.wait(), SAFETY)


async def test_leaving_a_blocking_stream_early_cancels_the_call(fake: FakeBroker):
    async def never() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        await asyncio.Event().wait()

    def first() -> object:
        with BlockingContextClient(fake.address) as client:
            for event in client.stream("g", max_tokens=100):
                return event
        raise AssertionError

    fake.compose = never
    assert isinstance(await asyncio.to_thread(first), Accepted)
    await asyncio.wait_for(fake.cancelled.wait(), SAFETY)


async def test_many_calls_share_one_client(fake: FakeBroker, client):
    fake.compose = lambda: ANSWER
    compositions = await asyncio.gather(*(client.compose(f"g{i}", max_tokens=100) for i in range(20)))
    assert len(compositions) == 20
    assert {request.goal for request in fake.requests} == {f"g{i}" for i in range(20)}


async def test_a_closed_client_opens_again_when_used(fake: FakeBroker):
    client = ContextClient(fake.address)
    await client.providers()
    await client.close()
    assert await client.providers()
    await client.close()


@pytest.mark.parametrize("address", ["", "http://localhost:1", "a b:1"])
async def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(InvalidArgument) as error:
        await ContextClient(address).providers()
    assert error.value.violations[0].field == "address"
    with pytest.raises(InvalidArgument):
        BlockingContextClient(address)


async def test_closing_a_client_ends_its_calls_and_cancels_nobody(fake: FakeBroker):
    started = asyncio.Event()

    async def never() -> AsyncIterator[pb.ComposeResponse]:
        yield ANSWER[0]
        started.set()
        await asyncio.Event().wait()

    fake.compose = never
    client = ContextClient(fake.address)
    asking = asyncio.create_task(client.compose("g", max_tokens=100))
    await asyncio.wait_for(started.wait(), SAFETY)
    await client.close()
    with pytest.raises(Cancelled) as error:
        await asyncio.wait_for(asking, SAFETY)
    assert error.value.reason == "CLOSED"


async def test_a_closed_blocking_client_says_so(fake: FakeBroker):
    client = BlockingContextClient(fake.address)
    client.close()
    for call in (lambda: client.compose("g", max_tokens=1), client.providers, lambda: client.push("a", "r", [])):
        with pytest.raises(Cancelled, match="closed"):
            call()


def test_bytes_that_are_no_answer_are_a_broken_answer():
    for read in (lambda: parsed(pb.ListProvidersResponse, b"\x0a\x05"), lambda: list(Answer().take(b"\x0a\x05"))):
        with pytest.raises(Internal) as error:
            read()
        assert error.value.reason == "ANSWER_BROKEN"


async def test_a_client_finds_a_broker_that_came_back(fake: FakeBroker):
    async with ContextClient(fake.address) as client:
        await client.providers()
        address = fake.address
        await fake.stop()
        with pytest.raises(Unavailable):
            await client.providers()
        again = await FakeBroker().start(address)
        try:
            async with asyncio.timeout(SAFETY):
                while True:
                    try:
                        assert await client.providers()
                        break
                    except Unavailable as error:
                        assert error.reason == "UNREACHABLE"  # noqa: PT017 - the loop is what is tested
        finally:
            await again.stop()
