"""Compositions read back from the JSON records of :mod:`broker.cli.encode`; each function is one's inverse.

Fields that are not known are passed over: a later version may add some.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from broker.cli.fields import Fields
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
    RerankOutcome,
    RerankRecord,
    StrategyRecord,
)
from broker.core.composition import AuditState, Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import Frame, FrameRef, Provenance, Relation
from broker.core.lanes import LaneEnd, LaneUpdate
from broker.core.request import Floor
from broker.core.scores import Direction, ScoreScale

_FATES = {"INCLUDED": True, "EXCLUDED": False}
_COLLECTING = "COLLECTING"


def read_composition(placed: Sequence[Placed], audit: Sequence[AuditRow], completed: Fields) -> Composition:
    """A composition from its parts and its ``completed`` record.

    Raises:
        WrongField: A field is missing or of another type.
    """
    usage = completed.part("usage")
    providers = usage.part("providers")
    return Composition(
        placed=tuple(placed),
        citations=tuple(_citation(record) for record in completed.parts("citations")),
        audit=tuple(audit),
        summary=_summary(completed),
        usage=Usage(
            _figures(usage.part("total")), {name: _figures(providers.part(name)) for name in providers.names()}
        ),
        preamble=completed.text("preamble"),
        closing=completed.text("closing"),
        separator=completed.text("separator"),
        composition_id=completed.text("composition_id"),
        request_id=completed.text("request_id"),
        audit_state=completed.member("audit_state", AuditState),
    )


def read_placed(record: Fields) -> Placed:
    """One placed frame."""
    return Placed(
        position=record.count("position"),
        total=record.count("total"),
        provider=record.text("provider"),
        local_rank=record.count("local_rank"),
        rank=record.count("rank"),
        frame=_frame(record.part("frame")),
        rendered=record.text("rendered"),
        cost=record.count("cost"),
        citation_label=record.text("citation_label"),
        vouchers=tuple(_ref(ref) for ref in record.parts("vouchers")),
    )


def read_audit(record: Fields) -> AuditRow:
    """One offered frame."""
    fate = record.text("fate")
    if fate not in _FATES:
        raise record.wrong("fate", f"is {fate[:64]!a}, and may be {', '.join(_FATES)}")
    score = record.optional("score", record.part)
    return AuditRow(
        provider=record.text("provider"),
        frame_id=record.text("frame_id"),
        content_digest=record.text("content_digest"),
        included=_FATES[fate],
        reason=record.text("reason"),
        detail=record.text("detail"),
        lane_place=record.count("lane_place"),
        local_rank=record.count("local_rank"),
        rank=record.count("rank"),
        position=record.count("position"),
        cost=record.count("cost"),
        remaining=record.count("remaining"),
        duplicate_of=_ref(record.part("duplicate_of")) if "duplicate_of" in record else None,
        conflicts=tuple(_ref(ref) for ref in record.parts("conflicts")),
        score=None
        if score is None
        else AuditScore(score.text("provider"), score.text("scale"), score.text("value"), score.text("floor")),
        escaped_characters=record.count("escaped_characters"),
        neutralised_fences=record.count("neutralised_fences"),
        role_tokens=record.count("role_tokens"),
        tokens=record.count("tokens"),
        admitted=record.flag("admitted"),
        recorded_at=record.text("recorded_at"),
        prior_rank=record.optional("prior_rank", record.count) or 0,
        rerank_score=_score_text(record, "rerank_score") if "rerank_score" in record else "",
    )


def read_update(record: Fields) -> LaneUpdate:
    """A lane that changed."""
    end = None if record.text("state") == _COLLECTING else record.member("state", LaneEnd)
    return LaneUpdate(record.text("provider"), end, record.count("frames"), record.text("message"))


def read_floor(record: Fields) -> Floor:
    """A floor."""
    return Floor(record.text("provider"), record.text("scale"), record.number("value"))


def _summary(record: Fields) -> AuditSummary:
    strategy, budget, reasons = record.part("strategy"), record.part("budget"), record.part("reasons")
    rerank, render = record.optional("rerank", record.part), record.part("render")
    return AuditSummary(
        strategy=StrategyRecord(
            name=strategy.text("name"),
            version=strategy.text("version"),
            params=dict(_object(strategy, "params")),
            compares_raw_scores=strategy.flag("compares_raw_scores"),
            repairs=strategy.texts("repairs"),
        ),
        placement=record.text("placement"),
        duplicates=record.text("duplicates"),
        budget=BudgetRecord(
            max_tokens=budget.count("max_tokens"),
            usable=budget.count("usable"),
            preamble=budget.count("preamble"),
            closing=budget.count("closing"),
            frames=budget.count("frames"),
            counter=budget.text("counter"),
            safety_factor=budget.number("safety_factor"),
            split=budget.text("split"),
        ),
        lanes=tuple(_lane(lane) for lane in record.parts("lanes")),
        floors=tuple(
            FloorRecord(read_floor(floor), floor.flag("used"), floor.count("dropped"))
            for floor in record.parts("floors")
        ),
        rows=record.count("rows"),
        reasons={name: reasons.count(name) for name in reasons.names()},
        rerank=None if rerank is None else _rerank(rerank),
        placement_asked=record.text("placement_asked"),
        fold_min_tokens=record.count("fold_min_tokens"),
        render=RenderRecord(
            mode=render.text("mode"), fence=render.text("fence"), restated_question=render.flag("restated_question")
        ),
        limit_conflicts=tuple(
            LimitConflict(*map(conflict.text, ("limit", "overridden_by", "message")))
            for conflict in record.parts("limit_conflicts")
        ),
        limits=_limits(record.part("limits")),
    )


def _limits(record: Fields) -> LimitsRecord:
    return LimitsRecord(
        max_frames=record.optional("max_frames", record.count),
        max_frames_per_provider=record.optional("max_frames_per_provider", record.count),
        max_frames_per_source=record.optional("max_frames_per_source", record.count),
        max_block_bytes=record.optional("max_block_bytes", record.count),
    )


def _lane(record: Fields) -> LaneSummary:
    return LaneSummary(
        provider=record.text("provider"),
        end=record.member("state", LaneEnd),
        message=record.text("message"),
        scale=_scale(record.part("scale")) if "scale" in record else None,
        offered=record.count("offered"),
        admitted=record.count("admitted"),
        placed=record.count("placed"),
        violation=record.text("violation"),
    )


def _scale(record: Fields) -> ScoreScale:
    low, high = record.number("min"), record.number("max")
    if not low < high:
        raise record.wrong("min", f"is {low!r}, and must be below max, {high!r}")
    return ScoreScale(record.text("id"), low, high, record.member("direction", Direction))


def _rerank(record: Fields) -> RerankRecord:
    return RerankRecord(
        name=record.text("name"),
        version=record.text("version"),
        candidates=record.count("candidates"),
        scored=record.count("scored"),
        unscored=record.count("unscored"),
        top_n=record.optional("top_n", record.count),
        min_score=record.optional("min_score", record.number),
        outcome=record.member("outcome", RerankOutcome),
        message=record.text("message"),
    )


def _frame(record: Fields) -> Frame:
    def text(name: str) -> str:
        return record.optional(name, record.text) or ""

    provenance = record.optional("provenance", record.parts) or []
    relations = record.optional("relations", record.parts) or []
    return Frame(
        id=text("id"),
        title=text("title"),
        content=text("content"),
        kind=text("kind"),
        citation_label=text("citation_label"),
        uri=text("uri"),
        provenance=tuple(
            Provenance(*map(step.text, ("type", "uri", "range", "digest", "method", "by"))) for step in provenance
        ),
        relations=tuple(Relation(*map(tie.text, ("rel", "target_uri", "display_name"))) for tie in relations),
        valid_from=text("valid_from"),
        valid_to=text("valid_to"),
        recorded_at=text("recorded_at"),
        token_cost=record.optional("token_cost", record.count),
        content_digest=text("content_digest"),
    )


def _citation(record: Fields) -> Citation:
    ref = FrameRef(record.text("provider"), record.text("frame_id"))
    return Citation(record.text("label"), ref, record.count("position"), record.text("content_digest"))


def _figures(record: Fields) -> UsageFigures:
    return UsageFigures(
        frames_offered=record.count("frames_offered"),
        frames_admitted=record.count("frames_admitted"),
        frames_placed=record.count("frames_placed"),
        tokens_offered=record.count("tokens_offered"),
        tokens_admitted=record.count("tokens_admitted"),
        tokens_placed=record.count("tokens_placed"),
    )


def _score_text(record: Fields, name: str) -> str:
    text = record.text(name)
    try:
        finite = not text or math.isfinite(float(text))
    except ValueError:
        finite = False
    if not finite:
        raise record.wrong(name, f"is not a finite number: {text[:32]!a}")
    return text


def _ref(record: Fields) -> FrameRef:
    return FrameRef(record.text("provider"), record.text("frame_id"))


def _object(record: Fields, name: str) -> dict[str, Any]:
    part = record.part(name)
    return {key: part.raw(key) for key in part.names()}
