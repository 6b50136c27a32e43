"""Of each composition operators are told once: what it was made of, how long it took, nothing that it holds."""

from __future__ import annotations

from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from broker.core.composition import AuditState
from broker.rpc.observing import Observing
from broker.rpc.told import composition_told
from broker.telemetry.metrics import Metrics
from broker.telemetry.spans import Tracing
from tests.core.building import composed, frame, lane

STAGES = {"gathering": 0.25, "composing": 0.0204, "sending": 0.001, "recording": 0.004}


def test_log_span_and_figures_agree_and_hold_nothing_of_the_content() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    observing = Observing(Metrics(providers=["a"]), Tracing(provider.get_tracer("test")))
    evidence = frame("THE-ID", 0.123456, "THE-CONTENT", title="THE-TITLE")
    composition = replace(
        composed(lane("a", [evidence]), lane("b", [])),
        composition_id="c1",
        request_id="r1",
        audit_state=AuditState.DEGRADED,
    )
    with capture_logs() as logs, observing.tracing.call("Compose", []):
        composition_told(observing, composition, STAGES, inline={"b"})
    (line,) = logs
    (span,) = kept.get_finished_spans()
    tokens = composition.summary.budget.used
    assert line == {
        "event": "composition",
        "log_level": "info",
        "composition_id": "c1",
        "strategy": "round_robin",
        "strategy_repairs": [],
        "reranker": None,
        "lanes": {"a": "COMPLETE", "b": "EMPTY"},
        "frames_offered": 1,
        "frames_placed": 1,
        "tokens": tokens,
        "audit": "DEGRADED",
        "gathering_ms": 250.0,
        "composing_ms": 20.4,
        "sending_ms": 1.0,
        "recording_ms": 4.0,
    }
    own = {key: value for key, value in span.attributes.items() if key.startswith("contextbroker.")}
    assert own == {
        "contextbroker.composition_id": "c1",
        "contextbroker.request_id": "r1",
        "contextbroker.strategy": "round_robin",
        "contextbroker.frames_offered": 1,
        "contextbroker.frames_placed": 1,
        "contextbroker.tokens": tokens,
        "contextbroker.audit": "DEGRADED",
    }
    value = observing.metrics.registry.get_sample_value
    labels = {"strategy": "round_robin", "audit": "DEGRADED"}
    assert value("context_broker_compositions_total", labels) == 1
    assert value("context_broker_tokens_total", {"provider": "(inline)", "stage": "offered"}) == 0
    assert "THE-" not in f"{line}{span.to_json()}"
