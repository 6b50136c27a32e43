"""Both clients read the record, over all pages, and add to it; what cannot be meant is refused before it is sent."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator

import pytest
from contextbroker.v1 import context_service_pb2 as pb

from broker.client import (
    AuditState,
    BlockingContextClient,
    CitationReport,
    ComposeOptions,
    Composition,
    ContextClient,
    FailedPrecondition,
    Frame,
    InlineLane,
    Internal,
    InvalidArgument,
    NotFound,
    Observation,
    ReciprocalRankFusion,
    Record,
    verify_citations,
)
from broker.client.records import Pages, composition_data, report_data, statistics_data
from broker.config import Config
from broker.rpc.server import Broker
from tests.client.threaded import Threaded

NOTHING = "019aaaaa-0000-7000-8000-000000000000"


@pytest.fixture(params=[ContextClient, Threaded], ids=["async", "blocking"])
async def client(broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[ContextClient]:
    async with request.param(broker.address) as client:
        yield client


async def composed(client: ContextClient, *names: str, provider: str = "memory", **options) -> Composition:
    frames = tuple(Frame(name, f"title of {name}", f"content of {name}", 0.5) for name in names or ("a", "b"))
    lane = InlineLane(provider, frames=frames)
    return await client.compose("why?", max_tokens=2000, no_providers=True, inline_lanes=[lane], **options)


async def ids(client: ContextClient, **wanted) -> list[str]:
    return [one.composition_id async for one in client.compositions(**wanted)]


class TestContent:
    """Where the operator keeps content."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, store={"content": True})

    async def test_a_record_is_the_composition_and_what_was_asked(self, client: ContextClient):
        before = time.time()
        answered = await composed(client, strategy=ReciprocalRankFusion(k=7), kinds=["doc"])
        record = await client.composition(answered.composition_id)
        assert isinstance(record, Record)
        assert (record.composition, record.content, record.subject) == (answered, True, "")
        assert before - 1 <= record.made_at <= time.time() + 1
        assert record.request is not None
        assert (record.request.goal, record.request.strategy) == ("why?", ReciprocalRankFusion(k=7))
        assert (record.request.kinds, record.request.composition.max_tokens) == (("doc",), 2000)


async def test_without_content_what_was_placed_is_missing(client: ContextClient):
    answered = await composed(client)
    record = await client.composition(answered.composition_id)
    assert record.composition.audit == answered.audit
    assert record.composition.audit_state is AuditState.RECORDED
    assert (record.composition.placed, record.composition.prompt, record.content) == ((), "", False)


async def test_a_list_goes_over_all_pages_newest_first(client: ContextClient):
    answered = [(await composed(client)).composition_id for _ in range(5)]
    for size in (1, 2, 5, 1000):
        assert await ids(client, page_size=size) == answered[::-1]
    (first, *_) = [one async for one in client.compositions()]
    assert (first.usage.total.frames_placed, first.summary.rows, first.content) == (2, 2, False)
    assert first.request is not None
    assert first.request.composition.max_tokens == 2000


async def test_a_list_is_of_those_that_are_meant(client: ContextClient):
    both = (await composed(client)).composition_id
    started = time.time()
    one = (await composed(client, "a", "x", provider="notes", max_frames=1)).composition_id
    assert await ids(client, provider="notes") == [one]
    assert await ids(client, frame_id="x") == [one]
    assert await ids(client, frame_id="a", placed=True) == [one, both]
    assert await ids(client, frame_id="x", placed=False, reason="FRAME_LIMIT") == [one]
    assert await ids(client, reason="OVER_BUDGET") == []
    assert await ids(client, document="x", placed=False) == [one]
    assert await ids(client, document="y") == []
    assert await ids(client, made_before=0) == []
    assert both in await ids(client, made_before=started + 1000)
    assert await ids(client, made_from=started + 1000) == []


async def test_what_was_seen_is_reported_and_counted(client: ContextClient):
    answered = await composed(client)
    seen = [Observation("memory", "a", True, True, True), Observation("memory", "b", selected=True)]
    await client.report(answered.composition_id, iter(seen))
    (counted,) = await client.provider_statistics()
    assert (counted.provider, counted.selected, counted.rendered, counted.cited) == ("memory", 2, 1, 1)
    assert counted.tokens_per_citation == counted.tokens_placed
    assert await client.provider_statistics(made_from=0, made_before=1) == ()
    with pytest.raises(InvalidArgument) as refused:
        await client.report(answered.composition_id, [Observation("memory", "a", cited=True)])
    assert refused.value.reason == "INCOHERENT"
    with pytest.raises(InvalidArgument) as refused:
        await client.report(answered.composition_id, [Observation("memory", "z", selected=True)])
    assert refused.value.reason == "FRAME_NOT_PLACED"


async def test_what_an_answer_cites_is_found_and_reported_by_label(client: ContextClient):
    answered = await composed(client, "a", "b", "c", "d")
    found = verify_citations("So it is (title of a), and so [title of z].", answered)
    assert isinstance(found, CitationReport)
    assert [one.text for one in found.invented] == ["title of z"]
    await client.report(answered.composition_id, cited=[one.citation.frame for one in found.cited])
    await client.report(answered.composition_id, [Observation("memory", "c", True)], cited=iter(["memory/b"]))
    (counted,) = await client.provider_statistics()
    assert (counted.selected, counted.rendered, counted.cited) == (3, 2, 2)
    for wrong, reason in (
        ({"cited": ["title of z"]}, "FRAME_NOT_PLACED"),
        ({"cited": "title of a"}, "FIELD_INVALID"),
        ({"cited": [7]}, "FIELD_INVALID"),
        ({"observations": 7, "cited": ["title of a"]}, "FIELD_INVALID"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            await client.report(answered.composition_id, **wrong)
        assert refused.value.reason == reason


@pytest.mark.parametrize("kind", [ContextClient, BlockingContextClient])
def test_help_says_where_the_options_are(kind: type):
    for method in (kind.compose, kind.stream):
        assert ":class:`broker.client.ComposeOptions`" in (inspect.getdoc(method) or "")
    told = inspect.getdoc(ComposeOptions) or ""
    assert all(f"{option}:" in told for option in ComposeOptions.__annotations__)


async def test_an_id_of_nothing_is_not_found(client: ContextClient):
    with pytest.raises(NotFound) as caught:
        await client.composition(NOTHING)
    assert caught.value.reason == "COMPOSITION_UNKNOWN"
    with pytest.raises(NotFound):
        await client.report(NOTHING, [Observation("memory", "a", selected=True)])


class TestNone:
    """Where the operator keeps nothing."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, store={"kind": "none"})

    async def test_every_method_says_so(self, client: ContextClient):
        assert (await composed(client)).audit_state is AuditState.NOT_KEPT
        for call in (client.composition(NOTHING), client.provider_statistics(), ids(client)):
            with pytest.raises(FailedPrecondition) as caught:
                await call
            assert caught.value.reason == "NOT_KEPT"


@pytest.mark.parametrize(
    ("make", "field", "reason"),
    [
        (lambda: composition_data(""), "composition_id", "COMPOSITION_ID"),
        (lambda: composition_data("x" * 129), "composition_id", "COMPOSITION_ID"),
        (lambda: composition_data("\ud800"), "composition_id", "COMPOSITION_ID"),
        (lambda: composition_data(None), "composition_id", "FIELD_INVALID"),
        (lambda: Pages({}, 0), "page_size", "OUT_OF_RANGE"),
        (lambda: Pages({}, 1001), "page_size", "OUT_OF_RANGE"),
        (lambda: Pages({"provider": 3}), "provider", "FIELD_INVALID"),
        (lambda: Pages({"placed": "yes"}), "placed", "FIELD_INVALID"),
        (lambda: Pages({"provider": "\ud800"}), "provider", "TEXT_MALFORMED"),
        (lambda: Pages({"made_from": -1.0}), "made_from", "OUT_OF_RANGE"),
        (lambda: Pages({"made_before": float("nan")}), "made_before", "OUT_OF_RANGE"),
        (lambda: Pages({"made_before": 253_402_300_800.0}), "made_before", "OUT_OF_RANGE"),
        (lambda: statistics_data(float("inf"), None), "made_from", "OUT_OF_RANGE"),
        (lambda: statistics_data(None, "1h"), "made_before", "FIELD_INVALID"),
        (lambda: report_data("c", [("memory", "a")]), "observations[0]", "FIELD_INVALID"),
        (lambda: report_data("c", "all"), "observations", "FIELD_INVALID"),
        (lambda: report_data("c", [Observation("memory", "\ud800")]), "observations[0]", "TEXT_MALFORMED"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(make, field: str, reason: str):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert [(each.field, each.reason) for each in caught.value.violations] == [(field, reason)]


def test_a_part_of_a_filter_that_does_not_exist_is_a_mistake():
    with pytest.raises(TypeError, match=r"compositions\(\) takes no 'providers'; there are made_from"):
        Pages({"providers": ["a"]})


def test_pages_end_where_the_broker_ends_them_and_not_before_though_they_are_empty():
    def page(token: str) -> bytes:
        return pb.ListCompositionsResponse(next_page_token=token).SerializeToString()

    pages = Pages({"provider": "a"}, 7)
    for token in ("x", "y"):
        assert list(pages.take(page(token))) == []
        assert pages.more
        asked = pb.ListCompositionsRequest.FromString(pages.request())
        assert (asked.page_token, asked.page_size, asked.provider_id) == (token, 7, "a")
    with pytest.raises(Internal, match="ends where it began"):
        pages.take(page("y"))
    list(pages.take(page("")))
    assert not pages.more
    with pytest.raises(Internal):
        pages.take(b"\xff")
