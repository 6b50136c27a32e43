"""What an audit says beside its rows as bytes, without messages in between; see :mod:`broker.wire.encoded`.

Every answer has one, however small it is. What few answers have, such as floors, is encoded by its message.
"""

from __future__ import annotations

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import frame_pb2, strategy_pb2
from msgspec import Struct

from broker.core.audited import (
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
from broker.core.scores import ScoreScale
from broker.wire.encoded import fields_of
from broker.wire.frames import DIRECTION_NUMBERS
from broker.wire.json_values import struct_message
from broker.wire.reranking import record_message
from broker.wire.updates import lane_state

_join = b"".join

_SUMMARY = fields_of(pb.AuditSummary.DESCRIPTOR)
_STRATEGY = fields_of(pb.StrategyRecord.DESCRIPTOR)
_BUDGET = fields_of(pb.BudgetRecord.DESCRIPTOR)
_LANE = fields_of(pb.LaneSummary.DESCRIPTOR)
_SCALE = fields_of(frame_pb2.ScoreScale.DESCRIPTOR)
_RENDER = fields_of(pb.RenderRecord.DESCRIPTOR)
_LIMITS = fields_of(pb.LimitsRecord.DESCRIPTOR)
_USAGE = fields_of(pb.Usage.DESCRIPTOR)
_PROVIDER = fields_of(pb.ProviderUsage.DESCRIPTOR)
_FIGURES = fields_of(pb.UsageFigures.DESCRIPTOR)
_REASON = fields_of(pb.AuditSummary.ReasonsEntry.DESCRIPTOR)
for _field in _REASON:
    # An entry of a map says its key and its value whatever these are.
    _field.pop(0, None)


class EncodedAudit(Struct, frozen=True, gc=False):
    """What an audit says beside its rows, encoded: the end of an answer says it, and so does its record.

    Attributes:
        summary: An ``AuditSummary``.
        usage: A ``Usage``.
    """

    summary: bytes
    usage: bytes


def encoded_audit(summary: AuditSummary, usage: Usage) -> EncodedAudit:
    """A summary and usage, encoded."""
    return EncodedAudit(summary_bytes(summary), usage_bytes(usage))


def summary_bytes(summary: AuditSummary) -> bytes:
    """An audit's summary, encoded; the same one gives the same bytes in every process."""
    (
        strategy, placement, duplicates, budget, lanes, floors, rows, reasons, rerank, placement_asked,
        fold_min_tokens, render, limit_conflicts, limits,
    ) = _SUMMARY  # fmt: skip
    pieces = [
        strategy.message(_strategy(summary.strategy)),
        placement.text(summary.placement),
        duplicates.text(summary.duplicates),
        budget.message(_budget(summary.budget)),
    ]
    for lane in summary.lanes:
        data = _lane(lane)
        pieces += (lanes[len(data)], data)
    if summary.floors:
        pieces += [floors.message(_floor(record)) for record in summary.floors]
    pieces.append(rows[summary.rows])
    key, count = _REASON
    # Maps have no order of their own.
    for reason, frames in sorted(summary.reasons.items()):
        pieces.append(reasons.message(key.text(reason) + count[frames]))
    if summary.rerank is not None:
        pieces.append(rerank.message(record_message(summary.rerank).SerializeToString()))
    pieces += (
        placement_asked.text(summary.placement_asked),
        fold_min_tokens[summary.fold_min_tokens],
        render.message(_render(summary.render)),
    )
    if summary.limit_conflicts:
        pieces += [limit_conflicts.message(_conflict(conflict)) for conflict in summary.limit_conflicts]
    pieces.append(limits.message(_limits(summary.limits)))
    return _join(pieces)


def usage_bytes(usage: Usage) -> bytes:
    """Usage, encoded."""
    total, providers = _USAGE
    provider, figures = _PROVIDER
    pieces = [total.message(_figures(usage.total))]
    for name, used in usage.providers.items():
        data = provider.text(name) + figures.message(_figures(used))
        pieces += (providers[len(data)], data)
    return _join(pieces)


def _strategy(record: StrategyRecord) -> bytes:
    name, version, params, compares_raw_scores, repairs = _STRATEGY
    given = struct_message(record.params).SerializeToString(deterministic=True) if record.params else b""
    pieces = [
        name.text(record.name),
        version.text(record.version),
        params.message(given),
        compares_raw_scores[record.compares_raw_scores],
    ]
    if record.repairs:
        pieces += [repairs.text(repair) for repair in record.repairs]
    return _join(pieces)


def _budget(record: BudgetRecord) -> bytes:
    max_tokens, preamble, closing, frames, counter, safety_factor, usable_tokens, split = _BUDGET
    return _join(
        (
            max_tokens[record.max_tokens],
            preamble[record.preamble],
            closing[record.closing],
            frames[record.frames],
            counter.text(record.counter),
            safety_factor.double(record.safety_factor),
            usable_tokens[record.usable],
            split.text(record.split),
        )
    )


def _lane(lane: LaneSummary) -> bytes:
    provider, state, message, scale, offered, admitted, placed, violation = _LANE
    return _join(
        (
            provider.text(lane.provider),
            state[lane_state(lane.end)],
            message.text(lane.message) if lane.message else b"",
            b"" if lane.scale is None else scale.message(_scale(lane.scale)),
            offered[lane.offered],
            admitted[lane.admitted],
            placed[lane.placed],
            violation.text(lane.violation) if lane.violation else b"",
        )
    )


def _scale(scale: ScoreScale) -> bytes:
    scale_id, least, most, direction = _SCALE
    ends = least.double(scale.min) + most.double(scale.max)
    return scale_id.text(scale.id) + ends + direction[DIRECTION_NUMBERS[scale.direction]]


def _floor(record: FloorRecord) -> bytes:
    floor = strategy_pb2.Floor(
        provider_id=record.floor.provider, scale_id=record.floor.scale_id, value=record.floor.value
    )
    return pb.FloorRecord(floor=floor, used=record.used, dropped=record.dropped).SerializeToString()


def _render(record: RenderRecord) -> bytes:
    mode, fence, restated_question = _RENDER
    return mode.text(record.mode) + fence.text(record.fence) + restated_question[record.restated_question]


def _conflict(conflict: LimitConflict) -> bytes:
    return pb.LimitConflict(
        limit=conflict.limit, overridden_by=conflict.overridden_by, message=conflict.message
    ).SerializeToString()


def _limits(record: LimitsRecord) -> bytes:
    frames, of_provider, of_source, block_bytes = _LIMITS
    return _join(
        (
            frames[record.max_frames or 0],
            of_provider[record.max_frames_per_provider or 0],
            of_source[record.max_frames_per_source or 0],
            block_bytes[record.max_block_bytes or 0],
        )
    )


def _figures(figures: UsageFigures) -> bytes:
    offered, admitted, placed, tokens_offered, tokens_admitted, tokens_placed = _FIGURES
    return _join(
        (
            offered[figures.frames_offered],
            admitted[figures.frames_admitted],
            placed[figures.frames_placed],
            tokens_offered[figures.tokens_offered],
            tokens_admitted[figures.tokens_admitted],
            tokens_placed[figures.tokens_placed],
        )
    )
