"""The audit: one row for every frame offered, the summaries, and what it all took.

A row is written from what the stages left in an entry, or from a slip. Rows and figures are each counted from entries
and slips and never from one another, so that they can be held against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from broker import __version__
from broker.core.audited import INCLUDED, AuditRow, AuditScore, FloorRecord, LaneSummary, Reason, StrategyRecord
from broker.core.composition import Usage, UsageFigures
from broker.core.entries import Entry
from broker.core.handles import RankingPlugin
from broker.core.lanes import Candidate, Lane, LaneEnd, Slip
from broker.core.plugins import filled
from broker.core.render.renderer import Block
from broker.core.request import Floor
from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    Strategy,
    TrustWeighted,
    info_of,
)

_NOT_ADMITTED = frozenset(
    {Reason.LANE_REFUSED, Reason.LANE_PARTIAL, Reason.BELOW_FLOOR, Reason.OUTSIDE_VALIDITY, Reason.PUSH_TRIMMED},
)
"""Reasons of checked frames that were never weighed against any other."""

_NO_BLOCK = Block(size=0, cost=0)
"""What is said of the block of a frame that was not rendered."""


def rows_of(
    lane: Lane, entries: Sequence[Entry], floors: Mapping[str, Floor], *, include_scores: bool
) -> list[AuditRow]:
    """A lane's rows: its checked frames best first, then its slips by id, digest and reason."""
    floor = floors.get(lane.provider)
    rows = _entry_rows(entries, floor, include_scores)
    if lane.slips:
        rows += [_slip_row(lane, slip, floor, include_scores) for slip in sorted(lane.slips, key=_slip_key)]
    return rows


def lane_summary(lane: Lane, figures: UsageFigures) -> LaneSummary:
    """How a lane ended, and how far its frames came."""
    return LaneSummary(
        provider=lane.provider,
        end=lane.end,
        message=lane.message,
        scale=lane.scale,
        offered=figures.frames_offered,
        admitted=figures.frames_admitted,
        placed=figures.frames_placed,
        violation=lane.lie.reason if lane.lie is not None else "",
    )


def reasons_of(rows: Sequence[AuditRow]) -> dict[str, int]:
    """Frames by exclusion reason, placed ones under ``INCLUDED``; sorted by name."""
    return dict(sorted(Counter([INCLUDED if row.included else row.reason for row in rows]).items()))


def floor_records(floors: Sequence[Floor], lanes: Sequence[Lane], rows: Sequence[AuditRow]) -> tuple[FloorRecord, ...]:
    """What each floor did. It was used where its provider was asked, or sent its lane along."""
    if not floors:
        return ()
    asked = {lane.provider for lane in lanes if lane.end not in (LaneEnd.ABSENT, LaneEnd.QUARANTINED)}
    dropped = Counter(row.provider for row in rows if row.reason == Reason.BELOW_FLOOR)
    return tuple(FloorRecord(floor, floor.provider in asked, dropped[floor.provider]) for floor in floors)


def usage_of(lanes: Sequence[Lane], entries: Sequence[Sequence[Entry]]) -> Usage:
    """What each lane offered, had admitted and had placed, and the sums."""
    providers = {lane.provider: _figures(lane, own) for lane, own in zip(lanes, entries, strict=True)}
    own = list(providers.values())
    total = UsageFigures(
        frames_offered=sum([figures.frames_offered for figures in own]),
        frames_admitted=sum([figures.frames_admitted for figures in own]),
        frames_placed=sum([figures.frames_placed for figures in own]),
        tokens_offered=sum([figures.tokens_offered for figures in own]),
        tokens_admitted=sum([figures.tokens_admitted for figures in own]),
        tokens_placed=sum([figures.tokens_placed for figures in own]),
    )
    return Usage(total, providers)


def strategy_record(
    strategy: Strategy, plugins: Mapping[str, RankingPlugin], named: int, repairs: tuple[str, ...]
) -> StrategyRecord:
    """The policy as it ran.

    Args:
        strategy: The policy.
        plugins: The operator's.
        named: Frames here that a ``precomputed`` order named. Its ids are not repeated: the rows ranked 1 to ``named``
            are the order as it applied, and those of ``prior_rank`` 1 to ``named`` where a reranker followed.
        repairs: What had to be repaired in the order that it gave.
    """
    if isinstance(strategy, PluginStrategy):
        plugin = plugins[strategy.name]
        return StrategyRecord(
            name=plugin.name,
            version=plugin.version,
            params=filled(plugin, strategy.params),
            compares_raw_scores=False,
            repairs=repairs,
        )
    info = info_of(strategy)
    return StrategyRecord(
        name=info.name,
        version=__version__,
        params=_params(strategy, named),
        compares_raw_scores=info.compares_raw_scores,
        repairs=repairs,
    )


def _params(strategy: Strategy, named: int) -> dict[str, object]:
    match strategy:
        case PerProviderQuota(k):
            return {"k": k}
        case TrustWeighted(weights, default_weight):
            return {"weights": dict(sorted(weights.items())), "default_weight": default_weight}
        case ReciprocalRankFusion(k, weights, default_weight):
            return {"k": k, "weights": dict(sorted(weights.items())), "default_weight": default_weight}
        case Precomputed(ids, name):
            return {"name": name, "ids": len(ids), "named": named}
        case _:
            return {}


def _entry_rows(entries: Sequence[Entry], floor: Floor | None, include_scores: bool) -> list[AuditRow]:
    rows = []
    for entry in entries:
        candidate, block, reason = entry.candidate, entry.block or _NO_BLOCK, entry.reason
        conflicts, rerank_score = entry.conflicts, entry.rerank_score
        # In the order of its attributes: by name so many arguments take seven times as long.
        rows.append(
            AuditRow(
                candidate.provider,
                candidate.frame.id,
                candidate.digest,
                entry.position > 0,
                reason,
                entry.detail,
                entry.lane_place,
                entry.local_rank,
                entry.rank,
                entry.position,
                block.cost,
                entry.remaining,
                entry.duplicate_of,
                conflicts,
                _score(candidate, floor) if include_scores else None,
                block.escaped_characters,
                block.neutralised_fences,
                entry.prior_rank,
                "" if rerank_score is None else format(rerank_score, ".17g"),
                block.role_tokens,
                candidate.tokens,
                reason not in _NOT_ADMITTED,
                candidate.frame.recorded_at if conflicts else "",
            )
        )
    return rows


def _score(candidate: Candidate, floor: Floor | None) -> AuditScore | None:
    if candidate.score is None:
        return None
    shown = candidate.score.shown()
    return AuditScore(shown.provider, shown.scale_id, shown.value, _shown_floor(floor))


def _slip_row(lane: Lane, slip: Slip, floor: Floor | None, include_scores: bool) -> AuditRow:
    score = None
    if include_scores and slip.shown_score is not None and lane.scale is not None:
        score = AuditScore(lane.provider, lane.scale.id, slip.shown_score, _shown_floor(floor))
    reason, detail = Reason.INVALID, f"{slip.reason}: {slip.detail}"
    if lane.lie is not None:
        reason, detail = Reason.LANE_REFUSED, refused_detail(lane)
    return AuditRow(
        provider=lane.provider,
        frame_id=slip.frame_id,
        content_digest=slip.digest,
        included=False,
        reason=reason,
        detail=detail,
        score=score,
        tokens=slip.tokens,
    )


def refused_detail(lane: Lane) -> str:
    """Why a lane was refused, as the row of each of its frames says it."""
    assert lane.lie is not None
    return lane.lie.told


def _shown_floor(floor: Floor | None) -> str:
    return format(floor.value, ".17g") if floor is not None else ""


def _slip_key(slip: Slip) -> tuple[str, str, str, str, int, str]:
    return slip.frame_id, slip.digest, slip.reason, slip.detail, slip.tokens, slip.shown_score or ""


def _figures(lane: Lane, entries: Sequence[Entry]) -> UsageFigures:
    offered = sum([slip.tokens for slip in lane.slips]) if lane.slips else 0
    admitted = placed = tokens_admitted = tokens_placed = 0
    for entry in entries:
        tokens = entry.candidate.tokens
        offered += tokens
        if entry.reason not in _NOT_ADMITTED:
            admitted += 1
            tokens_admitted += tokens
        if entry.position and entry.block is not None:
            placed += 1
            tokens_placed += entry.block.cost
    return UsageFigures(
        frames_offered=lane.offered,
        frames_admitted=admitted,
        frames_placed=placed,
        tokens_offered=offered,
        tokens_admitted=tokens_admitted,
        tokens_placed=tokens_placed,
    )
