"""Ranking: the policies that put the frames of all lanes in one order, without a score in reach.

Each policy is a function of handles. A handle has ranks, costs and names, and leads to no score: what a policy cannot
see it cannot compare. ``score_descending``, which does compare scores, is not here but in
:mod:`broker.core.score_descending`.

A policy returns a permutation of the handles' indices. Whatever it returns passes :func:`repair`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from operator import attrgetter, itemgetter

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

_LANE_ORDER = attrgetter("lane_order")
_LOCAL_RANK = attrgetter("local_rank")
_LANE_PLACE = attrgetter("lane_order", "local_rank")
_FRAME_ID = attrgetter("frame_id")


def handles_of(kept: Sequence[Entry]) -> list[Handle]:
    """Handles of kept and rendered entries, in their order."""
    handles = []
    for index, entry in enumerate(kept):
        candidate, block = entry.candidate, entry.block
        assert block is not None
        frame, provider = candidate.frame, candidate.provider
        if entry.others:
            lane_places = tuple([(copy.provider, copy.lane_place) for copy in first_copies(entry)])
            names = tuple([copy.ref for copy in entry.copies])
        else:
            lane_places, names = ((provider, entry.lane_place),), (FrameRef(provider, frame.id),)
        handles.append(
            Handle(
                index,
                provider,
                frame.id,
                entry.lane_order,
                entry.local_rank,
                lane_places,
                names,
                block.cost,
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
    # Sorting is stable. By lane order they mostly come already, and one whole number is compared faster than two.
    return _indices(sorted(sorted(handles, key=_LANE_ORDER), key=_LOCAL_RANK))


def per_provider_quota(handles: Sequence[Handle], k: int) -> list[int]:
    """Every lane's top ``k``, then every lane's next ``k``. Compares turns, then lane order, then local ranks."""
    return _indices(sorted(sorted(handles, key=_LANE_PLACE), key=lambda handle: (handle.local_rank - 1) // k))


def trust_weighted(handles: Sequence[Handle], weights: Mapping[str, float], default_weight: float) -> list[int]:
    """A lane of weight w is dealt w frames a round: its i-th frame in round ceil(i / w). Weight 0 comes last.

    Compares rounds, then lane order, then local ranks; lanes of weight 0 come after all others, in round robin.
    """
    exact = _exact_weights(handles, weights, default_weight)
    dealt = [handle for handle in handles if exact[handle.provider] != (0, 1)]
    last = [handle for handle in handles if exact[handle.provider] == (0, 1)]
    dealt.sort(key=_LANE_PLACE)
    dealt.sort(key=lambda handle: dealt_in(handle.local_rank, *exact[handle.provider]))
    return [*_indices(dealt), *round_robin(last)]


def dealt_in(local_rank: int, numerator: int, denominator: int) -> int:
    """The round, from 1, in which ``trust_weighted`` deals a lane of this weight its frame of this local rank."""
    return -(-local_rank * denominator // numerator)


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
    sums = [_fused(handle.lane_places, k, exact) for handle in handles]
    floats = [-(numerator / denominator) for numerator, denominator in sums]
    best = [min([place for _, place in handle.lane_places]) for handle in handles]
    rows = sorted(zip(floats, best, map(_LANE_ORDER, handles), map(_FRAME_ID, handles), range(len(sums)), strict=True))
    order: list[int] = []
    for _, run in groupby(rows, key=itemgetter(0)):
        tied = [row[-1] for row in run]
        if len(tied) > 1 and len({sums[place] for place in tied}) > 1:
            tied.sort(key=lambda place: -Fraction(*sums[place]))
        order += [handles[place].index for place in tied]
    return order


def precomputed(handles: Sequence[Handle], ids: Sequence[tuple[str, str]]) -> list[int]:
    """The caller's own order, then what it did not name in round-robin order. Compares nothing.

    A name of any copy names the evidence. Repeats and names of nothing here are passed over.
    """
    by_name = {name: handle.index for handle in handles for name in handle.names}
    named = (by_name.get(FrameRef(provider, frame_id)) for provider, frame_id in ids)
    return list(dict.fromkeys([*(index for index in named if index is not None), *round_robin(handles)]))


def repair(order: Sequence[object], n: int, fallback: Callable[[], Sequence[int]]) -> tuple[list[int], tuple[str, ...]]:
    """Makes a permutation of whatever a policy returned.

    Args:
        order: What it returned.
        n: Frames there are.
        fallback: Gives a permutation of ``range(n)``: the order of frames that the policy left out.

    Returns:
        The permutation, and what had to be done, in words: indices that name no frame are skipped, so are repeats, and
        missing frames are appended.
    """
    numbers = [index for index in order if type(index) is int]
    if len(numbers) == len(order) == n and set(numbers) == set(range(n)):
        return numbers, ()  # A permutation already, as most are.
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
    repaired.update(dict.fromkeys(fallback()))
    repairs = (
        (bad, "skipped {} that name no frame"),
        (repeated, "skipped {} that came again"),
        (missing, "appended {} that were left out, in round-robin order"),
    )
    return list(repaired), tuple(text.format(count) for count, text in repairs if count)


def _indices(handles: Iterable[Handle]) -> list[int]:
    return [handle.index for handle in handles]


def _exact_weights(
    handles: Sequence[Handle], weights: Mapping[str, float], default_weight: float
) -> dict[str, tuple[int, int]]:
    """Each lane's weight as numerator and denominator; (0, 1) is zero."""
    providers = {provider for handle in handles for provider, _ in handle.lane_places}
    return {provider: exact_weight(weights.get(provider, default_weight)).as_integer_ratio() for provider in providers}


def _fused(places: Sequence[tuple[str, int]], k: int, weights: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The sum as numerator and denominator. Not reduced: that would cost more than all the rest."""
    numerator, denominator = 0, 1
    for provider, place in places:
        above, below = weights[provider]
        below *= k + place
        numerator, denominator = numerator * below + above * denominator, denominator * below
    return numerator, denominator
