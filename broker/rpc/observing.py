"""One call as operators see it: how long it ran, how it ended, which trace it belongs to, what its log lines say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from opentelemetry.trace import INVALID_SPAN, Span
from structlog.contextvars import bound_contextvars

from broker.auth.methods import OPEN
from broker.errors import BrokerError
from broker.telemetry.metrics import Metrics
from broker.telemetry.spans import Tracing, failed, note, trace_id

UNTRACED = frozenset({*OPEN, "Reflection"})
"""Methods that every probe and tool calls, and that say nothing of any work."""

SLACK = 0.05
"""Seconds before its deadline from which on a call that is cancelled is one whose deadline passed: its caller's clock
started first."""

_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Codes that are errors of a server's span; with others the caller was told what it did wrong. Source: OpenTelemetry's
semantic conventions for gRPC."""


@dataclass(slots=True)
class Call:
    """What is known of a call while it runs.

    Attributes:
        span: Its span.
        failure: What it ends with; None: nothing went wrong so far.
        deadline: Moment on the loop's clock when its caller stops waiting; None: it named none.
    """

    span: Span
    failure: BrokerError | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Observing:
    """Watches the calls of one broker.

    Attributes:
        metrics: Where they are counted.
        tracing: What makes their spans.
    """

    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)

    @contextmanager
    def call(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> Iterator[Call]:
        """Watches a call while the block runs, which must end as the call's handler does.

        Inside, the call's span is the current one, and every line of the log names its trace.
        """
        if method in UNTRACED:
            with self._counted(method, Call(INVALID_SPAN)) as call:
                yield call
            return
        with self.tracing.call(method, context.invocation_metadata() or ()) as span:
            trace = trace_id()
            with self._counted(method, Call(span)) as call:
                if not trace:
                    yield call
                    return
                with bound_contextvars(trace_id=trace):
                    yield call

    @contextmanager
    def _counted(self, method: str, call: Call) -> Iterator[Call]:
        time = asyncio.get_running_loop().time
        started = time()
        self.metrics.call_began(method)
        code = "OK"
        try:
            yield call
        except grpc.aio.AbortError:
            code = "UNKNOWN" if call.failure is None else call.failure.code
            raise
        except asyncio.CancelledError:
            # A peer that left, or one that does not even take the error that it was to be told.
            late = call.deadline is not None and time() >= call.deadline - SLACK
            cancelled = "DEADLINE_EXCEEDED" if late else "CANCELLED"
            code = cancelled if call.failure is None else call.failure.code
            raise
        except Exception:
            code = "UNKNOWN"
            raise
        finally:
            reason = "" if call.failure is None else call.failure.reason
            if call.span.is_recording():
                number, _ = grpc.StatusCode[code].value
                call.span.set_attribute("rpc.grpc.status_code", number)
            if reason:
                note(call.span, reason=reason)
            if code in _FAULTS:
                failed(call.span, reason or code)
            self.metrics.call_ended(method, code, reason, time() - started)
