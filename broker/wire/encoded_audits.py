"""What an audit says beside its rows as bytes, without messages in between; see :mod:`broker.wire.encoded`.

Every answer has one, however small it is. What few answers have, such as floors, is encoded by its message.
"""

from __future__ import annotations

from contextbroker.v1 import composition_pb2 as pb
from contextbroker.v1 import frame_pb2, strategy_pb2
from google.protobuf.message import Message
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
from broker.wire.fields import as_bytes, fields_of
from broker.wire.frames import DIRECTION_NUMBERS
from broker.wire.json_values import struct_message
from broker.wire.reranking import record_message
from broker.wire.updates import lane_state

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
    """A summary and usage, encoded; the same ones give the same bytes in every process."""
    return EncodedAudit(as_bytes(_summary(summary)), as_bytes(_usage(usage)))


def _summary(summary: AuditSummary) -> str:
    (
        strategy, placement, duplicates, budget, lanes, floors, rows, reasons, rerank, placement_asked,
        fold_min_tokens, render, limit_conflicts, limits,
    ) = _SUMMARY  # fmt: skip
    key, count = _REASON
    pieces = [
        strategy.sized(_strategy(summary.strategy)),
        placement.texts[summary.placement],
        duplicates.texts[summary.duplicates],
        budget.sized(_budget(summary.budget)),
        *[lanes.sized(_lane(lane)) for lane in summary.lanes],
        *[floors.sized(_floor(record)) for record in summary.floors],
        rows[summary.rows],
        # Maps have no order of their own.
        *[reasons.sized(key.texts[reason] + count[frames]) for reason, frames in sorted(summary.reasons.items())],
        "" if summary.rerank is None else rerank.sized(_octets_of(record_message(summary.rerank))),
        placement_asked.texts[summary.placement_asked],
        fold_min_tokens[summary.fold_min_tokens],
        render.sized(_render(summary.render)),
        *[limit_conflicts.sized(_conflict(conflict)) for conflict in summary.limit_conflicts],
        limits.sized(_limits(summary.limits)),
    ]
    return "".join(pieces)


def _usage(usage: Usage) -> str:
    total, providers = _USAGE
    provider, figures = _PROVIDER
    names, encoded = provider.texts, total.sized(_figures(usage.total))
    for name, used in usage.providers.items():
        data = _figures(used)
        data = f"{names[name]}{figures[len(data)]}{data}"
        encoded += f"{providers[len(data)]}{data}"
    return encoded


def _strategy(record: StrategyRecord) -> str:
    name, version, params, compares_raw_scores, repairs = _STRATEGY
    given = _octets_of(struct_message(record.params)) if record.params else ""
    pieces = [
        name.texts[record.name],
        version.texts[record.version],
        params.sized(given),
        compares_raw_scores[record.compares_raw_scores],
        *[repairs.text(repair) for repair in record.repairs],
    ]
    return "".join(pieces)


def _budget(record: BudgetRecord) -> str:
    max_tokens, preamble, closing, frames, counter, safety_factor, usable_tokens, split = _BUDGET
    return (
        f"{max_tokens[record.max_tokens]}{preamble[record.preamble]}{closing[record.closing]}{frames[record.frames]}"
        f"{counter.texts[record.counter]}{safety_factor.double(record.safety_factor)}"
        f"{usable_tokens[record.usable]}{split.texts[record.split]}"
    )


def _lane(lane: LaneSummary) -> str:
    provider, state, message, scale, offered, admitted, placed, violation = _LANE
    return (
        f"{provider.texts[lane.provider]}{state[lane_state(lane.end)]}{message.texts[lane.message]}"
        f"{'' if lane.scale is None else scale.sized(_scale(lane.scale))}"
        f"{offered[lane.offered]}{admitted[lane.admitted]}{placed[lane.placed]}{violation.texts[lane.violation]}"
    )


def _scale(scale: ScoreScale) -> str:
    scale_id, least, most, direction = _SCALE
    ends = least.double(scale.min) + most.double(scale.max)
    return scale_id.texts[scale.id] + ends + direction[DIRECTION_NUMBERS[scale.direction]]


def _floor(record: FloorRecord) -> str:
    floor = strategy_pb2.Floor(
        provider_id=record.floor.provider, scale_id=record.floor.scale_id, value=record.floor.value
    )
    return _octets_of(pb.FloorRecord(floor=floor, used=record.used, dropped=record.dropped))


def _render(record: RenderRecord) -> str:
    mode, fence, restated_question = _RENDER
    return mode.texts[record.mode] + fence.texts[record.fence] + restated_question[record.restated_question]


def _conflict(conflict: LimitConflict) -> str:
    return _octets_of(
        pb.LimitConflict(limit=conflict.limit, overridden_by=conflict.overridden_by, message=conflict.message)
    )


def _limits(record: LimitsRecord) -> str:
    frames, of_provider, of_source, block_bytes = _LIMITS
    return (
        f"{frames[record.max_frames or 0]}{of_provider[record.max_frames_per_provider or 0]}"
        f"{of_source[record.max_frames_per_source or 0]}{block_bytes[record.max_block_bytes or 0]}"
    )


def _figures(figures: UsageFigures) -> str:
    offered, admitted, placed, tokens_offered, tokens_admitted, tokens_placed = _FIGURES
    return (
        f"{offered[figures.frames_offered]}{admitted[figures.frames_admitted]}{placed[figures.frames_placed]}"
        f"{tokens_offered[figures.tokens_offered]}{tokens_admitted[figures.tokens_admitted]}"
        f"{tokens_placed[figures.tokens_placed]}"
    )


def _octets_of(message: Message) -> str:
    return message.SerializeToString(deterministic=True).decode("latin-1")
