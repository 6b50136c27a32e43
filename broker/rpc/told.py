"""What operators are told of each composition: one line of the log, its figures, and its span's particulars."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog
from opentelemetry.trace import get_current_span

from broker.core.composition import Composition
from broker.rpc.observing import Observing
from broker.telemetry.spans import current_trace, note

log = structlog.get_logger("broker.rpc")


def composition_told(
    observing: Observing, composition: Composition, stages: Mapping[str, float], inline: Collection[str]
) -> None:
    """Tells of a composition that was answered; of nothing that was asked or found.

    Args:
        observing: Where it is counted.
        composition: The composition.
        stages: Seconds that each stage took: ``gathering``, ``composing``, ``sending`` and ``recording``.
        inline: Names of the lanes that the caller brought along.
    """
    usage, summary = composition.usage.total, composition.summary
    if current_trace().kept_id:
        note(
            get_current_span(),
            composition_id=composition.composition_id,
            request_id=composition.request_id,
            strategy=summary.strategy.name,
            frames_offered=usage.frames_offered,
            frames_placed=usage.frames_placed,
            tokens=summary.budget.used,
            audit=str(composition.audit_state),
        )
    observing.metrics.composed(composition, stages, inline)
    log.info(
        "composition",
        composition_id=composition.composition_id,
        strategy=summary.strategy.name,
        strategy_repairs=list(summary.strategy.repairs),
        reranker=None if summary.rerank is None else f"{summary.rerank.name} {summary.rerank.outcome}",
        lanes={lane.provider: str(lane.end) for lane in summary.lanes},
        frames_offered=usage.frames_offered,
        frames_placed=usage.frames_placed,
        tokens=summary.budget.used,
        audit=str(composition.audit_state),
        **{f"{stage}_ms": round(seconds * 1000, 1) for stage, seconds in stages.items()},
    )
