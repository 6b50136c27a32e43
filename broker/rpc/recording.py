"""Putting a composition on record before its end is sent."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass

import structlog
from contextbroker.v1 import context_service_pb2 as pb

from broker.auth.caller import Caller
from broker.core.composition import AuditState, Composition
from broker.core.lanes import Lane
from broker.core.sources import sources_named
from broker.errors import Unavailable
from broker.rpc.large import in_thread_if
from broker.rpc.observing import Observing
from broker.store.engine import StoreUnavailable
from broker.store.store import Store
from broker.store.values import KeptComposition, KeptFrames, KeptLane
from broker.wire.compositions import KINDS
from broker.wire.encoded_audits import EncodedAudit
from broker.wire.records import is_kept, record_head

RETRY_AFTER = 2.0
"""Seconds after which a store that was away may be back."""

_KEPT = {content: tuple([kind for kind in KINDS if is_kept(kind, content=content)]) for content in (True, False)}

log = structlog.get_logger("broker.rpc")


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records what was answered.

    Attributes:
        store: Where; None: nothing is recorded.
        required: Whether what cannot be recorded is no answer.
        content: Whether what was asked and placed is kept too.
        observing: What watches it for operators.
    """

    store: Store | None
    required: bool
    content: bool
    observing: Observing

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of items, of those that the answer's parts have, that are to be given to :meth:`record`."""
        return () if self.store is None else _KEPT[self.content]

    async def record(
        self,
        composition: Composition,
        asked: pb.ComposeRequest,
        caller: Caller,
        parts: list[bytes],
        audit: EncodedAudit,
        *,
        lanes: list[Lane],
        until: float,
        large: bool,
    ) -> AuditState:
        """Records a composition; returns when it is committed, or known not to be.

        Args:
            composition: The composition.
            asked: The request as it was sent, without inline lanes.
            caller: Who asked.
            parts: The answer's parts, encoded, of the :attr:`kinds` that are kept; none is empty.
            audit: The rest of the audit, encoded.
            lanes: What it was made of; the list may be empty afterwards.
            until: Moment on the loop's clock after which its caller cannot be answered in time.
            large: Whether it is large.

        Raises:
            Unavailable: ``AUDIT_UNAVAILABLE``: it could not be recorded, and must be.
        """
        if self.store is None:
            await in_thread_if(large, _let_go, lanes)
            return AuditState.NOT_KEPT
        kept = await in_thread_if(large, _kept, composition, asked, caller, parts, audit, lanes, self.content)
        began, state = time.monotonic(), AuditState.DEGRADED
        try:
            with self.observing.tracing.part("record"):
                await self.store.record(kept, until - asyncio.get_running_loop().time())
            state = AuditState.RECORDED
        except StoreUnavailable as failure:
            log.warning(
                "composition not recorded", composition_id=composition.composition_id, why=str(failure), kept=False
            )
            if self.required:
                raise Unavailable(
                    "AUDIT_UNAVAILABLE",
                    "the composition could not be recorded, which this broker requires; try again",
                    retry_after=RETRY_AFTER,
                ) from None
        finally:
            self.observing.metrics.recorded(state, time.monotonic() - began)
        return state


def _kept(
    composition: Composition,
    asked: pb.ComposeRequest,
    caller: Caller,
    parts: list[bytes],
    audit: EncodedAudit,
    lanes: list[Lane],
    content: bool,
) -> KeptComposition:
    made_at = time.time_ns() // 1000
    usage = composition.usage.providers
    return KeptComposition(
        tenant=caller.tenant,
        composition_id=composition.composition_id,
        request_id=composition.request_id,
        subject=caller.subject,
        made_at=made_at,
        strategy=composition.summary.strategy.name,
        head=record_head(composition, audit, asked, caller.subject, made_at, content=content),
        parts=tuple(parts),
        lanes=tuple(
            [
                KeptLane(
                    provider=lane.provider,
                    end=str(lane.end),
                    violation=lane.violation,
                    offered=lane.offered,
                    admitted=lane.admitted,
                    placed=lane.placed,
                    tokens_placed=usage[lane.provider].tokens_placed,
                )
                for lane in composition.summary.lanes
            ]
        ),
        frames=_frames(composition, lanes),
    )


def _let_go(lanes: list[Lane]) -> None:
    """Frees lanes one by one, as :func:`_frames` does and for its reason."""
    while lanes:
        lanes.pop()


def _frames(composition: Composition, lanes: list[Lane]) -> tuple[KeptFrames, ...]:
    """What became of every frame offered, with where those that were admitted say that they come from.

    The lanes are let go of one by one: to free all frames of a large request at once takes some milliseconds, in
    which the interpreter does nothing else.
    """
    sources: dict[str, dict[str, str]] = {}
    while lanes:
        lane = lanes.pop()
        frames = [each.frame for each in lane.candidates]
        sources[lane.provider] = dict(zip([frame.id for frame in frames], sources_named(frames), strict=True))
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in composition.audit:
        ids[row.provider, row.reason].append(row.frame_id)
    none: dict[str, str] = {}
    kept = []
    for (provider, reason), own in ids.items():
        source_of = sources.get(provider, none).get
        kept.append(KeptFrames(provider, reason, own, [source_of(frame_id, "") for frame_id in own]))
    return tuple(kept)
