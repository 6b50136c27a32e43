"""The plan: lanes as they were ranked, with everything that is settled before a reranker has its say.

A composition is made in two pure steps, so that whoever has a clock and a network can ask a reranker between them:
:func:`rank_lanes` gives a plan, and :func:`~broker.core.compose.finish` makes the composition of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from broker.core.audit import refused_detail
from broker.core.audited import Reason
from broker.core.counting import TokenCounter
from broker.core.duplicates import join_duplicates
from broker.core.entries import Entry, best_first, in_lane_order
from broker.core.floors import floor_detail, passes
from broker.core.grants import Allowance
from broker.core.lanes import Lane
from broker.core.measuring import measure
from broker.core.packing import Overhead, overhead_of, room
from broker.core.plugins import plugin_order
from broker.core.ranking import handles_of, rank, repair
from broker.core.render.modes import renderer_of
from broker.core.render.renderer import Renderer
from broker.core.render.seals import sealer_of
from broker.core.request import CompositionRequest, Floor, PartialLanes, Policy
from broker.core.rerank import RerankCandidate, candidates_of
from broker.core.score_descending import by_raw_score, raw_order
from broker.core.strategies import PluginStrategy, Precomputed, RoundRobin, ScoreDescending
from broker.core.validity import Moment, holds, moment
from broker.errors import FieldViolation, InvalidArgument


class Plan(Struct, frozen=True, kw_only=True):
    """Lanes as they were ranked; made by :func:`rank_lanes`, read by :func:`~broker.core.compose.finish`.

    Attributes:
        request: What it is a plan for.
        policy: What the operator sets.
        preamble: The text above the evidence.
        closing: The text below it.
        renderer: What writes blocks.
        texts: Tokens of those two.
        space: Tokens that are left for frames.
        lanes: In lane order.
        offered: Each lane's entries, best first.
        floors: By provider.
        ranked: The entries that stand for evidence, best first by the request's strategy.
        named: Of these, how many a ``precomputed`` order named.
        repairs: What had to be repaired in the order that the strategy gave.
        candidates: What the request's reranker is to score, in ranked order; empty where it asks for none.
    """

    request: CompositionRequest
    policy: Policy
    preamble: str
    closing: str
    renderer: Renderer
    texts: Overhead
    space: int
    lanes: tuple[Lane, ...]
    offered: tuple[tuple[Entry, ...], ...]
    floors: Mapping[str, Floor]
    ranked: tuple[Entry, ...]
    named: int
    repairs: tuple[str, ...]
    candidates: tuple[RerankCandidate, ...]

    @property
    def counter(self) -> TokenCounter:
        """What counts its tokens."""
        return self.policy.counters[self.request.tokenizer]

    def written(self, ordered: Sequence[Entry]) -> list[str]:
        """The blocks of measured entries as they stand in the prompt."""
        blocks = [entry.block for entry in ordered if entry.block is not None]
        return self.renderer.texts(blocks, [entry.candidate.digest for entry in ordered])

    def joined(self, ordered: Sequence[Entry]) -> str:
        """The prompt that entries make in this order."""
        return "".join((self.preamble, self.renderer.separator.join(self.written(ordered)), self.closing))


def rank_lanes(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Plan:
    """Drops by floor, joins duplicates, measures blocks and ranks what is left.

    Args:
        lanes: At most one for a provider, in any order.
        request: Its floors and weights are taken as checked (:func:`~broker.core.floors.floor_violations`,
            :func:`~broker.core.weights.weight_violations`).
        policy: What the operator sets.

    Raises:
        InvalidArgument: ``BUDGET_TOO_SMALL``: ``max_tokens`` does not hold the prompt's own texts.
            ``TIMESTAMP_MALFORMED``: ``as_of`` is not a moment.
        KeyError: The strategy is a plugin, or the tokenizer one, that the policy does not have.
        ValueError: Two lanes have one provider.
    """
    renderer = renderer_of(request.mode, sealer_of(request.fence, policy.seal_key))
    preamble, closing = renderer.preamble(request.question), renderer.closing(request.question)
    counter = policy.counters[request.tokenizer]
    texts = overhead_of(preamble, closing, counter)
    space = room(request, texts)
    as_of = _as_of(request)
    floors = {floor.provider: floor for floor in request.floors}
    ordered = in_lane_order(lanes, policy.lane_order)
    offered = [best_first(lane, order) for order, lane in enumerate(ordered)]
    admitted = [
        _admit(lane, entries, floors.get(lane.provider), request.partial_lanes, as_of)
        for lane, entries in zip(ordered, offered, strict=True)
    ]
    by_score = isinstance(request.strategy, ScoreDescending)
    kept = join_duplicates(admitted, request.duplicates, by_raw_score if by_score else None)
    measure(kept, renderer, counter, policy.max_block_bytes, space)
    order, repairs = _order(kept, request, policy)
    ranked = [kept[index] for index in order]
    return Plan(
        request=request,
        policy=policy,
        preamble=preamble,
        closing=closing,
        renderer=renderer,
        texts=texts,
        space=space,
        lanes=tuple(ordered),
        offered=tuple(map(tuple, offered)),
        floors=floors,
        ranked=tuple(ranked),
        named=_named(kept, request),
        repairs=repairs,
        candidates=() if request.rerank is None else candidates_of(request, ranked, handles_of(kept), order),
    )


def _as_of(request: CompositionRequest) -> Moment | None:
    if not request.as_of:
        return None
    as_of = moment(request.as_of)
    if as_of is None:
        message = "is not a moment written YYYY-MM-DDTHH:MM:SS[.f]Z"
        raise InvalidArgument.of([FieldViolation("as_of", "TIMESTAMP_MALFORMED", message)])
    return as_of


def _admit(
    lane: Lane, entries: Iterable[Entry], floor: Floor | None, partial: PartialLanes, as_of: Moment | None
) -> list[Entry]:
    """The frames that go on to be weighed against others', best first; each other one gets its reason."""
    if lane.lie is not None:
        return _without(entries, Reason.LANE_REFUSED, refused_detail(lane))
    if lane.end.cut_short and partial is PartialLanes.DROP:
        return _without(entries, Reason.LANE_PARTIAL, f"the lane ended {lane.end.value}")
    trim = lane.trimmed_to
    if floor is None and as_of is None and trim is None:
        return list(entries)
    admitted = []
    allowance = None if trim is None else Allowance(trim.max_frames, trim.max_tokens)
    for entry in entries:
        score = entry.candidate.score
        if floor is not None and (score is None or not passes(score, floor)):
            entry.drop(Reason.BELOW_FLOOR, floor_detail(floor, lane.scale))
        elif as_of is not None and not holds(entry.candidate.frame, as_of):
            frame = entry.candidate.frame
            entry.drop(
                Reason.OUTSIDE_VALIDITY, f"valid from {frame.valid_from or 'ever'} to {frame.valid_to or 'ever'}"
            )
        elif allowance is not None and not allowance.pay(entry.candidate.tokens):
            entry.drop(Reason.PUSH_TRIMMED, allowance.told)
        else:
            admitted.append(entry)
    return admitted


def _without(entries: Iterable[Entry], reason: str, detail: str) -> list[Entry]:
    for entry in entries:
        entry.drop(reason, detail)
    return []


def _order(kept: Sequence[Entry], request: CompositionRequest, policy: Policy) -> tuple[Sequence[int], tuple[str, ...]]:
    match request.strategy:
        case PluginStrategy(name, params):
            order, said = plugin_order(policy.plugins[name], handles_of(kept), params)
            permutation, repairs = repair(order, len(kept), lambda: rank(RoundRobin(), kept))
            return permutation, (*said, *repairs)
        case ScoreDescending():
            return raw_order(kept), ()
        case strategy:
            return rank(strategy, kept), ()


def _named(kept: Sequence[Entry], request: CompositionRequest) -> int:
    if not isinstance(request.strategy, Precomputed):
        return 0
    ids = set(request.strategy.ids)
    return sum(any((copy.provider, copy.candidate.frame.id) in ids for copy in entry.copies) for entry in kept)
