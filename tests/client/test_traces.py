"""Where a process uses OpenTelemetry its questions and answers are spans; elsewhere nothing of it is loaded."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from broker.client import BlockingContextClient, ContextClient, Frame, Provider, Query
from broker.client.traces import answering, calling, carried
from broker.errors import InvalidArgument, Unavailable
from broker.rpc.server import Broker
from tests.client.fake import SAFETY

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
COMPOSE = "contextbroker.v1.ContextService/Compose"
TOKEN = (("authorization", "Bearer t"),)


class Spans:
    """What a process of the test's exports."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("application")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._kept.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    spans = Spans()
    monkeypatch.setattr("opentelemetry.trace.get_tracer", spans.provider.get_tracer)
    return spans


def status(span: ReadableSpan) -> tuple[str, str | None]:
    return span.status.status_code.name, span.status.description


# --- without OpenTelemetry


def test_a_process_that_does_not_use_it_loads_nothing_of_it_and_sends_nothing() -> None:
    code = """
import sys
from broker.client.traces import answering, calling, carried
with calling("/a/b", (("k", "v"),)) as metadata, answering("p", "x"):
    print(metadata, carried(()), [name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(('k', 'v'),) () []"


# --- questions


def test_a_call_without_a_current_span_carries_its_token_alone(spans: Spans) -> None:
    assert carried(TOKEN) == TOKEN


def test_a_call_carries_the_current_span(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("agent") as agent:
        *rest, (key, value) = carried(TOKEN)
        context = agent.get_span_context()
    assert (tuple(rest), key) == (TOKEN, "traceparent")
    assert value.split("-")[1:3] == [f"{context.trace_id:032x}", f"{context.span_id:016x}"]


def test_the_span_of_a_call_is_never_the_current_one(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("agent") as agent, calling(f"/{COMPOSE}", TOKEN):
        assert get_current_span() is agent
    assert spans.one(COMPOSE).parent == agent.get_span_context()
    assert spans.one(COMPOSE).attributes == {
        "rpc.system": "grpc",
        "rpc.service": "contextbroker.v1.ContextService",
        "rpc.method": "Compose",
    }


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (InvalidArgument("WRONG", "THE-TEXT"), "INVALID_ARGUMENT"),
        (asyncio.CancelledError(), "CANCELLED"),
        (GeneratorExit(), "CANCELLED"),
        (ValueError("THE-TEXT"), "ValueError"),
    ],
)
def test_how_a_call_failed_is_noted_without_its_text(spans: Spans, error: BaseException, described: str) -> None:
    with pytest.raises(type(error)), calling(f"/{COMPOSE}", ()):
        raise error
    span = spans.one(COMPOSE)
    assert status(span) == ("ERROR", described)
    assert "THE-TEXT" not in span.to_json()


async def test_both_clients_make_one_span_of_one_question(broker: Broker, spans: Spans) -> None:
    asked: dict[str, Any] = {"max_tokens": 1000, "no_providers": True}
    async with ContextClient(broker.address) as client:
        with pytest.raises(Unavailable):
            await client.compose("THE-GOAL", **asked)
    with BlockingContextClient(broker.address) as blocking, pytest.raises(Unavailable):
        await asyncio.to_thread(blocking.compose, "THE-GOAL", **asked)
    found = spans.named(COMPOSE)
    assert [status(span) for span in found] == [("ERROR", "UNAVAILABLE")] * 2
    assert [span.attributes["contextbroker.reason"] for span in found] == ["NO_PROVIDERS"] * 2
    assert not any("THE-GOAL" in span.to_json() for span in found)


# --- answers


async def test_an_answer_is_part_of_the_lane_that_it_is_for_and_current_for_the_function(spans: Spans) -> None:
    with answering("docs", f"00-{TRACE}-{SPAN}-01"):
        current = get_current_span().get_span_context()
    answer = spans.one("answer")
    assert answer.get_span_context() == current
    assert (f"{answer.parent.trace_id:032x}", f"{answer.parent.span_id:016x}") == (TRACE, SPAN)
    assert (answer.kind.name, answer.attributes) == ("SERVER", {"contextbroker.provider": "docs"})
    assert status(answer) == ("UNSET", None)
    assert not get_current_span().get_span_context().is_valid


def test_an_answer_to_no_trace_begins_one(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("something else"), answering("docs", ""):
        pass
    assert spans.one("answer").parent is None


async def test_answers_that_fail_or_are_not_wanted_any_more_say_so(
    broker: Broker, spans: Spans, serve: Callable[..., asyncio.Task[None]]
) -> None:
    began = asyncio.Event()

    async def fails(query: Query) -> list[Frame]:
        raise KeyError("THE-TEXT")

    async def hangs(query: Query) -> list[Frame]:
        began.set()
        await asyncio.sleep(SAFETY)
        return []

    for name, function in (("fails", fails), ("hangs", hangs)):
        attached = asyncio.Event()
        serve(Provider(name, function), broker.address, on_attached=lambda _, attached=attached: attached.set())
        await asyncio.wait_for(attached.wait(), SAFETY)
    async with ContextClient(broker.address) as client:
        asking = asyncio.create_task(client.compose("goal", max_tokens=1000, collect_timeout=SAFETY))
        await began.wait()
        asking.cancel()
        await asyncio.wait([asking])
        async with asyncio.timeout(SAFETY):
            while len(spans.named("answer")) < 2:
                await client.providers()
    found = {span.attributes["contextbroker.provider"]: span for span in spans.named("answer")}
    assert {name: status(span) for name, span in found.items()} == {
        "fails": ("ERROR", "KeyError"),
        "hangs": ("ERROR", "CANCELLED"),
    }
    assert "THE-TEXT" not in found["fails"].to_json()
    assert status(spans.one(COMPOSE)) == ("ERROR", "CANCELLED")
