"""Ranking: the policies that put the frames of all lanes in one order, without a score in reach.

Each policy is a function of handles. A handle has ranks, costs and names, and leads to no score: what a policy cannot
see it cannot compare. ``score_descending``, which does compare scores, is not here but in
:mod:`broker.core.score_descending`.

A policy returns a permutation of the handles' indices. Whatever it returns passes :func:`repair`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby

from broker.core.duplicates import first_copies
from broker.core.entries import Entry
from broker.core.frames import FrameRef
from broker.core.handles import Handle
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    Strategy,
    TrustWeighted,
)


def handles_of(kept: Sequence[Entry]) -> list[Handle]:
    """Handles of kept and rendered entries, in their order."""
    handles = []
    for index, entry in enumerate(kept):
        assert entry.block is not None
        frame = entry.candidate.frame
        handles.append(
            Handle(
                index,
                entry.provider,
                frame.id,
                entry.lane_order,
                entry.local_rank,
                tuple((copy.provider, copy.lane_place) for copy in first_copies(entry)),
                tuple(copy.ref for copy in entry.copies),
                entry.block.cost,
                frame.kind,
                frame.recorded_at,
            )
        )
    return handles


def rank(strategy: Strategy, handles: Sequence[Handle]) -> list[int]:
    """The order of a policy that sees no score: indices, best first.

    Raises:
        ValueError: The policy is ``score_descending``, which needs what handles do not have.
    """
    match strategy:
        case RoundRobin():
            return round_robin(handles)
        case PerProviderQuota(k):
            return per_provider_quota(handles, k)
        case TrustWeighted(weights, default_weight):
            return trust_weighted(handles, weights, default_weight)
        case ReciprocalRankFusion(k, weights, default_weight):
            return reciprocal_rank_fusion(handles, k, weights, default_weight)
        case Precomputed(ids):
            return precomputed(handles, ids)
        case _:
            raise ValueError(f"{strategy!r} does not rank handles")


def round_robin(handles: Sequence[Handle]) -> list[int]:
    """Every lane's best, then every lane's second. Compares local ranks, then lane order."""
    return [handle.index for handle in sorted(handles, key=lambda h: (h.local_rank, h.lane_order))]


def per_provider_quota(handles: Sequence[Handle], k: int) -> list[int]:
    """Every lane's top ``k``, then every lane's next ``k``. Compares turns, then lane order, then local ranks."""
    return [
        handle.index for handle in sorted(handles, key=lambda h: ((h.local_rank - 1) // k, h.lane_order, h.local_rank))
    ]


def trust_weighted(handles: Sequence[Handle], weights: Mapping[str, float], default_weight: float) -> list[int]:
    """A lane of weight w is dealt w frames a round: its i-th frame in round ceil(i / w). Weight 0 comes last.

    Compares rounds, then lane order, then local ranks; lanes of weight 0 come after all others, in round robin.
    """
    exact = _exact_weights(handles, weights, default_weight)

    def key(handle: Handle) -> tuple[int, int, int, int]:
        weight = exact[handle.provider]
        if not weight:
            return 1, handle.local_rank, handle.lane_order, 0
        return 0, dealt_in(handle.local_rank, weight), handle.lane_order, handle.local_rank

    return [handle.index for handle in sorted(handles, key=key)]


def dealt_in(local_rank: int, weight: Fraction) -> int:
    """The round, from 1, in which ``trust_weighted`` deals a lane of this weight its frame of this local rank."""
    return -(-local_rank * weight.denominator // weight.numerator)


def exact_weight(weight: float) -> Fraction:
    """A weight as the decimal number that was written: 0.3 is 3/10, not the nearest binary float."""
    return Fraction(repr(weight))


def reciprocal_rank_fusion(
    handles: Sequence[Handle], k: int, weights: Mapping[str, float], default_weight: float
) -> list[int]:
    """Sum of weight / (k + rank) over the lanes that hold the evidence, each lane's rank being its own copy's place.

    Compares the sums in exact fractions, then the best single rank, lane order and frame id. The float of a fraction is
    correctly rounded, so that it never contradicts the fraction: floats sort first because they are fast, and fractions
    decide among equal floats.
    """
    exact = _exact_weights(handles, weights, default_weight)
    rows = []
    for handle in handles:
        numerator, denominator = _fused(handle, k, exact)
        rows.append((-(numerator / denominator), numerator, denominator, handle))
    rows.sort(key=lambda row: row[0])
    order: list[int] = []
    for _, group in groupby(rows, key=lambda row: row[0]):
        tied = list(group)
        if len(tied) > 1:
            tied.sort(key=lambda row: (-Fraction(row[1], row[2]), *_rrf_tie(row[3])))
        order += [row[3].index for row in tied]
    return order


def precomputed(handles: Sequence[Handle], ids: Sequence[tuple[str, str]]) -> list[int]:
    """The caller's own order, then what it did not name in round-robin order. Compares nothing.

    A name of any copy names the evidence. Repeats and names of nothing here are passed over.
    """
    by_name = {name: handle.index for handle in handles for name in handle.names}
    named = (by_name.get(FrameRef(provider, frame_id)) for provider, frame_id in ids)
    return list(dict.fromkeys([*(index for index in named if index is not None), *round_robin(handles)]))


def repair(order: Sequence[object], n: int, fallback: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
    """Makes a permutation of whatever a policy returned.

    Args:
        order: What it returned.
        n: Frames there are.
        fallback: A permutation of ``range(n)``: the order of frames that the policy left out.

    Returns:
        The permutation, and what had to be done, in words: indices that name no frame are skipped, so are repeats, and
        missing frames are appended.
    """
    repaired: dict[int, None] = {}
    bad = repeated = 0
    for index in order:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < n:
            bad += 1
        elif index in repaired:
            repeated += 1
        else:
            repaired[index] = None
    missing = n - len(repaired)
    repaired.update(dict.fromkeys(fallback))
    repairs = (
        (bad, "skipped {} that name no frame"),
        (repeated, "skipped {} that came again"),
        (missing, "appended {} that were left out, in round-robin order"),
    )
    return list(repaired), tuple(text.format(count) for count, text in repairs if count)


def _exact_weights(
    handles: Sequence[Handle], weights: Mapping[str, float], default_weight: float
) -> dict[str, Fraction]:
    providers = {provider for handle in handles for provider, _ in handle.lane_places}
    return {provider: exact_weight(weights.get(provider, default_weight)) for provider in providers}


def _fused(handle: Handle, k: int, weights: Mapping[str, Fraction]) -> tuple[int, int]:
    """The sum as numerator and denominator. Not reduced: that would cost more than all the rest."""
    numerator, denominator = 0, 1
    for provider, place in handle.lane_places:
        weight = weights[provider]
        below = weight.denominator * (k + place)
        numerator, denominator = numerator * below + weight.numerator * denominator, denominator * below
    return numerator, denominator


def _rrf_tie(handle: Handle) -> tuple[int, int, str]:
    return min(place for _, place in handle.lane_places), handle.lane_order, handle.frame_id
