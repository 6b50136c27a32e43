"""A collector for a try: takes spans by OTLP over gRPC, and prints a line for each.

``python show-spans.py HOST:PORT``
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2


class Shown(trace_service_pb2_grpc.TraceServiceServicer):
    """Prints what it is sent."""

    def Export(self, request: object, context: object) -> object:  # noqa: N802, ARG002 - the service's name
        """Takes one batch."""
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    show(span)
        return trace_service_pb2.ExportTraceServiceResponse()


def show(span: trace_pb2.Span) -> None:
    """Prints a span: its trace, what it is a part of, how long it took, how it ended."""
    part = f"in {span.parent_span_id.hex()}" if span.parent_span_id else "root" + " " * 15
    ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
    ended = {0: "", 1: "OK", 2: f"ERROR {span.status.message}"}[span.status.code]
    print(f"trace {span.trace_id.hex()}  {span.span_id.hex()} {part}  {ms:8.1f} ms  {span.name} {ended}", flush=True)


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Shown(), server)
    server.add_insecure_port(sys.argv[1])
    server.start()
    server.wait_for_termination()
