"""Gathering for one call: its lanes are collected, and meanwhile its caller is told how they fare."""

from __future__ import annotations

import asyncio
import contextvars
from itertools import islice

from broker.core.lanes import Lane, LaneUpdate
from broker.gather.changed import Changed
from broker.gather.gathering import LieReport
from broker.gather.tenants import Tenant
from broker.rpc.admission import Admitted
from broker.rpc.conduct import report_lie
from broker.rpc.lane_watch import LaneWatch
from broker.rpc.observing import Observing
from broker.rpc.snapshots import Snapshots
from broker.rpc.streams import Stream
from broker.wire.updates import lane_updates_message

TOLD_AT_ONCE = 256
"""Lanes in one message, at most: what is said of each may take some 1 KiB."""


async def gather(
    stream: Stream,
    tenant: Tenant,
    admitted: Admitted,
    deadline: float,
    snapshots: Snapshots | None,
    observing: Observing,
) -> list[Lane]:
    """Gathers the lanes; what changes at the same time is told in one message, of one lane only the latest.

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
        telling = Telling()
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
            on_update=telling.update,
            on_lie=on_lie,
            on_done=telling.end,
            on_lane=on_lane,
        )
        making = None if snapshots is None else asyncio.create_task(snapshots.run(), name="rpc-snapshots")
        try:
            collection.start()
            await telling.run(stream)
            return collection.lanes()
        finally:
            # Where the caller has left, providers hear of it now and not at the deadline.
            collection.close()
            watch.close()
            if making is not None:
                making.cancel()
                await asyncio.wait((making,))


class Telling:
    """Tells a caller how its lanes fare.

    What changes in one turn of the event loop, or while a message is being written, is told in one message; of a lane
    that changes twice meanwhile, the latest alone.
    """

    def __init__(self) -> None:
        self._updates: dict[str, LaneUpdate] = {}
        self._ended = False
        self._changed = Changed()

    def update(self, update: LaneUpdate) -> None:
        """A lane has changed."""
        self._updates[update.provider] = update
        self._changed.tell()

    def end(self) -> None:
        """The last lane has ended."""
        self._ended = True
        self._changed.tell()

    async def run(self, stream: Stream) -> None:
        """Tells of every change; returns when nothing more is to come, and all of it was queued."""
        updates = self._updates
        while updates or not self._ended:
            if not updates:
                await self._changed.wait()
                continue
            told = [updates.pop(name) for name in list(islice(updates, TOLD_AT_ONCE))]
            await stream.send(lane_updates_message(told).SerializeToString())
            if not self._ended:
                await stream.flush()
