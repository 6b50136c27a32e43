"""A request is one trace: from its caller through the broker to every provider, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from broker.client import ContextClient, Frame, Provider
from broker.config import Config
from broker.errors import BrokerError, ConfigError
from broker.rpc.server import Broker
from broker.rpc.tracing import tracing_of
from broker.settings import Traces
from broker.wire.events import Cancel
from tests.rpc.otlp import Collector
from tests.rpc.peers import COMPOSE, SAFETY, Peer, compose_bytes, frames, read_all

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"
ERROR = 2
SERVER = 2


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture
def broker_config(collector: Collector) -> Config:
    return Config(server={"listen": "127.0.0.1:0"}, traces={"collector": collector.address})


def traced(call: str | None) -> object:
    return None if call is None else (("traceparent", call),)


async def compose(peer: Peer, traceparent: str | None, *, deadline: float | None = None) -> BrokerError | None:
    call = peer.open(COMPOSE, metadata=traced(traceparent), deadline=deadline)
    await call.write(compose_bytes(goal="THE-GOAL", collect_timeout=SAFETY))
    await call.done_writing()
    return (await read_all(call)).error


async def test_a_request_and_its_parts_are_spans_of_its_callers_trace(
    broker: Broker, peer: Peer, collector: Collector
) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = asyncio.create_task(compose(peer, SAMPLED))
    asks = {"a": await a.answer([Frame(id="x", title="THE-TITLE", content="THE-CONTENT", score=0.5)])}
    asks["b"] = await b.answer([], failed=True, message="THE-REASON")
    assert await composing is None
    await broker.stop(grace=1.0)

    whole = collector.one("Compose")
    assert (whole.trace_id, whole.parent_id, whole.kind, whole.code, whole.status) == (TRACE, CALLER, SERVER, 0, 0)
    assert whole.attributes["contextbroker.frames_placed"] == 1
    collect = collector.one("collect")
    assert {span.parent_id for span in (collect, collector.one("compose"), collector.one("record"))} == {whole.span_id}
    lanes = {span.attributes["contextbroker.provider"]: span for span in collector.named("lane")}
    assert {name: lane.attributes["contextbroker.end"] for name, lane in lanes.items()} == {
        "a": "COMPLETE",
        "b": "FAILED",
    }
    assert (lanes["a"].status, lanes["b"].status) == (0, ERROR)
    assert all(lane.parent_id == collect.span_id for lane in lanes.values())
    # What each provider was told is its own lane's span.
    assert {name: ask.query.traceparent for name, ask in asks.items()} == {
        name: f"00-{TRACE}-{lane.span_id}-01" for name, lane in lanes.items()
    }
    (resource,) = {tuple(sorted(each.items())) for each in collector.resources}
    assert dict(resource)["service.name"] == "context-broker"
    assert b"THE-" not in collector.data
    assert "health" not in {span.name.lower() for span in collector.spans}


async def test_every_ending_is_recorded(broker: Broker, peer: Peer, collector: Collector) -> None:
    provider = await peer.attach("a")
    # Refused.
    assert (await peer.call(COMPOSE, b"\xff")).error is not None
    # Left by its caller.
    composing = await peer.composing(collect_timeout=SAFETY)
    ask = await provider.hear_ask()
    composing.call.cancel()
    assert await provider.hear() == Cancel(ask.query_id)
    # Nothing answered.
    await peer.attach("b")
    failing = asyncio.create_task(peer.compose(collect_timeout=SAFETY, providers=("a",)))
    await provider.answer([], failed=True)
    assert (await failing).error is not None
    provider.call.cancel()
    await peer.until_gone("a")
    await broker.stop(grace=1.0)

    spans = collector.named("Compose")
    ends = {(span.code, span.attributes.get("contextbroker.reason"), span.status) for span in spans}
    assert len(spans) == 3
    assert ends == {
        (grpc.StatusCode.INVALID_ARGUMENT.value[0], "MALFORMED", 0),
        (grpc.StatusCode.CANCELLED.value[0], None, 0),
        (grpc.StatusCode.UNAVAILABLE.value[0], "ALL_LANES_FAILED", ERROR),
    }
    (left,) = [span for span in spans if span.code == grpc.StatusCode.CANCELLED.value[0]]
    (collect,) = [span for span in collector.named("collect") if span.parent_id == left.span_id]
    (lane,) = [span for span in collector.named("lane") if span.parent_id == collect.span_id]
    assert (collect.message, lane.message) == ("CANCELLED", "CANCELLED")
    assert {span.code for span in collector.named("Attach")} == {
        grpc.StatusCode.CANCELLED.value[0],
        grpc.StatusCode.UNAVAILABLE.value[0],
    }


async def test_a_caller_that_is_refused_for_its_credential_is_recorded_too(collector: Collector) -> None:
    config = Config(server={"listen": "127.0.0.1:0"}, auth={"policy": "deny"}, traces={"collector": collector.address})
    broker = Broker(config)
    await broker.start()
    async with grpc.aio.insecure_channel(broker.address) as channel:
        assert (await Peer(channel).compose()).error is not None
    await broker.stop(grace=1.0)
    span = collector.one("Compose")
    assert (span.code, span.attributes["contextbroker.reason"]) == (16, "CREDENTIALS")


# --- which trace


async def asked(peer: Peer, traceparent: str | None) -> str:
    """What a provider is told of the trace."""
    provider = await peer.attach("a")
    composing = asyncio.create_task(compose(peer, traceparent))
    ask = await provider.answer(frames(("x", 0.5)))
    assert await composing is None
    return ask.query.traceparent


def is_sampled(traceparent: str) -> bool:
    return bool(int(traceparent[-2:], 16) & 1)


@pytest.mark.parametrize("wrong", [None, "", "00-0-0-01", f"00-{'0' * 32}-{CALLER}-01", "x" * 2000])
async def test_one_that_names_no_trace_gets_its_own(
    broker: Broker, peer: Peer, collector: Collector, wrong: str | None
) -> None:
    told = await asked(peer, wrong)
    await broker.stop(grace=1.0)
    whole = collector.one("Compose")
    assert whole.parent_id == ""
    assert told.rpartition("-")[0] == f"00-{whole.trace_id}-{collector.one('lane').span_id}"
    assert is_sampled(told)


async def test_one_that_its_caller_does_not_trace_is_not_exported_and_goes_on(
    broker: Broker, peer: Peer, collector: Collector
) -> None:
    told = await asked(peer, UNSAMPLED)
    await broker.stop(grace=1.0)
    assert told.startswith(f"00-{TRACE}-")
    assert not is_sampled(told)
    assert collector.named("Compose") == []


class TestSampling:
    """What callers do not decide, the operator does."""

    @pytest.fixture
    def broker_config(self, collector: Collector) -> Config:
        return Config(server={"listen": "127.0.0.1:0"}, traces={"collector": collector.address, "sample": 0.0})

    async def test_none_is_kept_but_those_that_callers_trace(
        self, broker: Broker, peer: Peer, collector: Collector
    ) -> None:
        assert not is_sampled(await asked(peer, None))
        assert is_sampled(await asked(peer, SAMPLED))
        await broker.stop(grace=1.0)
        assert collector.one("Compose").trace_id == TRACE


class TestWithoutACollector:
    """Nothing is exported, and callers' traces reach providers all the same."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0"})

    async def test_the_caller_s_own_span_is_handed_on(self, peer: Peer) -> None:
        assert await asked(peer, SAMPLED) == SAMPLED

    async def test_without_one_there_is_none(self, peer: Peer) -> None:
        assert await asked(peer, None) == ""


# --- the client library on both ends


async def test_an_application_sees_one_trace_through_the_client_library(
    broker: Broker, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = InMemorySpanExporter()
    sdk = TracerProvider()
    sdk.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", sdk.get_tracer)
    tracer = sdk.get_tracer("application")

    async def answer(query: object) -> list[Frame]:
        with tracer.start_as_current_span("search"):
            return [Frame(id="x", title="t", content="c", score=0.5)]

    attached = asyncio.Event()
    provider = Provider("docs", answer)
    serving = asyncio.create_task(provider.serve(broker.address, on_attached=lambda _: attached.set()))
    async with ContextClient(broker.address) as client:
        await asyncio.wait_for(attached.wait(), SAFETY)
        with tracer.start_as_current_span("agent"):
            await client.compose("goal", max_tokens=1000)
    await provider.stop(grace=1.0)
    await serving
    await broker.stop(grace=1.0)

    mine = {span.name: span for span in kept.get_finished_spans()}
    agent, call, answered, search = (
        mine[name] for name in ("agent", "contextbroker.v1.ContextService/Compose", "answer", "search")
    )

    def ids(span: object) -> str:
        return f"{span.get_span_context().span_id:016x}"

    whole, lane = collector.one("Compose"), collector.one("lane")
    assert {f"{span.get_span_context().trace_id:032x}" for span in (agent, call, answered, search)} == {whole.trace_id}
    assert call.parent.span_id == agent.get_span_context().span_id
    assert whole.parent_id == ids(call)
    assert f"{answered.parent.span_id:016x}" == lane.span_id
    assert search.parent.span_id == answered.get_span_context().span_id
    assert all(span.status.is_unset for span in mine.values())


# --- collectors


async def test_a_collector_that_is_away_costs_no_answer(collector: Collector) -> None:
    collector.stop()
    broker = Broker(Config(server={"listen": "127.0.0.1:0"}, traces={"collector": collector.address}))
    await broker.start()
    async with grpc.aio.insecure_channel(broker.address) as channel:
        assert await asked(Peer(channel), SAMPLED)
    await asyncio.wait_for(broker.stop(grace=1.0), SAFETY)


async def test_a_collector_behind_tls_is_shown_what_the_file_says(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    collector = Collector(grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())]))
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cret\n\nx-team:  blue \n")
    headers.chmod(0o600)
    traces = {"collector": collector.address, "tls_ca": cert, "headers_file": headers}
    broker = Broker(Config(server={"listen": "127.0.0.1:0"}, traces=traces))
    await broker.start()
    async with grpc.aio.insecure_channel(broker.address) as channel:
        await asked(Peer(channel), None)
    await broker.stop(grace=1.0)
    collector.stop()
    assert collector.one("Compose").code == 0
    assert (collector.metadata[0]["authorization"], collector.metadata[0]["x-team"]) == ("Bearer s3cret", "blue")


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("a secret", 0o600, "line 1 is not a header; write NAME: VALUE"),
        ("ok: yes\nno good: secret", 0o600, "line 2 is not a header"),
        ("authorization: secret", 0o644, "readable by all"),
    ],
)
def test_headers_that_cannot_be_used_are_a_plain_error_without_them(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    file = tmp_path / "headers"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigError) as error:
        tracing_of(Traces(collector="127.0.0.1:1", headers_file=file))
    assert told in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc"])
def test_a_missing_extra_is_a_plain_error(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr("broker.rpc.tracing._installed", lambda name: name != missing)
    with pytest.raises(ConfigError, match=r"pip install 'context-broker\[traces\]'"):
        tracing_of(Traces(collector="127.0.0.1:1"))
