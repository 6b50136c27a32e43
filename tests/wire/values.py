"""Hypothesis strategies of the values that cross the wire."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

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
from broker.core.composition import Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation
from broker.core.lanes import LaneEnd
from broker.core.request import (
    BudgetSplit,
    CompositionRequest,
    Duplicates,
    Fence,
    Floor,
    PartialLanes,
    Placement,
    RenderMode,
    Rerank,
)
from broker.core.scores import Direction, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)
from broker.wire.requests import ComposeCall, InlineLane

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,6}", fullmatch=True)
uint32 = st.integers(0, 2**32 - 1)
counts = st.integers(0, 10**6)
numbers = st.floats(allow_nan=False)
kinds = st.sampled_from(KINDS) | st.integers(len(KINDS), 2**31 - 1).map(lambda n: f"kind-{n}")
digests = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)
refs = st.builds(FrameRef, names, texts)


@st.composite
def scales(draw: Any) -> ScoreScale:
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    return ScoreScale(draw(names), low, high, draw(st.sampled_from(Direction)))


frames = st.builds(
    Frame,
    id=texts,
    title=texts,
    content=texts,
    score=st.none() | numbers,
    kind=kinds,
    citation_label=texts,
    uri=texts,
    provenance=st.lists(st.builds(Provenance, texts, texts, texts, texts, texts, texts), max_size=3).map(tuple),
    relations=st.lists(st.builds(Relation, texts, texts, texts), max_size=3).map(tuple),
    valid_from=texts,
    valid_to=texts,
    recorded_at=texts,
    token_cost=st.none() | uint32,
    content_digest=texts,
)

weights = st.dictionaries(names, st.floats(0, 1e6), max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
strategies = st.one_of(
    st.just(RoundRobin()),
    st.builds(PerProviderQuota, uint32),
    st.builds(TrustWeighted, weights, st.floats(0, 1e6)),
    st.builds(ReciprocalRankFusion, uint32, weights, st.floats(0, 1e6)),
    st.builds(Precomputed, st.lists(st.tuples(names, texts), max_size=4).map(tuple), texts),
    st.just(ScoreDescending()),
    st.builds(PluginStrategy, texts, st.dictionaries(texts, json_values, max_size=3)),
)
floors = st.builds(Floor, names, texts, numbers)
limits_of_one = st.integers(1, 2**32 - 1)
limits = st.none() | limits_of_one


def _without_question(request: CompositionRequest) -> CompositionRequest:
    """Where the output is data alone no question is restated."""
    return replace(request, question="") if request.mode.data_alone else request


requests = st.builds(
    CompositionRequest,
    max_tokens=uint32,
    floors=st.lists(floors, max_size=3).map(tuple),
    duplicates=st.sampled_from(Duplicates),
    placement=st.sampled_from(Placement),
    partial_lanes=st.sampled_from(PartialLanes),
    max_frames=limits,
    max_frames_per_provider=limits,
    max_frames_per_source=limits,
    safety_factor=st.floats(1, 4),
    budget_split=st.sampled_from(BudgetSplit),
    fold_min_tokens=uint32,
    as_of=texts,
    mode=st.sampled_from(RenderMode),
    fence=st.sampled_from(Fence),
    question=texts,
    include_local_scores=st.booleans(),
    rerank=st.none() | st.builds(Rerank, texts, limits_of_one, limits, st.none() | numbers),
).map(_without_question)


def tuples(values: Any, most: int = 3) -> Any:
    return st.lists(values, max_size=most).map(tuple)


calls = st.builds(
    ComposeCall,
    goal=texts,
    composition=requests,
    request_id=texts,
    query_text=texts,
    kinds=tuples(kinds),
    anchors=tuples(texts),
    providers=tuples(names),
    required_providers=tuples(names),
    expect_pushes=tuples(names),
    inline_lanes=tuples(st.builds(InlineLane, names, scales(), tuples(frames)), 2),
    no_providers=st.booleans(),
    collect_timeout=st.none() | st.integers(1, 10**13).map(lambda nanos: nanos / 10**9),
    strategy=st.none() | strategies,
    tokenizer=texts,
    budget_weights=weights,
    snapshots=st.booleans(),
)

positive = st.integers(1, 2**32 - 1)
figures = st.builds(
    UsageFigures,
    frames_offered=uint32,
    frames_admitted=uint32,
    frames_placed=uint32,
    tokens_offered=st.integers(0, 2**63),
    tokens_admitted=st.integers(0, 2**63),
    tokens_placed=st.integers(0, 2**63),
)
rows = st.builds(
    AuditRow,
    provider=names,
    frame_id=texts,
    content_digest=digests,
    included=st.booleans(),
    reason=texts,
    detail=texts,
    lane_place=uint32,
    local_rank=uint32,
    rank=uint32,
    position=uint32,
    cost=uint32,
    remaining=uint32,
    duplicate_of=st.none() | refs,
    conflicts=tuples(refs),
    score=st.none() | st.builds(AuditScore, names, texts, texts, texts),
    escaped_characters=uint32,
    neutralised_fences=uint32,
    prior_rank=uint32,
    rerank_score=texts,
    role_tokens=uint32,
    tokens=uint32,
    admitted=st.booleans(),
    recorded_at=texts,
)
rerank_records = st.builds(
    RerankRecord,
    name=texts,
    version=texts,
    candidates=uint32,
    scored=uint32,
    unscored=uint32,
    top_n=limits,
    min_score=st.none() | numbers,
    outcome=st.sampled_from(RerankOutcome),
    message=texts,
)


@st.composite
def compositions(draw: Any) -> Composition:
    total = draw(st.integers(0, 4))
    placed = tuple(
        draw(
            st.builds(
                Placed,
                position=st.just(i + 1),
                total=st.just(total),
                provider=names,
                local_rank=uint32,
                rank=uint32,
                frame=frames,
                rendered=texts,
                cost=uint32,
                citation_label=texts,
                vouchers=tuples(refs),
            )
        )
        for i in range(total)
    )
    audit = draw(tuples(rows, 5))
    summary = AuditSummary(
        strategy=draw(
            st.builds(
                StrategyRecord,
                name=texts,
                version=texts,
                params=st.dictionaries(texts, json_values, max_size=3),
                compares_raw_scores=st.booleans(),
                repairs=tuples(texts),
            )
        ),
        placement=draw(texts),
        duplicates=draw(texts),
        budget=draw(
            st.builds(
                BudgetRecord,
                max_tokens=uint32,
                usable=uint32,
                preamble=uint32,
                closing=uint32,
                frames=uint32,
                counter=texts,
                safety_factor=st.floats(1, 4),
                split=texts,
            )
        ),
        lanes=draw(
            tuples(
                st.builds(
                    LaneSummary,
                    provider=names,
                    end=st.sampled_from(LaneEnd),
                    message=texts,
                    scale=st.none() | scales(),
                    offered=uint32,
                    admitted=uint32,
                    placed=uint32,
                    violation=texts,
                )
            )
        ),
        floors=draw(tuples(st.builds(FloorRecord, floors, st.booleans(), uint32))),
        rows=len(audit),
        reasons=draw(st.dictionaries(texts, uint32, max_size=3)),
        rerank=draw(st.none() | rerank_records),
        placement_asked=draw(texts),
        fold_min_tokens=draw(uint32),
        render=draw(st.builds(RenderRecord, mode=texts, fence=texts, restated_question=st.booleans())),
        limits=draw(
            st.builds(
                LimitsRecord,
                max_frames=limits,
                max_frames_per_provider=limits,
                max_frames_per_source=limits,
                max_block_bytes=limits,
            )
        ),
        limit_conflicts=draw(tuples(st.builds(LimitConflict, texts, texts, texts))),
    )
    return Composition(
        placed=placed,
        citations=draw(tuples(st.builds(Citation, texts, refs, uint32, digests))),
        audit=audit,
        summary=summary,
        usage=Usage(draw(figures), draw(st.dictionaries(names, figures, max_size=3))),
        preamble=draw(texts),
        closing=draw(texts),
        separator=draw(texts),
        composition_id=draw(texts),
        request_id=draw(texts),
    )


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals itself."""
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))
