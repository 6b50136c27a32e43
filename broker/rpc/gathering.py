"""Gathering for one call: its lanes are collected, and meanwhile its caller is told how they fare."""

from __future__ import annotations

import asyncio
import contextvars

from broker.core.lanes import Lane
from broker.gather.gathering import LieReport
from broker.gather.tenants import Tenant
from broker.rpc.admission import Admitted
from broker.rpc.answering import Answer
from broker.rpc.conduct import report_lie
from broker.rpc.lane_watch import LaneWatch
from broker.rpc.observing import Observing
from broker.rpc.snapshots import Snapshots
from broker.rpc.streams import Stream


async def gather(
    stream: Stream,
    answer: Answer,
    tenant: Tenant,
    admitted: Admitted,
    deadline: float,
    snapshots: Snapshots | None,
    observing: Observing,
) -> list[Lane]:
    """Gathers the lanes, and tells how they fare.

    Args:
        stream: The caller's.
        answer: What the caller is told; the last of it stays untold, to go with what comes next.
        tenant: Whose providers are asked.
        admitted: What is asked.
        deadline: Moment on the loop's clock at which collecting ends.
        snapshots: What is made of the lanes meanwhile; None: nothing.
        observing: What watches the lanes for operators.

    Returns:
        The lanes in the order wanted; where this raises or is cancelled, nothing of it goes on.
    """
    with observing.tracing.part("collect"):
        watch = LaneWatch(observing, admitted.wanted)
        # A lie is found in the call of the provider that told it; the log is to name the request's.
        context = contextvars.copy_context()

        def on_lane(lane: Lane) -> None:
            watch.ended(lane)
            if snapshots is not None:
                snapshots.lane_ended(lane)

        def on_lie(report: LieReport) -> None:
            context.run(report_lie, observing.metrics, tenant.name, report)

        collection = tenant.collector.collection(
            watch.wanted,
            admitted.query,
            deadline,
            held=stream.held,
            on_update=answer.update,
            on_lie=on_lie,
            on_done=answer.end,
            on_lane=on_lane,
        )
        making = None if snapshots is None else asyncio.create_task(snapshots.run(), name="rpc-snapshots")
        try:
            collection.start()
            await answer.tell()
            return collection.lanes()
        finally:
            # Where the caller has left, providers hear of it now and not at the deadline.
            collection.close()
            watch.close()
            if making is not None:
                making.cancel()
                await asyncio.wait((making,))
