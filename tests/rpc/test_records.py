"""Promise: what was answered is on record before its end is sent, and is given back, added to and counted as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import pytest
from contextbroker.v1 import composition_pb2
from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace

from broker.core.composition import AuditState, Composition
from broker.core.frames import Provenance
from broker.core.request import Rerank
from broker.errors import ConfigError, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from broker.rpc import records, timing
from broker.rpc.server import Broker
from broker.settings import Config
from broker.store import searching
from broker.wire.records import Record, RecordReader
from broker.wire.requests import InlineLane
from tests.rpc.peers import Answer, Peer, frames

SERVICE = "/contextbroker.v1.ContextService/"


def inline(name: str = "memory", **scores: float) -> InlineLane:
    return InlineLane(name, frames=tuple(frames(*scores.items())))


async def composed(peer: Peer, **asked: object) -> Composition:
    asked.setdefault("inline_lanes", (inline(a=0.9, b=0.5, c=0.1),))
    return (await peer.compose(no_providers=True, **asked)).composition()


async def call(peer: Peer, method: str, request: object) -> Answer:
    return await peer.call(SERVICE + method, request.SerializeToString())


async def fetched(peer: Peer, composition_id: str) -> Record:
    answer = await call(peer, "GetComposition", pb.GetCompositionRequest(composition_id=composition_id))
    if answer.error is not None:
        raise answer.error
    reader = RecordReader()
    for message in answer.messages:
        reader.take(pb.GetCompositionResponse.FromString(message))
    return reader.result()


async def listed(peer: Peer, **asked: object) -> list[str]:
    answer = await call(peer, "ListCompositions", pb.ListCompositionsRequest(**asked))
    if answer.error is not None:
        raise answer.error
    response = pb.ListCompositionsResponse.FromString(answer.messages[0])
    return [record.composition_id for record in response.compositions]


async def reported(peer: Peer, composition_id: str, *seen: pb.FrameAttribution) -> None:
    request = pb.ReportAttributionRequest(composition_id=composition_id, frames=seen)
    answer = await call(peer, "ReportAttribution", request)
    if answer.error is not None:
        raise answer.error


def seen(frame_id: str, *what: str, provider: str = "memory") -> pb.FrameAttribution:
    frame = pb.FrameAttribution(**dict.fromkeys(what, True))
    frame.frame.provider_id, frame.frame.frame_id = provider, frame_id
    return frame


async def test_a_composition_is_given_back_as_it_was_but_for_content(peer: Peer) -> None:
    answered = await composed(peer, goal="what only the caller knows", strategy=None)
    assert answered.audit_state is AuditState.RECORDED
    record = await fetched(peer, answered.composition_id)
    kept = record.composition
    for part in ("audit", "summary", "usage", "citations", "composition_id", "request_id", "audit_state"):
        assert getattr(kept, part) == getattr(answered, part), part
    assert (kept.placed, kept.preamble, record.content) == ((), "", False)
    assert record.request.composition.max_tokens == 4000
    assert "only the caller" not in str(record)


class TestContent:
    """Where the operator keeps content."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, store={"content": True})

    async def test_the_whole_composition_is_given_back(self, peer: Peer) -> None:
        answered = await composed(peer, goal="asked and kept", rerank=Rerank("lexical"))
        record = await fetched(peer, answered.composition_id)
        assert record.composition == answered
        assert record.request.goal == "asked and kept"
        assert not record.request.inline_lanes


async def test_an_id_that_names_nothing_is_not_found(peer: Peer) -> None:
    with pytest.raises(NotFound) as error:
        await fetched(peer, "019aaaaa-0000-7000-8000-000000000000")
    assert error.value.reason == "COMPOSITION_UNKNOWN"


async def test_lists_are_paged_and_filtered(peer: Peer) -> None:
    ids = [(await composed(peer)).composition_id for _ in range(5)]
    few = (await composed(peer, inline_lanes=(inline("notes", x=0.9),), max_frames=1)).composition_id
    assert await listed(peer) == [few, *reversed(ids)]
    assert await listed(peer, provider_id="notes") == [few]
    assert await listed(peer, frame_id="b", fate=composition_pb2.FATE_INCLUDED) == ids[::-1]
    assert await listed(peer, frame_id="x", fate=composition_pb2.FATE_EXCLUDED) == []
    assert await listed(peer, reason="FRAME_LIMIT") == []
    first = await call(peer, "ListCompositions", pb.ListCompositionsRequest(page_size=4))
    page = pb.ListCompositionsResponse.FromString(first.messages[0])
    assert len(page.compositions) == 4
    assert await listed(peer, page_size=4, page_token=page.next_page_token) == ids[1::-1]


async def test_a_search_that_has_had_its_time_says_where_it_goes_on(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = (await composed(peer, inline_lanes=(inline("notes", rare=0.9),))).composition_id
    for _ in range(3):
        await composed(peer)
    for name in ("FIRST_TURN", "LEAST", "MOST_AT_ONCE"):
        monkeypatch.setattr(searching, name, 1)
    monkeypatch.setattr(records, "PAGE_SECONDS", 0.0)
    pages, token = [], ""
    while token or not pages:
        answer = await call(peer, "ListCompositions", pb.ListCompositionsRequest(frame_id="rare", page_token=token))
        page = pb.ListCompositionsResponse.FromString(answer.messages[0])
        pages.append([record.composition_id for record in page.compositions])
        token = page.next_page_token
    assert pages[:4] == [[], [], [], [oldest]]
    assert pages[4:] in ([], [[]])


@pytest.mark.parametrize("token", ["%", "AAAA", "bm90IGE=", "LTEgeA==", "x" * 512])
async def test_a_page_token_that_is_none_is_refused(peer: Peer, token: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        await listed(peer, page_token=token)
    assert (error.value.reason, error.value.violations[0].field) == ("PAGE_TOKEN", "page_token")


async def test_a_reason_of_placed_frames_is_refused(peer: Peer) -> None:
    with pytest.raises(InvalidArgument) as error:
        await listed(peer, fate=composition_pb2.FATE_INCLUDED, reason="OVER_BUDGET")
    assert error.value.reason == "REASON"


async def test_what_was_seen_is_counted_by_provider(peer: Peer) -> None:
    answered = await composed(peer)
    cited = seen("a", "selected", "rendered", "cited")
    await reported(peer, answered.composition_id, cited, seen("b", "selected", "rendered"))
    await reported(peer, answered.composition_id, seen("a", "selected"))
    answer = await call(peer, "GetProviderStatistics", pb.GetProviderStatisticsRequest())
    (found,) = pb.GetProviderStatisticsResponse.FromString(answer.messages[0]).providers
    assert (found.provider_id, found.asked, found.answered, found.offered, found.placed) == ("memory", 1, 1, 3, 3)
    assert (found.selected, found.rendered, found.cited) == (2, 2, 1)
    assert found.tokens_placed == answered.usage.total.tokens_placed
    assert found.tokens_per_citation == found.tokens_placed


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ([seen("a", "cited")], "INCOHERENT"),
        ([seen("a", "selected", "cited")], "INCOHERENT"),
        ([seen("a", "rendered")], "INCOHERENT"),
        ([seen("a", "selected"), seen("a", "selected")], "FRAME_REPEATED"),
        ([seen("a", "selected"), seen("nothing", "selected")], "FRAME_NOT_PLACED"),
        ([seen("a", "selected", provider="other")], "FRAME_NOT_PLACED"),
        ([], "FRAMES"),
    ],
)
async def test_a_report_that_cannot_be_so_is_refused_whole(
    peer: Peer, what: list[pb.FrameAttribution], reason: str
) -> None:
    answered = await composed(peer)
    with pytest.raises(InvalidArgument) as error:
        await reported(peer, answered.composition_id, *what)
    assert error.value.reason == reason
    answer = await call(peer, "GetProviderStatistics", pb.GetProviderStatisticsRequest())
    (found,) = pb.GetProviderStatisticsResponse.FromString(answer.messages[0]).providers
    assert found.selected == 0


class TestNone:
    """Where the operator keeps nothing."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, store={"kind": "none"})

    async def test_the_answer_and_the_methods_say_so(self, peer: Peer) -> None:
        answered = await composed(peer)
        assert answered.audit_state is AuditState.NOT_KEPT
        with pytest.raises(FailedPrecondition) as error:
            await fetched(peer, answered.composition_id)
        assert error.value.reason == "NOT_KEPT"


class TestAway:
    """Where the store cannot be written to: another process holds its file."""

    @pytest.fixture(params=[False, True])
    def required(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param)

    @pytest.fixture
    def broker_config(self, tmp_path: Path, required: bool) -> Config:
        store = {"kind": "sqlite", "file": str(tmp_path / "c.db"), "wait_seconds": 0.2, "required": required}
        return Config(server={"listen": "127.0.0.1:0"}, store=store)

    @pytest.fixture
    def lock(self, broker: Broker, tmp_path: Path) -> Iterator[sqlite3.Connection]:
        other = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield other
        other.close()

    async def test_it_costs_what_the_operator_chose_and_no_more(
        self, peer: Peer, lock: sqlite3.Connection, required: bool
    ) -> None:
        answer = await peer.compose(no_providers=True, inline_lanes=(inline(a=0.9),))
        if required:
            assert isinstance(answer.error, Unavailable)
            assert (answer.error.reason, answer.error.retry_after is not None) == ("AUDIT_UNAVAILABLE", True)
            assert "completed" not in answer.kinds
        else:
            degraded = answer.composition()
            assert degraded.audit_state is AuditState.DEGRADED
            with pytest.raises(NotFound):
                await fetched(peer, degraded.composition_id)


class TestSlow(TestAway):
    """Where the store may take longer than the caller can wait."""

    @pytest.fixture
    def broker_config(self, tmp_path: Path, required: bool, monkeypatch: pytest.MonkeyPatch) -> Config:
        # A busy machine may take its time to say the last word.
        monkeypatch.setattr(timing, "LAST_WORD", 1.0)
        store = {"kind": "sqlite", "file": str(tmp_path / "c.db"), "wait_seconds": 15.0, "required": required}
        return Config(server={"listen": "127.0.0.1:0"}, store=store, limits={"answer_margin_seconds": 2.0})

    async def test_it_costs_what_the_operator_chose_and_no_more(
        self, peer: Peer, lock: sqlite3.Connection, required: bool
    ) -> None:
        answer = await peer.compose(no_providers=True, inline_lanes=(inline(a=0.9),), deadline=2.0)
        lock.execute("ROLLBACK")
        if required:
            assert isinstance(answer.error, Unavailable)
            assert answer.error.reason == "AUDIT_UNAVAILABLE"
        else:
            assert answer.composition().audit_state is AuditState.DEGRADED


async def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    store = {"kind": "sqlite", "file": str(tmp_path / "nowhere" / "c.db")}
    broker = Broker(Config(server={"listen": "127.0.0.1:0"}, store=store))
    with pytest.raises(ConfigError, match=r"store: SQLite .*unable to open"):
        await broker.start()


async def test_records_outlive_the_broker(tmp_path: Path) -> None:
    store = {"kind": "sqlite", "file": str(tmp_path / "c.db")}
    config = Config(server={"listen": "127.0.0.1:0"}, store=store)
    ids = []
    for _ in range(2):
        broker = Broker(config)
        await broker.start()
        try:
            async with grpc.aio.insecure_channel(broker.address) as channel:
                peer = Peer(channel)
                ids.append((await composed(peer)).composition_id)
                assert await listed(peer) == ids[::-1]
        finally:
            await broker.stop(0)


async def test_a_report_of_far_too_many_frames_is_refused_before_it_is_looked_at(peer: Peer) -> None:
    """One mebibyte of half a million empty frames takes the schema's own check nine seconds."""
    answer = await peer.call(f"{SERVICE}ReportAttribution", b"\x0a\x01c" + b"\x12\x00" * 500_000)
    assert isinstance(answer.error, InvalidArgument)
    assert (answer.error.reason, answer.error.violations[0].field) == ("FRAMES", "frames")


@pytest.mark.parametrize("place", [0, 199, 200, 999])
async def test_what_breaks_the_schema_is_named_by_its_place_in_the_whole_report(peer: Peer, place: int) -> None:
    frames_ = [seen(f"f{number}", "selected") for number in range(1000)]
    frames_[place] = pb.FrameAttribution(selected=True)
    with pytest.raises(InvalidArgument) as error:
        await reported(peer, "c", *frames_)
    assert error.value.violations[0].field == f"frames[{place}].frame"


async def test_a_frame_that_was_left_out_is_found_by_the_document_that_it_comes_from(peer: Peer) -> None:
    made = [
        replace(frame, provenance=(Provenance(type="file", uri=f"file:///srv/wiki/{frame.id}.md"),))
        for frame in frames(("setup", 0.9), ("usage", 0.5))
    ]
    lane = InlineLane("memory", frames=tuple(made))
    answered = await composed(peer, inline_lanes=(lane,), max_frames=1)
    await composed(peer)
    for name in ("usage.md", "wiki/usage.md"):
        assert await listed(peer, document=name, fate=composition_pb2.FATE_EXCLUDED) == [answered.composition_id]
        assert await listed(peer, document=name, fate=composition_pb2.FATE_INCLUDED) == []
    assert await listed(peer, document="wiki") == []
