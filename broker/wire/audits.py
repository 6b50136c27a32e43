"""Audit rows, an audit's summary, and usage: messages to values; :mod:`broker.wire.encoded_audits` is the way there."""

from __future__ import annotations

from contextbroker.v1 import composition_pb2 as pb

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
from broker.wire.frames import read_scale, ref_value
from broker.wire.json_values import read_struct
from broker.wire.reranking import read_record
from broker.wire.updates import read_lane_state


def read_row(message: pb.AuditRow) -> AuditRow:
    """An audit row as a value."""
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


def read_summary(message: pb.AuditSummary) -> AuditSummary:
    """An audit's summary as a value. A lane's end that is not known reads ``FAILED``."""
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


def read_usage(message: pb.Usage) -> Usage:
    """Usage as a value."""
    return Usage(
        _read_figures(message.total), {entry.provider_id: _read_figures(entry.figures) for entry in message.providers}
    )


def _read_limits(message: pb.LimitsRecord) -> LimitsRecord:
    return LimitsRecord(
        max_frames=message.max_frames or None,
        max_frames_per_provider=message.max_frames_per_provider or None,
        max_frames_per_source=message.max_frames_per_source or None,
        max_block_bytes=message.max_block_bytes or None,
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
