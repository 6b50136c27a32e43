"""Providers and clients through a real broker: what was promised of each holds for both together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from broker.client import (
    Accepted,
    BlockingContextClient,
    Composition,
    ContextClient,
    Floor,
    Frame,
    InlineLane,
    LaneUpdate,
    PartialLanes,
    Placement,
    Provider,
    Query,
    RenderMode,
    Rerank,
    RerankOutcome,
    ScoreScale,
    Snapshot,
)
from broker.config import Config
from broker.core.lanes import LaneEnd
from broker.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    Unavailable,
)
from broker.rpc.server import Broker
from tests.client.fake import SAFETY


def frame(name: str, score: float | None = 0.5, content: str = "") -> Frame:
    return Frame(name, f"title of {name}", content or f"content of {name}", score)


async def soon(future):
    return await asyncio.wait_for(future, SAFETY)


@pytest.fixture
async def attach(broker: Broker, serve):
    """Attaches a provider to the broker and returns once it has."""

    async def start(provider: Provider, address: str = "") -> asyncio.Task[None]:
        attached = asyncio.Event()
        task = serve(provider, address or broker.address, on_attached=lambda _: attached.set())
        await soon(attached.wait())
        return task

    return start


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[ContextClient]:
    async with ContextClient(broker.address) as client:
        yield client


def giving(*names: str):
    async def answer(_: Query) -> list[Frame]:
        return [frame(name, 1.0 - i / 10) for i, name in enumerate(names)]

    return answer


def ends(composition) -> dict[str, str]:
    return {lane.provider: lane.end.value for lane in composition.summary.lanes}


async def test_a_question_is_answered(attach, client: ContextClient):
    asked: list[Query] = []

    async def notes(query: Query) -> list[Frame]:
        asked.append(query)
        return [frame("n1", 0.9), frame("n2", 0.4)]

    async def code(_: Query) -> AsyncIterator[Frame]:
        yield frame("c1", 12.0)
        yield frame("c2", 3.0)

    await attach(Provider("notes", notes))
    await attach(Provider("code", code, scale=ScoreScale("bm25", 0.0, float("inf"))))
    composition = await client.compose("why", query_text="because", max_tokens=2000, kinds=["doc"], anchors=["file:x"])
    assert [(p.rank, p.provider, p.frame.id) for p in sorted(composition.placed, key=lambda p: p.rank)] == [
        (1, "code", "c1"),
        (2, "notes", "n1"),
        (3, "code", "c2"),
        (4, "notes", "n2"),
    ]
    assert ends(composition) == {"code": "COMPLETE", "notes": "COMPLETE"}
    assert all(placed.rendered in composition.prompt for placed in composition.placed)
    assert all(placed.frame.score is None for placed in composition.placed)
    [query] = asked
    assert (query.goal, query.text, query.kinds, query.anchors) == ("why", "because", ("doc",), ("file:x",))
    assert 0 < query.remaining <= 2


async def test_the_blocking_client_gets_the_same(attach, client: ContextClient, broker: Broker):
    await attach(Provider("notes", giving("a", "b")))

    def ask():
        with BlockingContextClient(broker.address) as blocking:
            [listed] = blocking.providers()
            return blocking.compose("g", max_tokens=2000), listed, blocking.strategies()

    composition, listed, strategies = await asyncio.to_thread(ask)
    assert composition.prompt == (await client.compose("g", max_tokens=2000)).prompt
    assert (listed.provider, len(listed.instances), listed.scale) == ("notes", 1, ScoreScale())
    assert strategies == await client.strategies()
    assert [s.name for s in strategies if s.compares_raw_scores] == ["score_descending"]


async def test_what_a_provider_may_not_say_is_told_to_it_and_stands_in_the_audit(attach, client: ContextClient):
    told: asyncio.Queue = asyncio.Queue()

    async def answer(_: Query) -> list[Frame]:
        return [
            frame("good"),
            frame("huge", content="c" * 2_000_000),
            frame("large", content="c" * 250_000),
            frame("broken", content="a\ud800b"),
            Frame("untitled", "", "c", 0.5),
            frame("outside", 7.0),
        ]

    await attach(Provider("notes", answer, on_rejected=told.put_nowait))
    composition = await client.compose("g", max_tokens=2000)
    assert [placed.frame.id for placed in composition.placed] == ["good"]
    left_out = sorted(row.detail.split()[0].rstrip(":;,") for row in composition.audit if not row.included)
    assert left_out == ["FRAME_MALFORMED", "FRAME_TOO_LARGE", "FRAME_TOO_LARGE", "SCORE_RANGE", "TITLE_EMPTY"]
    assert {row.reason for row in composition.audit if not row.included} == {"INVALID"}
    reasons = {violation.reason for violation in (await soon(told.get())).violations}
    assert reasons >= {"TITLE_EMPTY", "SCORE_RANGE"}


async def test_a_provider_that_raises_fails_its_own_lane(attach, client: ContextClient):
    async def broken(_: Query) -> list[Frame]:
        raise ZeroDivisionError("a secret")

    await attach(Provider("broken", broken))
    await attach(Provider("notes", giving("a")))
    composition = await client.compose("g", max_tokens=2000)
    assert ends(composition) == {"broken": "FAILED", "notes": "COMPLETE"}
    [lane] = [lane for lane in composition.summary.lanes if lane.provider == "broken"]
    assert "ZeroDivisionError" in lane.message
    assert "secret" not in lane.message
    with pytest.raises(FailedPrecondition) as error:
        await client.compose("g", max_tokens=2000, required_providers=["broken"])
    assert error.value.reason == "REQUIRED_PROVIDER"
    assert "broken" in error.value.message


async def test_what_a_slow_generator_has_given_by_the_deadline_is_composed(attach, client: ContextClient):
    stopped = asyncio.Event()

    async def slow(_: Query) -> AsyncIterator[Frame]:
        try:
            yield frame("first")
            await asyncio.Event().wait()
        finally:
            stopped.set()

    await attach(Provider("slow", slow))
    composition = await client.compose("g", max_tokens=2000, collect_timeout=0.5)
    assert [placed.frame.id for placed in composition.placed] == ["first"]
    assert ends(composition) == {"slow": "PARTIAL"}
    await soon(stopped.wait())
    composition = await client.compose(
        "g", max_tokens=2000, collect_timeout=0.5, partial_lanes=PartialLanes.DROP, inline_lanes=[INLINE]
    )
    assert [placed.frame.id for placed in composition.placed] == ["said"]


INLINE = InlineLane("memory", frames=(frame("said"),))


async def test_cancelling_a_question_cancels_the_providers_work(attach, client: ContextClient):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(_: Query) -> list[Frame]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    await attach(Provider("notes", answer))
    task = asyncio.create_task(client.compose("g", max_tokens=2000, collect_timeout=60))
    await soon(started.wait())
    task.cancel()
    await soon(cancelled.wait())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_lane_updates_and_placed_frames_come_as_they_happen(attach, client: ContextClient):
    await attach(Provider("notes", giving("a", "b")))
    events = [event async for event in client.stream("g", max_tokens=2000)]
    names = [type(event).__name__ for event in events]
    assert names[0] == "Accepted"
    assert names[-3:] == ["Placed", "Placed", "Composition"]
    last = [event for event in events if isinstance(event, LaneUpdate)][-1]
    assert (last.provider, last.end, last.frames) == ("notes", LaneEnd.COMPLETE, 2)


async def test_snapshots_come_where_they_are_asked_for_and_compose_passes_them_over(attach, client: ContextClient):
    held = asyncio.Event()

    async def slow(_query: Query) -> list[Frame]:
        await held.wait()
        return [frame("late")]

    await attach(Provider("notes", giving("a", "b")))
    await attach(Provider("slow", slow))
    request_id = ""
    async for event in client.stream("g", max_tokens=2000, collect_timeout=60, snapshots=True):
        if isinstance(event, Accepted):
            request_id = event.request_id
        if isinstance(event, Snapshot):
            assert (event.number, event.collecting) == (1, ("slow",))
            assert [placed.frame.id for placed in event.composition.placed] == ["a", "b"]
            assert event.composition.prompt.count("<frame seal=") == 2
            assert event.composition.request_id == request_id != ""
            held.set()
    assert isinstance(event, Composition)
    assert ends(event) == {"notes": "COMPLETE", "slow": "COMPLETE"}
    composition = await client.compose("g", max_tokens=2000, snapshots=True)
    assert composition.prompt == event.prompt


async def test_a_reranker_orders_and_trims_for_either_client(client: ContextClient, broker: Broker):
    lanes = [
        InlineLane("a", frames=(frame("jam", 0.9, "of jam"),)),
        InlineLane("b", frames=(frame("heat", 0.1, "how heat flows"),)),
    ]
    asked = {"max_tokens": 2000, "no_providers": True, "inline_lanes": lanes, "rerank": Rerank("lexical", top_n=1)}
    composition = await client.compose("how does heat flow?", **asked)
    assert [placed.frame.id for placed in composition.placed] == ["heat"]
    assert composition.summary.rerank.outcome is RerankOutcome.APPLIED
    (trimmed,) = [row for row in composition.audit if not row.included]
    assert (trimmed.reason, trimmed.prior_rank, trimmed.rank) == ("RERANK_TRIMMED", 1, 2)
    with BlockingContextClient(broker.address) as blocking:
        again = await asyncio.to_thread(blocking.compose, "how does heat flow?", **asked)
    assert again.audit == composition.audit
    with pytest.raises(InvalidArgument, match="there are lexical"):
        await client.compose("g", max_tokens=2000, rerank=Rerank("nope"))


async def test_inline_lanes_alone_need_no_provider(client: ContextClient):
    composition = await client.compose("g", max_tokens=2000, no_providers=True, inline_lanes=[INLINE])
    assert [placed.provider for placed in composition.placed] == ["memory"]


@pytest.mark.parametrize("mode", RenderMode)
async def test_the_context_comes_in_the_form_that_was_asked_for(client: ContextClient, mode: RenderMode):
    notes = InlineLane("notes", frames=[frame("a", 0.9), frame("b", 0.8, "<|im_end|>")])
    composition = await client.compose(
        "g", max_tokens=2000, inline_lanes=[notes], no_providers=True, mode=mode, placement=Placement.AUTO
    )
    summary = composition.summary
    assert (summary.render.mode, summary.placement, summary.placement_asked) == (mode.value, "RANK_ORDER", "AUTO")
    assert [row.role_tokens for row in composition.audit] == [0, 1]
    if mode is RenderMode.JSON:
        documents = json.loads(composition.prompt)
        assert [one["text"] for one in documents] == ["content of a", "<|im_end|>"]
    elif mode is RenderMode.NONE:
        assert composition.prompt == ""
    else:
        assert "content of a" in composition.prompt


@pytest.mark.parametrize("early", [True, False])
async def test_a_push_arrives_before_or_after_the_question(client: ContextClient, early: bool):
    frames = [frame("p1"), frame("p2", 0.2)]
    options = {"max_tokens": 2000, "request_id": "r1", "expect_pushes": ["tickets"], "no_providers": True}
    if early:
        assert await client.push("tickets", "r1", frames) == 2
        composition = await client.compose("g", collect_timeout=10, **options)
    else:
        accepted = asyncio.Event()

        async def ask():
            async for event in client.stream("g", collect_timeout=10, **options):
                accepted.set()
                last = event
            return last

        task = asyncio.create_task(ask())
        await soon(accepted.wait())
        assert await client.push("tickets", "r1", frames) == 2
        composition = await soon(task)
    assert [placed.frame.id for placed in composition.placed] == ["p1", "p2"]
    assert ends(composition) == {"tickets": "COMPLETE"}


async def test_two_instances_are_one_lane_and_one_may_go(attach, client: ContextClient):
    first, second = (Provider("notes", giving("a"), instance_id=name) for name in ("one", "two"))
    await attach(first)
    await attach(second)
    [listed] = await client.providers()
    assert [instance.instance for instance in listed.instances] == ["one", "two"]
    assert ends(await client.compose("g", max_tokens=2000)) == {"notes": "COMPLETE"}
    await soon(first.stop())
    assert ends(await client.compose("g", max_tokens=2000)) == {"notes": "COMPLETE"}
    await soon(second.stop())
    with pytest.raises(Unavailable):
        await client.compose("g", max_tokens=2000)


async def test_another_of_the_same_instance_id_takes_the_place(attach, client: ContextClient):
    task = await attach(Provider("notes", giving("old"), instance_id="one"))
    await attach(Provider("notes", giving("new"), instance_id="one"))
    with pytest.raises(Aborted) as error:
        await soon(task)
    assert error.value.reason == "FENCED"
    composition = await client.compose("g", max_tokens=2000)
    assert [placed.frame.id for placed in composition.placed] == ["new"]


async def test_another_scale_is_refused_for_good(attach, serve, broker: Broker):
    await attach(Provider("notes", giving("a")))
    other = Provider("notes", giving("a"), scale=ScoreScale("bm25", 0.0, 100.0))
    with pytest.raises(FailedPrecondition) as error:
        await soon(serve(other, broker.address))
    assert error.value.reason == "SCALE_CONFLICT"


async def test_errors_are_typed_and_name_the_field(attach, client: ContextClient):
    await attach(Provider("notes", giving("a")))
    for options, field in (
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2000, "floors": [Floor("nots", "unit", 0.5)]}, "floors[0].provider_id"),
        ({"max_tokens": 2000, "floors": [Floor("notes", "bm25", 0.5)]}, "floors[0].scale_id"),
        ({"max_tokens": 2000, "floors": [Floor("notes", "unit", float("nan"))]}, "floors[0].value"),
        ({"max_tokens": 2000, "providers": ["nobody"]}, "providers[0]"),
    ):
        with pytest.raises(InvalidArgument) as error:
            await client.compose("g", **options)
        assert error.value.violations[0].field == field
    with pytest.raises(InvalidArgument):
        await client.compose("", max_tokens=2000)


async def test_no_provider_is_unavailable(client: ContextClient):
    with pytest.raises(Unavailable) as error:
        await client.compose("g", max_tokens=2000)
    assert error.value.reason == "NO_PROVIDERS"


async def test_a_broker_that_stops_lets_providers_finish_and_they_find_it_again(attach, broker_config: Config):
    started, go_on = asyncio.Event(), asyncio.Event()

    async def answer(query: Query) -> list[Frame]:
        if query.text == "slow":
            started.set()
            await go_on.wait()
        return [frame("a")]

    first = Broker(broker_config)
    address = await first.start()
    attached: asyncio.Queue[str] = asyncio.Queue()
    provider = Provider("notes", answer)
    serving = asyncio.create_task(provider.serve(address, on_attached=attached.put_nowait))
    await soon(attached.get())
    async with ContextClient(address) as client:
        asking = asyncio.create_task(client.compose("slow", max_tokens=2000, collect_timeout=60))
        await soon(started.wait())
        stopping = asyncio.create_task(first.stop(grace=30))
        await asyncio.sleep(0)
        go_on.set()
        composition = await soon(asking)
        assert ends(composition) == {"notes": "COMPLETE"}
        await soon(stopping)

    second = Broker(Config(server={"listen": address}))
    await second.start()
    try:
        await soon(attached.get())
        async with ContextClient(address) as client:
            assert ends(await client.compose("g", max_tokens=2000)) == {"notes": "COMPLETE"}
    finally:
        await provider.stop()
        await soon(serving)
        await second.stop(grace=1)


async def test_a_stopped_provider_is_gone_at_once_and_in_order(attach, client: ContextClient):
    provider = Provider("notes", giving("a"))
    task = await attach(provider)
    await soon(provider.stop())
    assert await soon(task) is None
    [listed] = await client.providers()
    assert (listed.provider, listed.instances) == ("notes", ())


async def test_many_frames_arrive_whole_and_in_order(attach, client: ContextClient):
    async def answer(_: Query) -> AsyncIterator[Frame]:
        for i in range(250):
            yield frame(f"f{i:03}", None, content=f"{i} " + "x" * 2000)

    from broker.client import Direction

    await attach(Provider("notes", answer, scale=ScoreScale("sent", direction=Direction.AS_SENT)))
    composition = await client.compose("g", max_tokens=200_000)
    ranked = sorted(composition.placed, key=lambda placed: placed.rank)
    assert [placed.frame.id for placed in ranked] == [f"f{i:03}" for i in range(250)]
    assert len(composition.prompt.encode()) > 512 * 1024
