"""Gathering for one call: its lanes are collected, and meanwhile its caller is told how they fare."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from broker.core.lanes import Lane, LaneUpdate
from broker.gather.gathering import LieReport
from broker.gather.tenants import Tenant
from broker.rpc.admission import Admitted
from broker.rpc.conduct import report_lie
from broker.rpc.lane_watch import LaneWatch
from broker.rpc.observing import Observing
from broker.rpc.snapshots import Snapshots
from broker.rpc.streams import Stream
from broker.wire.updates import lane_update_message


async def gather(
    stream: Stream,
    tenant: Tenant,
    admitted: Admitted,
    deadline: float,
    snapshots: Snapshots | None,
    observing: Observing,
) -> list[Lane]:
    """Gathers the lanes; of one lane only the latest change is told.

    Args:
        stream: The caller's.
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
        try:
            return await _gathered(stream, tenant, admitted, deadline, snapshots, observing, watch)
        finally:
            watch.close()


async def _gathered(
    stream: Stream,
    tenant: Tenant,
    admitted: Admitted,
    deadline: float,
    snapshots: Snapshots | None,
    observing: Observing,
    watch: LaneWatch,
) -> list[Lane]:
    updates: dict[str, LaneUpdate] = {}
    changed = asyncio.Event()
    # A lie is found in the call of the provider that told it; the log is to name the request's.
    context = contextvars.copy_context()

    def on_update(update: LaneUpdate) -> None:
        updates[update.provider] = update
        changed.set()

    def on_lane(lane: Lane) -> None:
        watch.ended(lane)
        if snapshots is not None:
            snapshots.lane_ended(lane)

    def on_lie(report: LieReport) -> None:
        context.run(report_lie, observing.metrics, tenant.name, report)

    collecting = asyncio.create_task(
        tenant.collector.collect(
            watch.wanted,
            admitted.query,
            deadline,
            held=stream.held,
            on_update=on_update,
            on_lie=on_lie,
            on_lane=on_lane,
        ),
        name="rpc-collect",
    )
    collecting.add_done_callback(lambda _: changed.set())
    tasks: set[asyncio.Task[Any]] = {collecting}
    if snapshots is not None:
        tasks.add(asyncio.create_task(snapshots.run(), name="rpc-snapshots"))
    try:
        while updates or not collecting.done():
            await changed.wait()
            changed.clear()
            while updates:
                update = updates.pop(next(iter(updates)))
                await stream.send(lane_update_message(update).SerializeToString())
                if not collecting.done():
                    # What changes again while this one is written is told once.
                    await stream.flush()
        return collecting.result()
    finally:
        # Where the caller has left, providers hear of it now and not at the deadline.
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
