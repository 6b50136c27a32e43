"""From the configuration of traces to what makes spans."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from threading import Timer
from typing import Any

import grpc

from broker import __version__
from broker.errors import ConfigError
from broker.rpc.credentials import content, private
from broker.settings import Traces
from broker.telemetry.spans import Tracing

EXPORT_SECONDS = 5.0
"""How long a batch may take to reach the collector."""

CLOSE_SECONDS = 1.0
"""What a stop gives spans that wait; a collector that is away must not hold it up."""

_CHANNEL: Any = (
    # The operator named this address; a proxy for the outside has no part in it.
    ("grpc.enable_http_proxy", 0),
    # Channels to one address share each other's failures unless told not to.
    ("grpc.use_local_subchannel_pool", 1),
)


def tracing_of(traces: Traces) -> Tracing:
    """What makes spans as configured; where no collector is named, callers' traces are carried on and no more.

    Spans wait in a bounded queue and are sent from a thread: a collector that is slow or away costs spans and nothing
    else.

    Raises:
        ConfigError: A file cannot be read or used, or what exports spans is not installed.
    """
    if traces.collector is None:
        return Tracing()
    for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc"):
        if not _installed(name):
            text = f"traces.collector is set, which needs {name}: pip install 'context-broker[traces]'"
            raise ConfigError(text)
    # An extra, and half a second to import.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    credentials = None
    if traces.tls_ca is not None:
        credentials = grpc.ssl_channel_credentials(content(traces.tls_ca, "traces.tls_ca"))
    headers = () if traces.headers_file is None else _headers(traces)
    exporter = OTLPSpanExporter(
        endpoint=traces.collector,
        insecure=credentials is None,
        credentials=credentials,
        headers=headers,
        timeout=EXPORT_SECONDS,
        channel_options=_CHANNEL,
    )
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(traces.sample)),
        resource=Resource.create(
            {
                "service.name": "context-broker",
                "service.version": __version__,
                "service.instance.id": secrets.token_hex(8),
            }
        ),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))

    def close() -> None:
        hurry = Timer(CLOSE_SECONDS, exporter.shutdown)
        hurry.daemon = True
        hurry.start()
        provider.shutdown()
        hurry.cancel()

    return Tracing(provider.get_tracer("contextbroker", __version__), close)


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _headers(traces: Traces) -> tuple[tuple[str, str], ...]:
    """What the collector is shown.

    Raises:
        ConfigError: A line of the file is no header; the message does not hold it.
    """
    assert traces.headers_file is not None, "the caller sees to it"
    text = private(traces.headers_file, "traces.headers_file").decode(errors="replace")
    headers = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            where = f"traces.headers_file: {traces.headers_file}, line {number}"
            raise ConfigError(f"{where} is not a header; write NAME: VALUE")
        headers.append((name.lower(), value))
    return tuple(headers)
