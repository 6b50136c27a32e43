"""Entries made again from an audit: what :mod:`broker.core.replay` hands to the stages a second time.

A row says of its frame everything that the stages after intake look at, except what only the frame itself says: its
content and provenance, and its score where the request did not ask for scores.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from broker.core.audited import AuditRow, Reason, StrategyRecord
from broker.core.composition import Composition
from broker.core.entries import Entry
from broker.core.frames import Frame, FrameRef
from broker.core.lanes import Candidate
from broker.core.render.renderer import Block
from broker.core.request import CompositionRequest
from broker.core.scores import Direction, LocalScore, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)

NOT_CHECKED = frozenset({Reason.INVALID, Reason.LANE_REFUSED, Reason.LANE_PARTIAL})
"""Reasons of frames that no floor was held against."""

NOT_ADMITTED = NOT_CHECKED | {Reason.BELOW_FLOOR, Reason.OUTSIDE_VALIDITY, Reason.PUSH_TRIMMED}
"""Reasons of frames that were never weighed against any other."""

RERANK_REASONS = frozenset({Reason.BELOW_RERANK_SCORE, Reason.RERANK_TRIMMED})
"""Reasons of frames that a reranker dropped."""

OVERSIZED = 1
"""Bytes given to blocks that were too large; every other block gets none. The audit says which, and not their sizes."""


class Contradiction(ValueError):
    """A composition that contradicts itself, so that nothing can be made of it again."""


class Rebuilt(Struct, frozen=True, gc=False):
    """A row, and a fresh entry of its frame that no stage has seen."""

    row: AuditRow
    entry: Entry

    @property
    def ref(self) -> FrameRef:
        """The frame's name."""
        return FrameRef(self.row.provider, self.row.frame_id)

    @property
    def shown(self) -> str:
        """The frame's name, for people."""
        return f"{self.row.provider}/{self.row.frame_id}"


def rebuilt_lanes(composition: Composition) -> list[list[Rebuilt]]:
    """Each lane's rows with fresh entries, in lane order, then as the audit has them.

    Raises:
        Contradiction: A row's provider has no lane, or two lanes have one provider.
    """
    lanes: dict[str, list[Rebuilt]] = {lane.provider: [] for lane in composition.summary.lanes}
    if len(lanes) < len(composition.summary.lanes):
        raise Contradiction("two lanes have one provider")
    scales = {lane.provider: lane.scale for lane in composition.summary.lanes}
    order = {provider: index for index, provider in enumerate(lanes)}
    for row in composition.audit:
        if row.provider not in lanes:
            raise Contradiction(f"a row is of {row.provider!r}, which has no lane")
        lane = lanes[row.provider]
        lane.append(Rebuilt(row, _entry(row, scales[row.provider], order[row.provider], len(lane))))
    return list(lanes.values())


def with_scores(rebuilt: Sequence[Rebuilt], composition: Composition) -> bool:
    """Whether every frame of these that had a score has it in its row."""
    unscored = {
        lane.provider
        for lane in composition.summary.lanes
        if lane.scale is not None and lane.scale.direction is Direction.AS_SENT
    }
    return all(one.entry.candidate.score is not None or one.row.provider in unscored for one in rebuilt)


def ranked_as_recorded(lanes: Sequence[Sequence[Rebuilt]]) -> list[Rebuilt]:
    """The frames that stand for evidence, with their copies as the audit names them, in lane order.

    Raises:
        Contradiction: A row's ``duplicate_of`` names no kept frame.
    """
    every = [one for lane in lanes for one in lane]
    kept = [one for one in every if one.row.local_rank]
    by_ref = {one.ref: one for one in kept}
    for one in every:
        one.entry.lane_place, one.entry.local_rank = one.row.lane_place, one.row.local_rank
    others: defaultdict[FrameRef, list[Entry]] = defaultdict(list)
    for one in every:
        if one.row.duplicate_of is not None:
            if one.row.duplicate_of not in by_ref:
                name = f"{one.row.duplicate_of.provider}/{one.row.duplicate_of.frame_id}"
                raise Contradiction(f"{one.row.frame_id!r} is a copy of {name!r}, which was not kept")
            others[one.row.duplicate_of].append(one.entry)
    for ref, joined in others.items():
        by_ref[ref].entry.others = joined
    return kept


def before_rerank(row: AuditRow) -> int:
    """A row's rank by the strategy: before a reranker, where one was applied."""
    return row.prior_rank or row.rank


def recorded_strategy(
    record: StrategyRecord, request: CompositionRequest | None, kept: Sequence[Rebuilt]
) -> tuple[Strategy | None, str]:
    """The policy that an audit names, and what is not known of it.

    Args:
        record: The audit's.
        request: What was asked, where it is known: it holds the ids of a ``precomputed`` order.
        kept: The ranked frames.

    Returns:
        None for a policy that is not built in.

    Raises:
        Contradiction: Its parameters are not such a policy's.
    """
    params = record.params
    try:
        match record.name:
            case "round_robin":
                return RoundRobin(), ""
            case "per_provider_quota":
                return PerProviderQuota(_whole(params["k"], 1)), ""
            case "trust_weighted":
                return TrustWeighted(_weights(params["weights"]), _weight(params["default_weight"])), ""
            case "reciprocal_rank_fusion":
                weights, default = _weights(params["weights"]), _weight(params["default_weight"])
                return ReciprocalRankFusion(_whole(params["k"], 0), weights, default), ""
            case "precomputed":
                if request is not None and isinstance(request.strategy, Precomputed):
                    return request.strategy, ""
                return _as_named(_whole(params["named"], 0), kept)
            case "score_descending":
                return ScoreDescending(), ""
    except (KeyError, TypeError, ValueError) as error:
        raise Contradiction(f"the parameters do not belong to {record.name}: {error}") from None
    return None, ""


def _as_named(named: int, kept: Sequence[Rebuilt]) -> tuple[Strategy, str]:
    order = sorted(kept, key=lambda one: before_rerank(one.row))[:named]
    ids = tuple((one.row.provider, one.row.frame_id) for one in order)
    return Precomputed(ids), f"the caller's own order is not in the document: ranks 1 to {named} are taken as they are"


def _entry(row: AuditRow, scale: ScoreScale | None, lane_order: int, sequence: int) -> Entry:
    candidate = Candidate(
        row.provider, Frame(row.frame_id, "", ""), row.content_digest, _score(row, scale), sequence, tokens=0
    )
    size = OVERSIZED if row.reason == Reason.BLOCK_TOO_LARGE else 0
    return Entry(candidate, lane_order, block=Block(size, row.cost))


def _score(row: AuditRow, scale: ScoreScale | None) -> LocalScore | None:
    if row.score is None or scale is None or row.reason in (Reason.INVALID, Reason.LANE_REFUSED):
        return None
    try:
        value = float(row.score.value)
    except ValueError:
        raise Contradiction(f"the score of {row.frame_id!r} is not a number") from None
    if not math.isfinite(value):
        raise Contradiction(f"the score of {row.frame_id!r} is not finite")
    return LocalScore(row.provider, scale, value)


def _weights(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError("weights are not an object")
    return {str(name): _weight(weight) for name, weight in value.items()}


def _weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is not a weight")
    return float(value)


def _whole(value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
        raise ValueError(f"{value!r} is not a whole number from {least}")
    return int(value)
