"""However a call ends, it is counted once, under the status that its caller was to see, and leaves nothing open."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType

import grpc.aio
import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from broker.config import Config
from broker.core.frames import Frame
from broker.errors import Internal, ResourceExhausted
from broker.rpc.observing import SLACK, Call, Observing
from broker.rpc.server import Broker
from broker.telemetry.metrics import Metrics
from broker.telemetry.spans import Tracing
from tests.rpc.identities import Identities, Known, bearer
from tests.rpc.peers import COMPOSE, SAFETY, Peer, compose_bytes, frames

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Context:
    """What is used of a call's context."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("traceparent", TRACEPARENT),)


class Watched:
    """An Observing with what it made."""

    def __init__(self) -> None:
        self.kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.observing = Observing(Metrics(), Tracing(provider.get_tracer("test")))

    async def run(self, body: Callable[[Call], Awaitable[None]], method: str = "Compose") -> None:
        with self.observing.call(method, Context()) as call:
            await body(call)

    def value(self, name: str, **labels: str) -> float | None:
        return self.observing.metrics.registry.get_sample_value(f"context_broker_{name}", labels)


async def well(call: Call) -> None:
    pass


async def aborted(call: Call) -> None:
    call.failure = ResourceExhausted("CALLS", "too many", quota="q")
    raise grpc.aio.AbortError


async def faulty(call: Call) -> None:
    call.failure = Internal("INTERNAL", "correlation id")
    raise grpc.aio.AbortError


async def left(call: Call) -> None:
    raise asyncio.CancelledError


async def late(call: Call) -> None:
    call.deadline = asyncio.get_running_loop().time() + SLACK / 2
    raise asyncio.CancelledError


async def early(call: Call) -> None:
    call.deadline = asyncio.get_running_loop().time() + 100
    raise asyncio.CancelledError


async def deaf(call: Call) -> None:
    """Its peer does not even take the error."""
    call.failure = ResourceExhausted("SLOW_CONSUMER", "read", quota="q")
    raise asyncio.CancelledError


async def unforeseen(call: Call) -> None:
    raise RuntimeError("THE-TEXT")


@pytest.mark.parametrize(
    ("body", "code", "reason", "is_error"),
    [
        (well, "OK", "", False),
        (aborted, "RESOURCE_EXHAUSTED", "CALLS", False),
        (faulty, "INTERNAL", "INTERNAL", True),
        (left, "CANCELLED", "", False),
        (late, "DEADLINE_EXCEEDED", "", True),
        (early, "CANCELLED", "", False),
        (deaf, "RESOURCE_EXHAUSTED", "SLOW_CONSUMER", False),
        (unforeseen, "UNKNOWN", "", True),
    ],
)
async def test_every_ending_has_its_code(
    body: Callable[[Call], Awaitable[None]], code: str, reason: str, is_error: bool
) -> None:
    watched = Watched()
    (outcome,) = await asyncio.gather(watched.run(body), return_exceptions=True)
    assert (outcome is None) == (code == "OK")
    assert watched.value("calls_total", method="Compose", code=code) == 1
    assert watched.value("calls_in_flight", method="Compose") == 0
    assert watched.value("call_seconds_count", method="Compose") == 1
    if reason:
        assert watched.value("refusals_total", method="Compose", reason=reason) == 1
    (span,) = watched.kept.get_finished_spans()
    assert span.attributes["rpc.grpc.status_code"] == grpc.StatusCode[code].value[0]
    assert span.attributes.get("contextbroker.reason", "") == reason
    assert (span.status.status_code.name == "ERROR") == is_error
    assert not span.events, "exceptions' texts are no one's business"


async def test_probes_and_tools_are_counted_without_a_span() -> None:
    watched = Watched()
    for method in ("Health.Check", "Health.Watch", "Reflection"):
        await watched.run(well, method)
        assert watched.value("calls_total", method=method, code="OK") == 1
    assert watched.kept.get_finished_spans() == ()
    assert watched.value("call_seconds_count", method="Health.Check") == 1
    assert watched.value("call_seconds_count", method="Health.Watch") is None


async def test_figures_lead_to_the_trace_that_they_come_from() -> None:
    watched = Watched()
    await watched.run(well)
    samples = [s for family in watched.observing.metrics.registry.collect() for s in family.samples]
    shown = {s.name: s.exemplar.labels for s in samples if s.exemplar is not None}
    trace = {"trace_id": TRACEPARENT.split("-")[1]}
    assert shown == {"context_broker_calls_total": trace, "context_broker_call_seconds_bucket": trace}


# --- what a log line says of its call


@pytest.fixture
def lines() -> Iterator[list[dict[str, object]]]:
    """The lines of the log, with what was bound to them."""
    found: list[dict[str, object]] = []

    def keep(_logger: object, _method: str, event: dict[str, object]) -> str:
        found.append(dict(event))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep], cache_logger_on_first_use=False)
    yield found
    structlog.reset_defaults()


async def test_a_line_names_request_trace_and_no_other_s(
    broker: Broker, peer: Peer, lines: list[dict[str, object]]
) -> None:
    provider = await peer.attach("a")
    call = peer.open(COMPOSE, metadata=(("traceparent", TRACEPARENT),))
    await call.write(compose_bytes(request_id="mine", collect_timeout=SAFETY))
    await call.done_writing()
    await provider.answer(frames(("x", 0.5)))
    async with asyncio.timeout(SAFETY):
        while await call.read() is not grpc.aio.EOF:
            pass
    (composition,) = [line for line in lines if line["event"] == "composition"]
    assert (composition["request_id"], composition["trace_id"]) == ("mine", TRACEPARENT.split("-")[1])
    stages = {"gathering_ms", "composing_ms", "recording_ms", "sending_ms"}
    assert stages <= composition.keys()
    assert all(float(composition[stage]) >= 0 for stage in stages)
    await peer.providers()
    (attached,) = [line for line in lines if line["event"] == "provider attached"]
    assert "request_id" not in attached
    assert "trace_id" not in attached


async def test_a_call_of_no_trace_enters_no_function_of_opentelemetry(broker: Broker, peer: Peer) -> None:
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "opentelemetry" in frame.f_code.co_filename:
            entered.add(frame.f_code.co_qualname)

    async def composed(**metadata: str) -> None:
        call = peer.open(COMPOSE, metadata=tuple(metadata.items()))
        await call.write(compose_bytes(collect_timeout=SAFETY))
        await call.done_writing()
        await provider.answer(frames(("x", 0.5)))
        async with asyncio.timeout(SAFETY):
            while await call.read() is not grpc.aio.EOF:
                pass

    provider = await peer.attach("a")
    await composed()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await composed()
        assert entered == set()
        await composed(traceparent=TRACEPARENT)
        assert entered != set()
    finally:
        sys.setprofile(before)


async def test_a_lie_is_told_with_the_request_that_it_was_told_in(
    broker: Broker, peer: Peer, lines: list[dict[str, object]]
) -> None:
    """The broker finds it while it reads the provider's call."""
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(request_id="mine", collect_timeout=SAFETY))
    await provider.answer([Frame(id="x", title="t", content="c", score=0.5, token_cost=99)])
    assert (await composing).error is not None
    (told,) = [line for line in lines if line["event"] == "provider lied"]
    assert told["request_id"] == "mine"
    (refused,) = [line for line in lines if line["event"] == "call refused"]
    assert refused["request_id"] == "mine"
    metrics = broker._observing.metrics
    assert (
        metrics.registry.get_sample_value(
            "context_broker_lies_total", {"provider": "a", "reason": str(told["violation"])}
        )
        == 1
    )
    assert metrics.registry.get_sample_value("context_broker_quarantines_total", {"provider": "a"}) == 1


class TestKnownCallers:
    """A broker that asks for tokens."""

    @pytest.fixture
    def broker_config(self, tmp_path: Path) -> Config:
        return Identities(tmp_path).config()

    async def test_every_line_names_tenant_and_subject(self, broker: Broker, lines: list[dict[str, object]]) -> None:
        async with grpc.aio.insecure_channel(broker.address) as channel:
            provider = await Known(channel, bearer("search")).attach("search")
            composing = asyncio.create_task(Known(channel, bearer("asks")).compose(collect_timeout=SAFETY))
            await provider.answer(frames(("x", 0.5)))
            assert (await composing).error is None
        told = {line["event"]: (line["tenant"], line["subject"]) for line in lines if "subject" in line}
        assert told["provider attached"] == ("blue", "search")
        assert told["composition"] == ("blue", "asks")
