"""The lanes of one request as operators see them: each has a span of its own, and is counted and timed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace
from opentelemetry.trace import Span

from broker.core.lanes import Lane
from broker.gather.gathering import WantedLane
from broker.rpc.observing import Observing
from broker.telemetry.spans import Tracing, current_trace, failed, note, traceparent


class LaneWatch:
    """Watches the lanes of one request from the moment that it is made.

    Attributes:
        wanted: The lanes that are to be gathered; each knows its span, which its provider continues.
    """

    def __init__(self, observing: Observing, wanted: Sequence[WantedLane]) -> None:
        """Begins to watch lanes; their spans are parts of the current one."""
        self._metrics = observing.metrics
        self._time = asyncio.get_running_loop().time
        self._began = self._time()
        self._trace = current_trace()
        self._open: dict[str, Span | None] = dict.fromkeys([lane.provider for lane in wanted])
        self._metrics.lanes_began(len(wanted))
        if observing.tracing.keeps:
            wanted = [self._traced(observing.tracing, lane) for lane in wanted]
        elif self._trace.id:
            callers = traceparent()
            wanted = [replace(lane, traceparent=callers) for lane in wanted]
        self.wanted = tuple(wanted)

    def _traced(self, tracing: Tracing, lane: WantedLane) -> WantedLane:
        span = tracing.begin("lane", provider=lane.provider, pushed=lane.push is not None)
        self._open[lane.provider] = span
        return replace(lane, traceparent=traceparent(span))

    def ended(self, lane: Lane) -> None:
        """To be called with every lane as it ends."""
        span = self._open.pop(lane.provider)
        self._metrics.lane_ended(lane, self._time() - self._began, self._trace)
        if span is None:
            return
        end = str(lane.end)
        violation = {} if lane.lie is None else {"violation": lane.lie.reason}
        note(span, end=end, frames_offered=lane.offered, **violation)
        if not lane.end.answered:
            failed(span, end)
        span.end()

    def close(self) -> None:
        """Lets go of lanes that did not end: their request did."""
        if not self._open:
            return
        self._metrics.lanes_left(len(self._open))
        for span in self._open.values():
            if span is not None:
                failed(span, "CANCELLED")
                span.end()
        self._open = {}
