"""A real OTLP receiver in this process: what a broker exports arrives here over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True)
class Received:
    """A span as it arrived."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    status: int
    message: str
    attributes: dict[str, Any]

    @property
    def code(self) -> int:
        """Its gRPC status code."""
        return int(self.attributes["rpc.grpc.status_code"])


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """The receiver; ``address`` says where."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.spans: list[Received] = []
        self.resources: list[dict[str, Any]] = []
        self.metadata: list[dict[str, str]] = []
        self.data = b""
        self._server = grpc.server(ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}" if credentials is None else f"localhost:{port}"
        self._server.start()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - the service's name for it
        self.data += request.SerializeToString()
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
        for batch in request.resource_spans:
            self.resources.append(_attributes(batch.resource.attributes))
            self.spans += [_received(span) for scope in batch.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Received:
        (span,) = self.named(name)
        return span


def _received(span: Any) -> Received:
    return Received(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.status.code,
        span.status.message,
        _attributes(span.attributes),
    )


def _attributes(pairs: Sequence[Any]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
