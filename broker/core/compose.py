"""One composition from its lanes: floors, duplicates, ranking, packing, placement, rendering, audit.

The result is a function of what was offered, the request and the operator's policy: no clock, no randomness, and
nothing of the order in which lanes, batches or frames arrived (but inside a lane whose provider sends no scores, where
the order sent is the ranking).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from broker.core.audit import (
    floor_records,
    lane_summary,
    reasons_of,
    refused_detail,
    rows_of,
    strategy_record,
    usage_of,
)
from broker.core.composition import AuditSummary, BudgetRecord, Citation, Composition, Placed, Reason
from broker.core.duplicates import first_copies, join_duplicates, joint_provenance
from broker.core.entries import Entry, best_first, in_lane_order
from broker.core.floors import floor_detail, passes
from broker.core.lanes import Lane
from broker.core.packing import overhead_of, pack, room
from broker.core.placement import place
from broker.core.ranking import Handle, handles_of, rank, repair, round_robin
from broker.core.rendering import render_block, render_closing, render_preamble, unique_labels
from broker.core.request import CompositionRequest, Floor, PartialLanes, Policy
from broker.core.score_descending import by_raw_score, raw_order
from broker.core.strategies import Precomputed, ScoreDescending
from broker.core.validity import Moment, holds, moment
from broker.errors import FieldViolation, InvalidArgument


def compose(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """Ranks, packs and places what was offered, and says of every frame where it went and why.

    Args:
        lanes: At most one for a provider, in any order.
        request: Its floors and weights are taken as checked (:func:`~broker.core.floors.floor_violations`,
            :func:`~broker.core.weights.weight_violations`).
        policy: What the operator sets.

    Returns:
        The composition; without frames where none was offered, admitted or fitted.

    Raises:
        InvalidArgument: ``BUDGET_TOO_SMALL``: ``max_tokens`` does not hold the prompt's own texts.
            ``TIMESTAMP_MALFORMED``: ``as_of`` is no moment.
        ValueError: Two lanes have one provider.
    """
    preamble, closing = render_preamble(request), render_closing(request)
    texts = overhead_of(preamble, closing)
    space = room(request.max_tokens, texts)
    as_of = _as_of(request)
    floors = {floor.provider: floor for floor in request.floors}
    lanes = in_lane_order(lanes, policy.lane_order)
    offered = [best_first(lane, order) for order, lane in enumerate(lanes)]
    admitted = [
        _admit(lane, entries, floors.get(lane.provider), request.partial_lanes, as_of)
        for lane, entries in zip(lanes, offered, strict=True)
    ]
    by_score = isinstance(request.strategy, ScoreDescending)
    kept = join_duplicates(admitted, request.duplicates, by_raw_score if by_score else None)
    for entry in kept:
        entry.block = render_block(entry.candidate, request.fence, policy.seal_key)
    handles = handles_of(kept)
    order, repairs = _order(kept, handles, request)
    ranked = [kept[index] for index in order]
    for number, entry in enumerate(ranked, 1):
        entry.rank = number
    taken = pack(ranked, space, request, policy.max_block_bytes)
    placed = _placed(taken, request)
    usage = usage_of(lanes, offered)
    rows = [
        row
        for lane, entries in zip(lanes, offered, strict=True)
        for row in rows_of(lane, entries, floors, include_scores=request.include_local_scores)
    ]
    return Composition(
        placed=placed,
        citations=tuple(
            Citation(frame.citation_label, frame.vouchers[0], frame.position, frame.frame.content_digest)
            for frame in placed
        ),
        audit=tuple(rows),
        summary=AuditSummary(
            strategy=strategy_record(request.strategy, _named(handles, request), repairs),
            placement=request.placement.value,
            duplicates=request.duplicates.value,
            budget=BudgetRecord(
                max_tokens=request.max_tokens,
                preamble=texts.preamble,
                closing=texts.closing,
                frames=sum(frame.cost for frame in placed),
            ),
            lanes=tuple(lane_summary(lane, usage.providers[lane.provider]) for lane in lanes),
            floors=floor_records(request.floors, lanes, rows),
            rows=len(rows),
            reasons=reasons_of(rows),
        ),
        usage=usage,
        preamble=preamble,
        closing=closing,
    )


def overhead(request: CompositionRequest, policy: Policy) -> int:  # noqa: ARG001
    """Tokens of preamble and closing, the restated question among them: what any prompt takes before its first frame.

    Args:
        request: For its fence and question.
        policy: As for :func:`compose`; these texts do not depend on it.
    """
    return overhead_of(render_preamble(request), render_closing(request)).total


def _as_of(request: CompositionRequest) -> Moment | None:
    if not request.as_of:
        return None
    as_of = moment(request.as_of)
    if as_of is None:
        message = "is no moment written YYYY-MM-DDTHH:MM:SS[.f]Z"
        raise InvalidArgument.of([FieldViolation("as_of", "TIMESTAMP_MALFORMED", message)])
    return as_of


def _admit(
    lane: Lane, entries: Iterable[Entry], floor: Floor | None, partial: PartialLanes, as_of: Moment | None
) -> list[Entry]:
    """The frames that go on to be weighed against others', best first; each other one gets its reason."""
    admitted = []
    for entry in entries:
        score = entry.candidate.score
        if lane.lie is not None:
            entry.drop(Reason.LANE_REFUSED, refused_detail(lane))
        elif lane.end.cut_short and partial is PartialLanes.DROP:
            entry.drop(Reason.LANE_PARTIAL, f"the lane ended {lane.end.value}")
        elif floor is not None and (score is None or not passes(score, floor)):
            entry.drop(Reason.BELOW_FLOOR, floor_detail(floor, lane.scale))
        elif as_of is not None and not holds(entry.candidate.frame, as_of):
            frame = entry.candidate.frame
            entry.drop(
                Reason.OUTSIDE_VALIDITY, f"valid from {frame.valid_from or 'ever'} to {frame.valid_to or 'ever'}"
            )
        else:
            admitted.append(entry)
    return admitted


def _order(
    kept: Sequence[Entry], handles: Sequence[Handle], request: CompositionRequest
) -> tuple[list[int], tuple[str, ...]]:
    order = raw_order(kept) if isinstance(request.strategy, ScoreDescending) else rank(request.strategy, handles)
    return repair(order, len(kept), round_robin(handles))


def _named(handles: Sequence[Handle], request: CompositionRequest) -> int:
    if not isinstance(request.strategy, Precomputed):
        return 0
    ids = set(request.strategy.ids)
    return sum(any((name.provider, name.frame_id) in ids for name in handle.names) for handle in handles)


def _placed(taken: Sequence[Entry], request: CompositionRequest) -> tuple[Placed, ...]:
    ordered = place(taken, request.placement, lambda entry: entry.ref)
    labels = unique_labels([entry.block for entry in ordered if entry.block is not None])
    placed = []
    for position, (entry, label) in enumerate(zip(ordered, labels, strict=True), 1):
        assert entry.block is not None
        entry.position = position
        provenance, left_out = joint_provenance(entry)
        if left_out:
            entry.detail = f"{left_out} provenance entries of its copies left out, {len(provenance)} kept"
        candidate = entry.candidate
        frame = replace(
            candidate.frame, score=None, token_cost=None, content_digest=candidate.digest, provenance=provenance
        )
        placed.append(
            Placed(
                position=position,
                total=len(ordered),
                provider=entry.provider,
                local_rank=entry.local_rank,
                rank=entry.rank,
                frame=frame,
                rendered=entry.block.text,
                cost=entry.block.cost,
                citation_label=label,
                vouchers=tuple(copy.ref for copy in first_copies(entry)),
            )
        )
    return tuple(placed)
