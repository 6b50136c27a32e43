"""Ranking: the policies that put the frames of all lanes in one order, without a score in reach.

Each policy is a function of columns, which hold one thing of every frame: the number of its lane, its place there, its
name. Nothing in them leads to a score: what a policy cannot see it cannot compare. A plugin gets the same as handles.
``score_descending``, which does compare scores, is not here but in :mod:`broker.core.score_descending`.

A policy returns a permutation of the frames' indices. Whatever a plugin returns passes :func:`repair`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

Weight = tuple[int, int]
"""Numerator and denominator in lowest terms."""

_ZERO = (0, 1)


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


def rank(strategy: Strategy, kept: Sequence[Entry]) -> list[int]:
    """The order of a policy that sees no score.

    Args:
        strategy: The policy.
        kept: What stands for evidence, in lane order, then by local rank.

    Returns:
        Their indices, best first.

    Raises:
        ValueError: The policy is ``score_descending``, which needs what no column holds, or a plugin.
    """
    match strategy:
        case RoundRobin():
            return round_robin(_ranks(kept))
        case PerProviderQuota(k):
            return per_provider_quota(_ranks(kept), k)
        case TrustWeighted(weights, default_weight):
            lanes = [entry.lane_order for entry in kept]
            own = _exact_weights(dict(zip(lanes, kept, strict=True)), weights, default_weight)
            return trust_weighted(_ranks(kept), [own[lane] for lane in lanes])
        case ReciprocalRankFusion(k, weights, default_weight):
            lanes = [entry.lane_order for entry in kept]
            held = {index: first_copies(entry) for index, entry in enumerate(kept) if entry.others}
            one_of = dict(zip(lanes, kept, strict=True))
            one_of.update({copy.lane_order: copy for copies in held.values() for copy in copies})
            return reciprocal_rank_fusion(
                lanes,
                [entry.lane_place for entry in kept],
                {index: [(copy.lane_order, copy.lane_place) for copy in copies] for index, copies in held.items()},
                [entry.candidate.frame.id for entry in kept],
                k,
                _exact_weights(one_of, weights, default_weight),
            )
        case Precomputed(ids):
            names = {name: index for index, entry in enumerate(kept) for name in _names(entry)}
            return precomputed(names, ids, round_robin(_ranks(kept)))
        case _:
            raise ValueError(f"{strategy!r} does not rank by places alone")


def round_robin(ranks: Sequence[int]) -> list[int]:
    """Every lane's best, then every lane's second. Compares local ranks, then lane order.

    Args:
        ranks: Every frame's local rank, in lane order.
    """
    return _sorted(range(len(ranks)), ranks)


def per_provider_quota(ranks: Sequence[int], k: int) -> list[int]:
    """Every lane's top ``k``, then every lane's next ``k``. Compares turns, then lane order, then local ranks.

    Args:
        ranks: Every frame's local rank, in lane order, then by local rank.
        k: Frames a turn.
    """
    return _sorted(range(len(ranks)), [(rank - 1) // k for rank in ranks])


def trust_weighted(ranks: Sequence[int], weights: Sequence[Weight]) -> list[int]:
    """A lane of weight w is dealt w frames a round: its i-th frame in round ceil(i / w). Weight 0 comes last.

    Compares rounds, then lane order, then local ranks; lanes of weight 0 come after all others, in round robin.

    Args:
        ranks: Every frame's local rank, in lane order, then by local rank.
        weights: The weight of every frame's lane.
    """
    dealt = [index for index, weight in enumerate(weights) if weight != _ZERO]
    last = [index for index, weight in enumerate(weights) if weight == _ZERO]
    rounds = [0 if weight == _ZERO else dealt_in(own, *weight) for own, weight in zip(ranks, weights, strict=True)]
    return [*_sorted(dealt, rounds), *_sorted(last, ranks)]


def dealt_in(local_rank: int, numerator: int, denominator: int) -> int:
    """The round, from 1, in which ``trust_weighted`` deals a lane of this weight its frame of this local rank."""
    return -(-local_rank * denominator // numerator)


def exact_weight(weight: float) -> Fraction:
    """A weight as the decimal number that was written: 0.3 is 3/10, not the nearest binary float."""
    return Fraction(repr(weight))


def reciprocal_rank_fusion(
    lanes: Sequence[int],
    places: Sequence[int],
    shared: Mapping[int, Sequence[tuple[int, int]]],
    frame_ids: Sequence[str],
    k: int,
    weights: Mapping[int, Weight],
) -> list[int]:
    """Sum of weight / (k + rank) over the lanes that hold the evidence, each lane's rank being its own copy's place.

    Compares the sums in exact fractions, then the best single rank, lane order and frame id.

    Args:
        lanes: Of each frame the number of its lane in lane order.
        places: Its place in that lane, its own repeats gone.
        shared: By index, of evidence that has copies: of each lane that holds it (lane, place).
        frame_ids: Of each frame.
        k: Added to every place.
        weights: Of the lanes.
    """
    if not lanes:
        return []
    # What one lane alone holds has one sum for each weight and place, however many lanes have that weight.
    kinds = list(dict.fromkeys(weights.values()))
    kind_of = {lane: kinds.index(weight) for lane, weight in weights.items()}
    classes = (
        [place * len(kinds) + kind_of[lane] for lane, place in zip(lanes, places, strict=True)]
        if len(kinds) > 1
        else places
    )
    alone = {}
    for one in set(classes):
        place, kind = divmod(one, len(kinds))
        above, below = kinds[kind]
        alone[one] = above, below * (k + place)
    joint = {index: _fused(held, k, weights) for index, held in shared.items()}
    number = _numbered([*alone.values(), *joint.values()])
    # Sum, best single rank and lane order as one whole number, which is compared faster than three.
    most_places, most_lanes = max(places) + 1, max(lanes) + 1
    first = {one: (number[value] * most_places + one // len(kinds)) * most_lanes for one, value in alone.items()}
    keys = [first[one] + lane for one, lane in zip(classes, lanes, strict=True)]
    for index, value in joint.items():
        best = min([place for _, place in shared[index]])
        keys[index] = (number[value] * most_places + best) * most_lanes + lanes[index]
    apart = len(set(keys)) == len(keys)
    return _sorted(range(len(keys)) if apart else _sorted(range(len(keys)), frame_ids), keys)


def precomputed(
    names: Mapping[tuple[str, str], int], ids: Iterable[tuple[str, str]], others: Iterable[int]
) -> list[int]:
    """The caller's own order, then what it did not name. Compares nothing.

    Args:
        names: By (provider, frame id) of any copy, which frame stands for that evidence.
        ids: The order. Repeats and names of nothing here are passed over.
        others: All frames, in the order that those which are not named come in.
    """
    return list(dict.fromkeys([*[names[one] for one in ids if one in names], *others]))


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


def _sorted(indices: Iterable[int], column: Sequence[int] | Sequence[str]) -> list[int]:
    """Indices by what a column holds of them; equals stay in the order that they have."""
    return sorted(indices, key=column.__getitem__)


def _names(entry: Entry) -> list[tuple[str, str]]:
    return [(copy.candidate.provider, copy.candidate.frame.id) for copy in entry.copies]


def _ranks(kept: Sequence[Entry]) -> list[int]:
    return [entry.local_rank for entry in kept]


def _exact_weights(
    one_of: Mapping[int, Entry], weights: Mapping[str, float], default_weight: float
) -> dict[int, Weight]:
    """Each lane's weight, by any one entry of it."""
    return {
        lane: exact_weight(weights.get(entry.provider, default_weight)).as_integer_ratio()
        for lane, entry in one_of.items()
    }


def _fused(held: Sequence[tuple[int, int]], k: int, weights: Mapping[int, Weight]) -> tuple[int, int]:
    """The sum as numerator and denominator. Not reduced: that would cost more than all the rest."""
    numerator, denominator = 0, 1
    for lane, place in held:
        above, below = weights[lane]
        below *= k + place
        numerator, denominator = numerator * below + above * denominator, denominator * below
    return numerator, denominator


def _numbered(sums: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The number of each sum, the largest being 0; equal ones have one.

    The float of a fraction is correctly rounded, so that it never contradicts the fraction: floats sort first because
    they are fast, and fractions decide among equal floats.
    """
    floats = {(above, below): -(above / below) for above, below in sums}
    numbers: dict[tuple[int, int], int] = {}
    following = 0
    for _, run in groupby(sorted(floats, key=floats.__getitem__), key=floats.__getitem__):
        tied = list(run)
        if len(tied) == 1:
            numbers[tied[0]] = following
            following += 1
            continue
        exact = {one: Fraction(*one) for one in tied}
        places = {value: place for place, value in enumerate(sorted(set(exact.values()), reverse=True), following)}
        numbers.update({one: places[value] for one, value in exact.items()})
        following += len(places)
    return numbers
