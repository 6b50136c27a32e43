"""Compositions and their parts as JSON records, one to a line. These field names are stable.

Every record of a stream names its ``event``. Infinite ends of scales are the strings ``Infinity`` and ``-Infinity``.
A score stands in an ``audit`` record that was asked for, as {provider, scale, value, floor}, and in no other place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from broker.core.audited import AuditRow, AuditSummary, LaneSummary, RerankRecord
from broker.core.composition import Composition, Placed, UsageFigures
from broker.core.frames import Frame, FrameRef
from broker.core.scores import ScoreScale

if TYPE_CHECKING:
    from broker.client import Accepted, LaneUpdate, ListedProvider, ListedStrategy

Record = dict[str, Any]


def composition_records(composition: Composition) -> Iterator[Record]:
    """A whole composition: ``placed`` records in prompt order, ``audit`` records, one ``completed``."""
    for placed in composition.placed:
        yield placed_record(placed)
    for row in composition.audit:
        yield audit_record(row)
    yield completed_record(composition)


def accepted_record(accepted: Accepted) -> Record:
    """The lanes that were opened: ``event: accepted``."""
    return {
        "event": "accepted",
        "composition_id": accepted.composition_id,
        "request_id": accepted.request_id,
        "lanes": [
            {
                "provider": lane.provider,
                "source": lane.source.value,
                "max_frames": lane.max_frames,
                "max_tokens": lane.max_tokens,
            }
            for lane in accepted.lanes
        ],
    }


def update_record(update: LaneUpdate) -> Record:
    """A lane that changed: ``event: lane``."""
    return {
        "event": "lane",
        "provider": update.provider,
        "state": update.state,
        "frames": update.frames,
        "message": update.message,
    }


def provider_record(provider: ListedProvider) -> Record:
    """One provider of a list; times are ISO 8601 in UTC, None: never."""
    return {
        "provider": provider.provider,
        "kinds": list(provider.kinds),
        "scale": scale_record(provider.scale),
        "quarantined_seconds": provider.quarantined_seconds,
        "circuit_open_seconds": provider.circuit_open_seconds,
        "last_seen": moment(provider.last_seen),
        "instances": [
            {
                "instance": instance.instance,
                "session": instance.session,
                "version": instance.version,
                "in_flight": instance.in_flight,
                "max_in_flight": instance.max_in_flight,
                "last_seen": moment(instance.last_seen),
            }
            for instance in provider.instances
        ],
    }


def strategy_record(strategy: ListedStrategy) -> Record:
    """One policy of a list."""
    return {
        "name": strategy.name,
        "version": strategy.version,
        "description": strategy.description,
        "compares_raw_scores": strategy.compares_raw_scores,
        "default": strategy.default,
        "allowed": strategy.allowed,
        "default_params": dict(strategy.default_params),
        "parameters": [asdict(parameter) for parameter in strategy.parameters],
    }


def moment(seconds: float | None) -> str | None:
    """Seconds since the epoch as ``YYYY-MM-DDTHH:MM:SSZ``."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def placed_record(placed: Placed) -> Record:
    """One placed frame: ``event: placed``."""
    return {
        "event": "placed",
        "position": placed.position,
        "total": placed.total,
        "rank": placed.rank,
        "provider": placed.provider,
        "local_rank": placed.local_rank,
        "cost": placed.cost,
        "citation_label": placed.citation_label,
        "vouchers": [ref_record(ref) for ref in placed.vouchers],
        "frame": frame_record(placed.frame),
        "rendered": placed.rendered,
    }


def audit_record(row: AuditRow) -> Record:
    """One offered frame: ``event: audit``.

    ``score`` only where the request asked for scores; ``prior_rank`` and ``rerank_score`` only where a reranker was
    applied.
    """
    record: Record = {
        "event": "audit",
        "provider": row.provider,
        "frame_id": row.frame_id,
        "content_digest": row.content_digest,
        "fate": "INCLUDED" if row.included else "EXCLUDED",
        "reason": row.reason,
        "detail": row.detail,
        "lane_place": row.lane_place,
        "local_rank": row.local_rank,
        "rank": row.rank,
        "position": row.position,
        "cost": row.cost,
        "remaining": row.remaining,
        "duplicate_of": ref_record(row.duplicate_of) if row.duplicate_of else None,
        "conflicts": [ref_record(ref) for ref in row.conflicts],
        "escaped_characters": row.escaped_characters,
        "neutralised_fences": row.neutralised_fences,
        "role_tokens": row.role_tokens,
        "tokens": row.tokens,
        "admitted": row.admitted,
        "recorded_at": row.recorded_at,
    }
    if row.score is not None:
        record["score"] = {
            "provider": row.score.provider,
            "scale": row.score.scale_id,
            "value": row.score.value,
            "floor": row.score.floor,
        }
    if row.prior_rank or row.rerank_score:
        record |= {"prior_rank": row.prior_rank, "rerank_score": row.rerank_score}
    return record


def completed_record(composition: Composition) -> Record:
    """The end of a composition: ``event: completed``, with the audit's summary, usage, citations and outer texts."""
    return {
        "event": "completed",
        "composition_id": composition.composition_id,
        "request_id": composition.request_id,
        "audit_state": composition.audit_state.value,
        **summary_record(composition.summary),
        "usage": {
            "total": usage_record(composition.usage.total),
            "providers": {name: usage_record(figures) for name, figures in composition.usage.providers.items()},
        },
        "citations": [
            {
                "label": citation.label,
                "provider": citation.frame.provider,
                "frame_id": citation.frame.frame_id,
                "position": citation.position,
                "content_digest": citation.content_digest,
            }
            for citation in composition.citations
        ],
        "preamble": composition.preamble,
        "closing": composition.closing,
        "separator": composition.separator,
    }


def summary_record(summary: AuditSummary) -> Record:
    """An audit's summary, without an event of its own."""
    budget = summary.budget
    return {
        "strategy": {
            "name": summary.strategy.name,
            "version": summary.strategy.version,
            "params": _plain(summary.strategy.params),
            "compares_raw_scores": summary.strategy.compares_raw_scores,
            "repairs": list(summary.strategy.repairs),
        },
        "placement": summary.placement,
        "placement_asked": summary.placement_asked,
        "fold_min_tokens": summary.fold_min_tokens,
        "render": asdict(summary.render),
        "duplicates": summary.duplicates,
        "budget": {
            "max_tokens": budget.max_tokens,
            "safety_factor": budget.safety_factor,
            "usable": budget.usable,
            "used": budget.used,
            "preamble": budget.preamble,
            "frames": budget.frames,
            "closing": budget.closing,
            "counter": budget.counter,
            "split": budget.split,
        },
        "limits": asdict(summary.limits),
        "limit_conflicts": [asdict(conflict) for conflict in summary.limit_conflicts],
        "lanes": [lane_record(lane) for lane in summary.lanes],
        "floors": [
            {
                "provider": record.floor.provider,
                "scale": record.floor.scale_id,
                "value": record.floor.value,
                "used": record.used,
                "dropped": record.dropped,
            }
            for record in summary.floors
        ],
        "rows": summary.rows,
        "reasons": dict(summary.reasons),
        "rerank": None if summary.rerank is None else rerank_record(summary.rerank),
    }


def rerank_record(rerank: RerankRecord) -> Record:
    """A second ranking as it ran."""
    return {**asdict(rerank), "outcome": rerank.outcome.value}


def lane_record(lane: LaneSummary) -> Record:
    """How one lane ended, without an event of its own."""
    return {
        "provider": lane.provider,
        "state": lane.end.value,
        "message": lane.message,
        "violation": lane.violation,
        "scale": scale_record(lane.scale),
        "offered": lane.offered,
        "admitted": lane.admitted,
        "placed": lane.placed,
    }


def frame_record(frame: Frame) -> Record:
    """A frame in the shape in which ``push`` and ``query --inline`` read it: empty fields left out, and its score."""
    record = {name: value for name, value in asdict(frame).items() if name != "score" and value not in ("", None, ())}
    parts = {name: [asdict(part) for part in record[name]] for name in ("provenance", "relations") if name in record}
    return record | parts


def scale_record(scale: ScoreScale | None) -> Record | None:
    """A scale; None where it is not known."""
    if scale is None:
        return None
    return {"id": scale.id, "min": _end(scale.min), "max": _end(scale.max), "direction": scale.direction.value}


def ref_record(ref: FrameRef) -> Record:
    """The name of a frame."""
    return {"provider": ref.provider, "frame_id": ref.frame_id}


def usage_record(figures: UsageFigures) -> Record:
    """Frames and tokens."""
    return asdict(figures)


def _plain(value: Any) -> Any:
    """A JSON-like value with mappings as dicts and sequences as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _end(value: float) -> float | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
