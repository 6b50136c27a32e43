"""Audit rows, an audit's summary, and usage: messages to values and back."""

from __future__ import annotations

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import strategy_pb2

from broker.core.audited import (
    AuditRow,
    AuditScore,
    AuditSummary,
    BudgetRecord,
    FloorRecord,
    LaneSummary,
    LimitConflict,
    LimitsRecord,
    RenderRecord,
    StrategyRecord,
)
from broker.core.composition import Usage, UsageFigures
from broker.core.lanes import LaneEnd
from broker.core.request import Floor
from broker.wire.frames import read_scale, ref_message, ref_value, scale_message
from broker.wire.json_values import read_struct, struct_message
from broker.wire.reranking import read_record, record_message
from broker.wire.updates import lane_state, read_lane_state


def row_message(row: AuditRow) -> pb.AuditRow:
    """An audit row as a message."""
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


def read_row(message: pb.AuditRow) -> AuditRow:
    """The inverse of :func:`row_message`."""
    score = message.score
    return AuditRow(
        provider=message.provider_id,
        frame_id=message.frame_id,
        content_digest=message.content_digest,
        included=message.fate == pb.FATE_INCLUDED,
        reason=message.reason,
        detail=message.detail,
        lane_place=message.lane_place,
        local_rank=message.local_rank,
        rank=message.rank,
        position=message.position,
        cost=message.cost,
        remaining=message.remaining,
        duplicate_of=ref_value(message.duplicate_of) if message.HasField("duplicate_of") else None,
        conflicts=tuple(map(ref_value, message.conflicts)),
        score=AuditScore(score.provider_id, score.scale_id, score.value, score.floor)
        if message.HasField("score")
        else None,
        escaped_characters=message.escaped_characters,
        neutralised_fences=message.neutralised_fences,
        prior_rank=message.prior_rank,
        rerank_score=message.rerank_score,
        role_tokens=message.role_tokens,
        tokens=message.tokens,
        admitted=message.admitted,
        recorded_at=message.recorded_at,
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


def read_summary(message: pb.AuditSummary) -> AuditSummary:
    """The inverse of :func:`summary_message`. A lane's end that is not known reads ``FAILED``."""
    strategy, budget, render = message.strategy, message.budget, message.render
    return AuditSummary(
        strategy=StrategyRecord(
            name=strategy.name,
            version=strategy.version,
            params=read_struct(strategy.params),
            compares_raw_scores=strategy.compares_raw_scores,
            repairs=tuple(strategy.repairs),
        ),
        placement=message.placement,
        duplicates=message.duplicates,
        budget=BudgetRecord(
            max_tokens=budget.max_tokens,
            usable=budget.usable_tokens,
            preamble=budget.preamble,
            closing=budget.closing,
            frames=budget.frames,
            counter=budget.counter,
            safety_factor=budget.safety_factor,
            split=budget.split,
        ),
        lanes=tuple(
            LaneSummary(
                provider=lane.provider_id,
                end=read_lane_state(lane.state) or LaneEnd.FAILED,
                message=lane.message,
                scale=read_scale(lane.scale) if lane.HasField("scale") else None,
                offered=lane.offered,
                admitted=lane.admitted,
                placed=lane.placed,
                violation=lane.violation,
            )
            for lane in message.lanes
        ),
        floors=tuple(
            FloorRecord(
                Floor(record.floor.provider_id, record.floor.scale_id, record.floor.value), record.used, record.dropped
            )
            for record in message.floors
        ),
        rows=message.rows,
        reasons=dict(sorted(message.reasons.items())),
        rerank=read_record(message.rerank) if message.HasField("rerank") else None,
        placement_asked=message.placement_asked,
        fold_min_tokens=message.fold_min_tokens,
        render=RenderRecord(mode=render.mode, fence=render.fence, restated_question=render.restated_question),
        limit_conflicts=tuple(
            LimitConflict(conflict.limit, conflict.overridden_by, conflict.message)
            for conflict in message.limit_conflicts
        ),
        limits=_read_limits(message.limits),
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


def read_usage(message: pb.Usage) -> Usage:
    """The inverse of :func:`usage_message`."""
    return Usage(
        _read_figures(message.total), {entry.provider_id: _read_figures(entry.figures) for entry in message.providers}
    )


def _limits_message(limits: LimitsRecord) -> pb.LimitsRecord:
    return pb.LimitsRecord(
        max_frames=limits.max_frames or 0,
        max_frames_per_provider=limits.max_frames_per_provider or 0,
        max_frames_per_source=limits.max_frames_per_source or 0,
        max_block_bytes=limits.max_block_bytes or 0,
    )


def _read_limits(message: pb.LimitsRecord) -> LimitsRecord:
    return LimitsRecord(
        max_frames=message.max_frames or None,
        max_frames_per_provider=message.max_frames_per_provider or None,
        max_frames_per_source=message.max_frames_per_source or None,
        max_block_bytes=message.max_block_bytes or None,
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


def _read_figures(message: pb.UsageFigures) -> UsageFigures:
    return UsageFigures(
        frames_offered=message.frames_offered,
        frames_admitted=message.frames_admitted,
        frames_placed=message.frames_placed,
        tokens_offered=message.tokens_offered,
        tokens_admitted=message.tokens_admitted,
        tokens_placed=message.tokens_placed,
    )
