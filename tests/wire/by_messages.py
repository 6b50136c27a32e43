"""A composition's parts by way of the contract's messages: what is encoded field by field is held against it."""

from __future__ import annotations

from collections.abc import Iterator

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import strategy_pb2
from contextbroker.v1.strategy_pb2 import FrameRef as FrameRefMessage

from broker.core.audited import AuditRow, AuditSummary, LimitsRecord
from broker.core.composition import Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import FrameRef
from broker.wire.compositions import FILL_BYTES, HEADROOM, ITEM_TAG, MAX_MESSAGE_BYTES
from broker.wire.frames import frame_message, scale_message
from broker.wire.json_values import struct_message
from broker.wire.reranking import record_message
from broker.wire.updates import lane_state


def parts(composition: Composition, max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[pb.Part]:
    """The parts of a composition but the last."""
    room = max_bytes - HEADROOM
    part, size = pb.Part(), 0
    for kind, items in (
        ("placed", [shortened(placed_message(placed), room) for placed in composition.placed]),
        ("citations", map(citation_message, composition.citations)),
        ("audit", map(row_message, composition.audit)),
    ):
        for item in items:
            weight = pb.Part(**{kind: [item]}).ByteSize()
            if size and size + weight > min(room, FILL_BYTES):
                yield part
                part, size = pb.Part(), 0
            getattr(part, kind).append(item)
            size += weight
    if size:
        yield part


def shortened(placed: pb.Placed, room: int) -> pb.Placed:
    """A placed frame with as much of its lists as fits into a part, one of each at least."""
    if pb.Part(placed=[placed]).ByteSize() <= room:
        return placed
    room -= ITEM_TAG
    for entries in (placed.frame.provenance, placed.vouchers):
        excess = placed.ByteSize() - room
        while excess > 0 and len(entries) > 1:
            excess -= entries[-1].ByteSize()
            del entries[-1]
    return placed


def ref_message(ref: FrameRef) -> FrameRefMessage:
    return FrameRefMessage(provider_id=ref.provider, frame_id=ref.frame_id)


def placed_message(placed: Placed) -> pb.Placed:
    return pb.Placed(
        position=placed.position,
        total=placed.total,
        provider_id=placed.provider,
        local_rank=placed.local_rank,
        rank=placed.rank,
        frame=frame_message(placed.frame),
        rendered=placed.rendered,
        cost=placed.cost,
        citation_label=placed.citation_label,
        vouchers=map(ref_message, placed.vouchers),
    )


def citation_message(citation: Citation) -> pb.Citation:
    return pb.Citation(
        label=citation.label,
        frame=ref_message(citation.frame),
        position=citation.position,
        content_digest=citation.content_digest,
    )


def row_message(row: AuditRow) -> pb.AuditRow:
    score = row.score
    return pb.AuditRow(
        provider_id=row.provider,
        frame_id=row.frame_id,
        content_digest=row.content_digest,
        fate=pb.FATE_INCLUDED if row.included else pb.FATE_EXCLUDED,
        reason=row.reason,
        detail=row.detail,
        lane_place=row.lane_place,
        local_rank=row.local_rank,
        rank=row.rank,
        position=row.position,
        cost=row.cost,
        remaining=row.remaining,
        duplicate_of=None if row.duplicate_of is None else ref_message(row.duplicate_of),
        conflicts=map(ref_message, row.conflicts),
        score=None
        if score is None
        else pb.AuditScore(provider_id=score.provider, scale_id=score.scale_id, value=score.value, floor=score.floor),
        escaped_characters=row.escaped_characters,
        neutralised_fences=row.neutralised_fences,
        prior_rank=row.prior_rank,
        rerank_score=row.rerank_score,
        role_tokens=row.role_tokens,
        tokens=row.tokens,
        admitted=row.admitted,
        recorded_at=row.recorded_at,
    )


def summary_message(summary: AuditSummary) -> pb.AuditSummary:
    """An audit's summary as a message."""
    strategy, budget, render = summary.strategy, summary.budget, summary.render
    return pb.AuditSummary(
        strategy=pb.StrategyRecord(
            name=strategy.name,
            version=strategy.version,
            params=struct_message(strategy.params),
            compares_raw_scores=strategy.compares_raw_scores,
            repairs=strategy.repairs,
        ),
        placement=summary.placement,
        duplicates=summary.duplicates,
        budget=pb.BudgetRecord(
            max_tokens=budget.max_tokens,
            usable_tokens=budget.usable,
            preamble=budget.preamble,
            closing=budget.closing,
            frames=budget.frames,
            counter=budget.counter,
            safety_factor=budget.safety_factor,
            split=budget.split,
        ),
        lanes=[
            pb.LaneSummary(
                provider_id=lane.provider,
                state=lane_state(lane.end),
                message=lane.message,
                scale=None if lane.scale is None else scale_message(lane.scale),
                offered=lane.offered,
                admitted=lane.admitted,
                placed=lane.placed,
                violation=lane.violation,
            )
            for lane in summary.lanes
        ],
        floors=[
            pb.FloorRecord(
                floor=strategy_pb2.Floor(
                    provider_id=record.floor.provider, scale_id=record.floor.scale_id, value=record.floor.value
                ),
                used=record.used,
                dropped=record.dropped,
            )
            for record in summary.floors
        ],
        rows=summary.rows,
        reasons=summary.reasons,
        rerank=None if summary.rerank is None else record_message(summary.rerank),
        placement_asked=summary.placement_asked,
        fold_min_tokens=summary.fold_min_tokens,
        render=pb.RenderRecord(mode=render.mode, fence=render.fence, restated_question=render.restated_question),
        limit_conflicts=[
            pb.LimitConflict(limit=conflict.limit, overridden_by=conflict.overridden_by, message=conflict.message)
            for conflict in summary.limit_conflicts
        ],
        limits=_limits_message(summary.limits),
    )


def usage_message(usage: Usage) -> pb.Usage:
    """Usage as a message."""
    return pb.Usage(
        total=_figures_message(usage.total),
        providers=[
            pb.ProviderUsage(provider_id=provider, figures=_figures_message(figures))
            for provider, figures in usage.providers.items()
        ],
    )


def _limits_message(limits: LimitsRecord) -> pb.LimitsRecord:
    return pb.LimitsRecord(
        max_frames=limits.max_frames or 0,
        max_frames_per_provider=limits.max_frames_per_provider or 0,
        max_frames_per_source=limits.max_frames_per_source or 0,
        max_block_bytes=limits.max_block_bytes or 0,
    )


def _figures_message(figures: UsageFigures) -> pb.UsageFigures:
    return pb.UsageFigures(
        frames_offered=figures.frames_offered,
        frames_admitted=figures.frames_admitted,
        frames_placed=figures.frames_placed,
        tokens_offered=figures.tokens_offered,
        tokens_admitted=figures.tokens_admitted,
        tokens_placed=figures.tokens_placed,
    )
