"""Replay: making a composition again from what it says of itself, and saying whether the two agree.

The audit is enough to work out the order again; this is the proof. Each stage runs a second time on entries made from
the audit's rows (:mod:`broker.core.rebuilding`), and the blocks of the placed frames are rendered again. What a
composition does not hold cannot be worked out again, and each check says what that is:

* the content of frames that were left out, and so their tokens, and which of them name one source;
* scores, unless the request asked for them: without them neither floors nor ``score_descending`` can run;
* what a plugin or a reranker thought: a reranker's scores stand in the rows, a plugin's order is its own;
* the seal key: a block is compared but for its seal, which must be the same for equal content alone;
* what was placed, where a store kept the audit and no content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from broker.core.audited import Reason, RerankOutcome, RerankRecord
from broker.core.checks import Check, checked
from broker.core.composition import Composition
from broker.core.duplicates import join_duplicates
from broker.core.floors import passes
from broker.core.ranking import rank
from broker.core.rebuilding import (
    NOT_ADMITTED,
    NOT_CHECKED,
    RERANK_REASONS,
    Contradiction,
    Rebuilt,
    before_rerank,
    ranked_as_recorded,
    rebuilt_lanes,
    recorded_strategy,
    with_scores,
)
from broker.core.recounting import recounts
from broker.core.repacking import packing_again, packing_without_content, placement_again
from broker.core.request import CompositionRequest, Duplicates, Rerank
from broker.core.rerank import Reranked, rerank
from broker.core.score_descending import by_raw_score, raw_order
from broker.core.scores import lane_key
from broker.core.strategies import ScoreDescending

_NO_SCORES = "the document holds no scores"


_Stage = Callable[[Composition, CompositionRequest | None], Check]


def replay(
    composition: Composition, request: CompositionRequest | None = None, *, content: bool = True
) -> tuple[Check, ...]:
    """Works out again what can be, stage by stage, each from what the composition says of the stages before it.

    Args:
        composition: As it was answered.
        request: What was asked, where that is known; its strategy is read for a ``precomputed`` order alone.
        content: Whether the placed frames have their content, and the prompt its texts; see :mod:`broker.core.outline`.

    Returns:
        A check for every stage, in the order of composition.
    """
    stages: tuple[tuple[str, _Stage], ...] = (
        ("lane_order", _lane_order),
        ("floors", _floors),
        ("duplicates", _duplicates),
        ("ranking", _ranking),
        ("rerank", _rerank),
        ("packing", packing_again if content else packing_without_content),
        ("placement", placement_again),
    )
    ran = (_ran(name, stage, composition, request) for name, stage in stages)
    return (*ran, *recounts(composition, request, content=content))


def _ran(name: str, stage: _Stage, composition: Composition, request: CompositionRequest | None) -> Check:
    try:
        return replace(stage(composition, request), name=name)
    except Contradiction as error:
        return checked(name, "the document contradicts itself", [str(error)])


def _lane_order(composition: Composition, _request: CompositionRequest | None) -> Check:
    told = "each lane's frames, by score, then id"
    lanes = [[one for one in lane if one.row.reason not in NOT_CHECKED] for lane in rebuilt_lanes(composition)]
    scored = [lane for lane in lanes if any(one.entry.candidate.score is not None for one in lane)]
    every = [one for lane in lanes for one in lane]
    if not with_scores(every, composition):
        return checked("", told, None, f"{_NO_SCORES}: the rows' order is taken as it is")
    return checked("", told, (text for lane in scored for text in _out_of_order(lane)))


def _out_of_order(lane: list[Rebuilt]) -> Iterator[str]:
    for one, following in pairwise(lane):
        if _lane_key(one) > _lane_key(following):
            yield f"{following.shown} stands behind {one.shown}, and is better"


def _lane_key(one: Rebuilt) -> tuple[float, str]:
    score = one.entry.candidate.score
    return (0.0 if score is None else lane_key(score, one.row.provider)), one.row.frame_id


def _floors(composition: Composition, _request: CompositionRequest | None) -> Check:
    told = "which frames their own provider's floor drops"
    floors = {record.floor.provider: record.floor for record in composition.summary.floors}
    held = [
        one
        for lane in rebuilt_lanes(composition)
        for one in lane
        if one.row.reason not in NOT_CHECKED and one.row.provider in floors
    ]
    unfounded = [
        f"{row.provider}/{row.frame_id} is below a floor that its provider does not have"
        for row in composition.audit
        if row.reason == Reason.BELOW_FLOOR and row.provider not in floors
    ]
    if not with_scores(held, composition):
        return checked("", told, unfounded or None, _NO_SCORES)
    differences = [
        f"{one.shown} {'is above' if above else 'is below'} its floor"
        for one in held
        if (score := one.entry.candidate.score) is not None
        and (above := passes(score, floors[one.row.provider])) == (one.row.reason == Reason.BELOW_FLOOR)
    ]
    return checked("", told, unfounded + differences)


def _duplicates(composition: Composition, _request: CompositionRequest | None) -> Check:
    told = "which copy stands for each piece of evidence, lane places and local ranks, from the digests"
    lanes = [[one for one in lane if one.row.reason not in NOT_ADMITTED] for lane in rebuilt_lanes(composition)]
    by_score = composition.summary.strategy.name == "score_descending"
    if composition.summary.duplicates != Duplicates.SAME_BYTES.value:
        limits = "the sources of frames left out are not in the document: equal bytes alone were compared"
        return checked("", told, _equal_bytes(lanes), limits)
    if by_score and not with_scores([one for lane in lanes for one in lane], composition):
        return checked("", told, _equal_bytes(lanes), f"{_NO_SCORES}: which of equal bytes is kept is taken as it is")
    join_duplicates(
        [[one.entry for one in lane] for lane in lanes], Duplicates.SAME_BYTES, by_raw_score if by_score else None
    )
    return checked("", told, (text for lane in lanes for one in lane for text in _joined_otherwise(one)))


def _joined_otherwise(one: Rebuilt) -> Iterator[str]:
    row, entry = one.row, one.entry
    kept = entry.duplicate_of
    found = (kept, entry.lane_place, entry.local_rank)
    if found != (row.duplicate_of, row.lane_place, row.local_rank):
        stands = f"copy of {kept.provider}/{kept.frame_id}" if kept is not None else f"local rank {entry.local_rank}"
        yield f"{one.shown}: {stands}, lane place {entry.lane_place}"


def _equal_bytes(lanes: list[list[Rebuilt]]) -> Iterator[str]:
    kept: dict[str, Rebuilt] = {}
    every = [one for lane in lanes for one in lane]
    for one in every:
        if one.row.duplicate_of is None:
            other = kept.setdefault(one.row.content_digest, one)
            if other is not one:
                yield f"{other.shown} and {one.shown} are both kept and have one digest"
    digests = {one.ref: one.row.content_digest for one in every}
    for one in every:
        of = one.row.duplicate_of
        if of is not None and one.row.detail == "same bytes" and digests.get(of) != one.row.content_digest:
            yield f"{one.shown} and {of.provider}/{of.frame_id} do not have one digest"


def _ranking(composition: Composition, request: CompositionRequest | None) -> Check:
    record = composition.summary.strategy
    told = f"{record.name}'s order of all lanes, from local ranks, lane places and copies"
    kept = ranked_as_recorded(rebuilt_lanes(composition))
    kept.sort(key=lambda one: (one.entry.lane_order, one.entry.local_rank))
    strategy, limits = recorded_strategy(record, request, kept)
    if strategy is None:
        return checked("", told, None, f"{record.name} is a plugin: its order is its own")
    entries = [one.entry for one in kept]
    if isinstance(strategy, ScoreDescending):
        if not with_scores(kept, composition):
            return checked("", told, None, f"{_NO_SCORES}, which this policy orders by")
        order = raw_order(entries)
    else:
        order = rank(strategy, entries)
    differences = (
        f"{kept[index].shown} has rank {before_rerank(kept[index].row)}, and comes at {number}"
        for number, index in enumerate(order, 1)
        if before_rerank(kept[index].row) != number
    )
    return checked("", told, differences, limits)


def _rerank(composition: Composition, _request: CompositionRequest | None) -> Check:
    record = composition.summary.rerank
    if record is None:
        told = "that no reranker moved or dropped a frame"
        moved = (
            f"{row.provider}/{row.frame_id} bears the mark of a reranker, and none was asked for"
            for row in composition.audit
            if row.prior_rank or row.rerank_score or row.reason in RERANK_REASONS
        )
        return checked("", told, moved)
    told = f"the order and the cuts of {record.name}, from its scores"
    kept = ranked_as_recorded(rebuilt_lanes(composition))
    kept.sort(key=lambda one: before_rerank(one.row))
    pool = record.scored + record.unscored
    asked = Rerank(record.name, record.candidates, record.top_n, record.min_score)
    if len(kept) < pool:
        raise Contradiction(f"{pool} candidates of {len(kept)} ranked frames")
    rerank([one.entry for one in kept], asked, pool, Reranked(_rerank_scores(record, kept[:pool])))
    differences = (
        f"{one.shown}: rank {one.entry.rank} {one.entry.reason}".rstrip()
        for one in kept
        if one.entry.rank != one.row.rank
        or one.entry.reason != (one.row.reason if one.row.reason in RERANK_REASONS else "")
    )
    return checked("", told, differences, "why the reranker scored as it did is its own")


def _rerank_scores(record: RerankRecord, pool: list[Rebuilt]) -> tuple[float | None, ...] | None:
    if record.outcome is RerankOutcome.FALLBACK:
        return None
    try:
        return tuple(float(one.row.rerank_score) if one.row.rerank_score else None for one in pool)
    except ValueError as error:
        raise Contradiction(f"a reranker's score is not a number: {error}") from None
