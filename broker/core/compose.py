"""One composition from its lanes: floors, duplicates, ranking, (rerank), packing, placement, rendering, audit.

The result is a function of what was offered, the request, the operator's policy and, where one is asked for, a
reranker's scores: no clock, no randomness, and nothing of the order in which lanes, batches or frames arrived (but
inside a lane whose provider sends no scores, where the order sent is the ranking).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from broker.core.audit import floor_records, lane_summary, reasons_of, rows_of, strategy_record, usage_of
from broker.core.audited import AuditSummary, BudgetRecord
from broker.core.composition import Citation, Composition, Placed
from broker.core.duplicates import first_copies, joint_provenance
from broker.core.entries import Entry
from broker.core.fitting import fitted
from broker.core.frames import Frame, FrameRef
from broker.core.lanes import Lane
from broker.core.limits import limit_conflicts, limits_of
from broker.core.packing import Overhead, overhead_of, usable_tokens
from broker.core.plan import Plan, rank_lanes
from broker.core.render.labels import unique_labels
from broker.core.render.modes import render_record, renderer_of
from broker.core.render.seals import sealer_of
from broker.core.request import CompositionRequest, Placement, Policy
from broker.core.rerank import Reranked, rerank


def compose(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """Ranks, packs and places what was offered, and says of every frame where it went and why.

    Args:
        lanes: At most one for a provider, in any order.
        request: Its floors and weights are taken as checked (:func:`~broker.core.floors.floor_violations`,
            :func:`~broker.core.weights.weight_violations`). It asks for no rerank: that takes
            :func:`~broker.core.plan.rank_lanes`, a reranker's scores, and :func:`finish`.
        policy: What the operator sets.

    Returns:
        The composition; without frames where none was offered, admitted or fitted.

    Raises:
        InvalidArgument: ``BUDGET_TOO_SMALL``: ``max_tokens`` does not hold the prompt's own texts.
            ``TIMESTAMP_MALFORMED``: ``as_of`` is not a moment.
        KeyError: The strategy is a plugin, or the tokenizer one, that the policy does not have.
        ValueError: Two lanes have one provider, or the request asks for a rerank.
    """
    return finish(rank_lanes(lanes, request, policy))


def finish(plan: Plan, reranked: Reranked | None = None) -> Composition:
    """Packs and places a plan's frames in ranked order, or in the order that a reranker gave the first of them.

    A plan may be finished more than once: each result depends on the arguments alone.

    Args:
        plan: From :func:`~broker.core.plan.rank_lanes`.
        reranked: What came of the rerank that the plan's request asks for; None where it asks for none.

    Returns:
        The composition.

    Raises:
        ValueError: The request asks for a rerank and nothing is said of it, or the other way round; or there are not as
            many scores as candidates.
    """
    request, lanes = plan.request, plan.lanes
    record = rerank(plan.ranked, request.rerank, len(plan.candidates), reranked)
    ranked = plan.ranked if reranked is None else sorted(plan.ranked, key=attrgetter("rank"))
    ordered, placement = fitted([entry for entry in ranked if not entry.reason], plan)
    placed = _placed(ordered, plan)
    usage = usage_of(lanes, plan.offered)
    rows = [
        row
        for lane, entries in zip(lanes, plan.offered, strict=True)
        for row in rows_of(lane, entries, plan.floors, include_scores=request.include_local_scores)
    ]
    return Composition(
        placed=placed,
        citations=tuple(
            [Citation(one.citation_label, one.vouchers[0], one.position, one.frame.content_digest) for one in placed]
        ),
        audit=tuple(rows),
        summary=AuditSummary(
            strategy=strategy_record(request.strategy, plan.policy.plugins, plan.named, plan.repairs),
            # What ``value`` gives, without the two calls that it is.
            placement=placement._value_,
            placement_asked=request.placement._value_,
            fold_min_tokens=request.fold_min_tokens if request.placement is Placement.AUTO else 0,
            duplicates=request.duplicates._value_,
            budget=BudgetRecord(
                max_tokens=request.max_tokens,
                usable=usable_tokens(request.max_tokens, request.safety_factor),
                preamble=plan.texts.preamble,
                closing=plan.texts.closing,
                frames=sum([one.cost for one in placed]),
                counter=f"{plan.counter.name} {plan.counter.version}".rstrip(),
                safety_factor=request.safety_factor,
                split=request.budget_split._value_,
            ),
            lanes=tuple([lane_summary(lane, usage.providers[lane.provider]) for lane in lanes]),
            floors=floor_records(request.floors, lanes, rows),
            rows=len(rows),
            reasons=reasons_of(rows),
            rerank=record,
            render=render_record(request),
            limit_conflicts=tuple(
                limit_conflicts(request, len({entry.candidate.provider for entry in ranked}), record)
            ),
            limits=limits_of(request, plan.policy),
        ),
        usage=usage,
        preamble=plan.preamble,
        closing=plan.closing,
        separator=plan.renderer.separator,
    )


def overhead(request: CompositionRequest, policy: Policy) -> Overhead:
    """Tokens of preamble and closing, the restated question among them: what a prompt takes before its first frame."""
    renderer = renderer_of(request.mode, sealer_of(request.fence, policy.seal_key))
    texts = renderer.preamble(request.question), renderer.closing(request.question)
    return overhead_of(*texts, policy.counters[request.tokenizer])


def _placed(ordered: Sequence[Entry], plan: Plan) -> tuple[Placed, ...]:
    labels = unique_labels([entry.block for entry in ordered if entry.block is not None])
    texts = plan.written(ordered)
    total, placed = len(ordered), []
    for position, (entry, label, text) in enumerate(zip(ordered, labels, texts, strict=True), 1):
        candidate, block = entry.candidate, entry.block
        assert block is not None
        frame = candidate.frame
        entry.position = position
        provenance = frame.provenance
        vouchers: tuple[FrameRef, ...] = (FrameRef(candidate.provider, frame.id),)
        if entry.others or len(provenance) > 1:
            provenance, left_out = joint_provenance(entry)
            if left_out:
                entry.detail = f"{left_out} provenance entries of its copies left out, {len(provenance)} kept"
            vouchers = tuple([one.ref for one in first_copies(entry)])
        # In the order of their attributes: by name so many arguments take seven times as long.
        placed.append(
            Placed(
                position,
                total,
                candidate.provider,
                entry.local_rank,
                entry.rank,
                Frame(
                    frame.id,
                    frame.title,
                    frame.content,
                    None,
                    frame.kind,
                    frame.citation_label,
                    frame.uri,
                    provenance,
                    frame.relations,
                    frame.valid_from,
                    frame.valid_to,
                    frame.recorded_at,
                    None,
                    candidate.digest,
                ),
                text,
                block.cost,
                label,
                vouchers,
            )
        )
    return tuple(placed)
