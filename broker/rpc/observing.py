"""One call as operators see it: how long it ran, how it ended, which trace it belongs to, what its log lines say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from opentelemetry.trace import Span
from structlog.contextvars import bound_contextvars

from broker.auth.methods import OPEN
from broker.errors import BrokerError
from broker.telemetry.metrics import Metrics
from broker.telemetry.spans import Tracing, current_trace, failed, note

UNTRACED = frozenset({*OPEN, "Reflection"})
"""Methods that every probe and tool calls, and that say nothing of any work."""

SLACK = 0.05
"""Seconds before its deadline from which on a call that is cancelled is one whose deadline passed: its caller's clock
started first."""

_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Codes that are errors of a server's span; with others the caller was told what it did wrong. Source: OpenTelemetry's
semantic conventions for gRPC."""


class Call:
    """What is known of a call while it runs: while it is entered, which ends as the call's handler does.

    Attributes:
        failure: What it ends with; None: nothing went wrong so far.
        deadline: Moment on the loop's clock when its caller stops waiting; None: it named none.
    """

    __slots__ = ("_method", "_metrics", "_span", "_started", "_time", "deadline", "failure")

    def __init__(self, method: str, metrics: Metrics, span: Span | None = None) -> None:
        """Counts a call in ``metrics`` by its handler's name; a span is told how it ends."""
        self.failure: BrokerError | None = None
        self.deadline: float | None = None
        self._method = method
        self._metrics = metrics
        self._span = span
        self._time = asyncio.get_running_loop().time
        self._started = 0.0

    def __enter__(self) -> Self:
        self._started = self._time()
        self._metrics.call_began(self._method)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        ended = self._time()
        code = "OK" if error is None else self._code(error, ended)
        reason = "" if self.failure is None else self.failure.reason
        if self._span is not None:
            _mark(self._span, code, reason)
        self._metrics.call_ended(self._method, code, reason, ended - self._started)

    def _code(self, error: BaseException, ended: float) -> str:
        """The status code of a call whose handler raised an error."""
        if not isinstance(error, (grpc.aio.AbortError, asyncio.CancelledError)):
            return "UNKNOWN"
        if self.failure is not None:
            return self.failure.code
        if isinstance(error, grpc.aio.AbortError):
            return "UNKNOWN"
        # A peer that left, or one that does not even take the error that it was to be told.
        late = self.deadline is not None and ended >= self.deadline - SLACK
        return "DEADLINE_EXCEEDED" if late else "CANCELLED"


def _mark(span: Span, code: str, reason: str) -> None:
    if not span.is_recording():
        return
    number, _ = grpc.StatusCode[code].value
    span.set_attribute("rpc.grpc.status_code", number)
    if reason:
        note(span, reason=reason)
    if code in _FAULTS:
        failed(span, reason or code)


@dataclass(frozen=True, slots=True)
class Observing:
    """Watches the calls of one broker.

    Attributes:
        metrics: Where they are counted.
        tracing: What makes their spans.
    """

    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)

    def call(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> AbstractContextManager[Call]:
        """Watches a call while the block runs, which must end as the call's handler does.

        Inside, the call's span is the current one, and every line of the log names its trace.
        """
        if method not in UNTRACED:
            metadata = context.invocation_metadata() or ()
            if self.tracing.concerns(metadata):
                return self._traced(method, metadata)
        return Call(method, self.metrics)

    @contextmanager
    def _traced(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Call]:
        with self.tracing.call(method, metadata) as span, Call(method, self.metrics, span) as call:
            trace_id = current_trace().id
            if not trace_id:
                yield call
                return
            with bound_contextvars(trace_id=trace_id):
                yield call
