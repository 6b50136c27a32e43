"""What a composition left out, by reason and frame by frame."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from broker.cli.output import Cell, Column, Style, table
from broker.cli.text import clean, plural
from broker.cli.tints import tints
from broker.cli.why import number, numbers_apart
from broker.core.audited import AuditRow, Reason
from broker.core.composition import Composition
from broker.core.lanes import LaneEnd

LEFT_OUT_ROWS = 12
"""Excluded frames listed one by one where not all were asked for."""

_MEANINGS: Mapping[str, str] = {
    Reason.INVALID: "broke a rule of frames",
    Reason.LANE_REFUSED: "its provider lied in this request",
    Reason.LANE_PARTIAL: "its lane was cut short, and such lanes were to be dropped",
    Reason.BELOW_FLOOR: "below its own provider's floor",
    Reason.PUSH_TRIMMED: "pushed beyond what its lane was granted",
    Reason.OUTSIDE_VALIDITY: "not valid at the moment asked for",
    Reason.DUPLICATE: "another frame stands for the same evidence",
    Reason.BELOW_RERANK_SCORE: "below the least score asked of the reranker",
    Reason.RERANK_TRIMMED: "not among those that the reranker was to keep",
    Reason.PROVIDER_FRAME_LIMIT: "past the number of frames allowed to one provider",
    Reason.SOURCE_FRAME_LIMIT: "its source had its share, and then there was no room",
    Reason.FRAME_LIMIT: "past the number of frames allowed",
    Reason.OVER_BUDGET: "cost more than was left of the budget",
    Reason.BLOCK_TOO_LARGE: "larger than the operator allows",
}


def meaning_of(reason: str) -> str:
    """A reason in plain words; empty where it is none that this version knows."""
    return _MEANINGS.get(reason, "")


def left_out_lines(composition: Composition, style: Style, *, rows: int | None = LEFT_OUT_ROWS) -> Iterator[str]:
    """What was left out: reasons with their counts by provider, then frame by frame."""
    excluded = [row for row in composition.audit if not row.included]
    silent = [lane for lane in composition.summary.lanes if not lane.end.answered and not lane.offered]
    for lane in silent:
        yield f"  {lane.provider}: {_SILENT.get(lane.end, 'gave nothing')}"
    if not excluded:
        yield "  no frame that was offered was left out"
        return
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in excluded:
        counts[row.reason][row.provider] += 1
    summary: list[list[str | Cell]] = [
        [
            reason,
            f"{by.total():,}",
            ", ".join(f"{provider} {count:,}" for provider, count in by.items()),
            meaning_of(reason),
        ]
        for reason, by in counts.items()
    ]
    meaning = Column("meaning", gives=2, least=24, wraps=True)
    titles = [Column("reason"), Column("frames", right=True), Column("of", gives=1), meaning]
    yield from table(titles, summary, style)
    yield ""
    excluded.sort(key=lambda row: (row.rank or math.inf, row.provider))
    shown = excluded[:rows]
    colours = tints(composition)
    listing: list[list[str | Cell]] = [
        [
            str(row.rank or ""),
            Cell(row.provider, colours.get(row.provider, "")),
            clean(row.frame_id) or "(no id)",
            row.reason,
            particulars(row),
        ]
        for row in shown
    ]
    yield from table(
        [Column("rank", right=True), Column("provider"), Column("frame", gives=2, least=20), Column("reason"),
         Column("particulars", gives=1)],
        listing,
        style,
    )  # fmt: skip
    rest = len(excluded) - len(shown)
    if rest:
        yield f"  {style.glyphs.ellipsis} and {plural(rest, 'more frame')} (query --all lists every one)"


_SILENT: Mapping[LaneEnd, str] = {
    LaneEnd.TIMED_OUT: "sent nothing in time",
    LaneEnd.FAILED: "could not answer",
    LaneEnd.LOST: "was lost before it sent anything",
    LaneEnd.QUARANTINED: "sits out, for an earlier lie or by the operator's word, and was not asked",
    LaneEnd.ABSENT: "is not attached and was not asked",
}


def particulars(row: AuditRow) -> str:
    """What is to be said of one frame beside the reason that it was left out for; cleaned."""
    if row.reason == Reason.OVER_BUDGET:
        return f"costs {row.cost:,}, {row.remaining:,} were left"
    if row.duplicate_of is not None:
        return f"of {row.duplicate_of.provider} {clean(row.duplicate_of.frame_id)}"
    if row.rerank_score and row.reason in (Reason.BELOW_RERANK_SCORE, Reason.RERANK_TRIMMED):
        return f"reranked {number(float(row.rerank_score))}, was rank {row.prior_rank}"
    if row.reason == Reason.BELOW_FLOOR and row.score is not None and row.detail == f"on scale {row.score.scale_id!r}":
        score, floor = numbers_apart(float(row.score.value), float(row.score.floor))
        return f"{clean(row.score.scale_id)} {score}, floor {floor}"
    return clean(row.detail)
