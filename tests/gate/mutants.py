"""Cheats, each of which the gate must refuse: M1 to M18 of the hostile cases, built into the composition itself.

A cheat sees what a careless or dishonest change of our own code could see: the lanes with their scores.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from statistics import mean, pstdev
from unittest.mock import patch

from msgspec.structs import replace

from broker.core import duplicates, entries, packing, ranking
from broker.core.audited import AuditRow, Reason
from broker.core.compose import compose
from broker.core.composition import Composition
from broker.core.handles import Handle
from broker.core.lanes import Lane, LaneEnd
from broker.core.request import CompositionRequest, Policy
from broker.core.score_descending import by_raw_score
from broker.core.scores import LocalScore, raw_across_lanes
from broker.core.strategies import PluginStrategy, ReciprocalRankFusion, RoundRobin, ScoreDescending
from broker.gate.subjects import Composer, Subject

Key = tuple[str, str]


def raw(lanes: Sequence[Lane]) -> dict[Key, float]:
    """Every frame's raw number, higher is better; 0 where it has none."""
    return {
        (lane.provider, one.frame.id): raw_across_lanes(one.score) if one.score is not None else 0.0
        for lane in lanes
        for one in lane.candidates
    }


@contextmanager
def patched(name: str, stand_in: object) -> Iterator[None]:
    """Replaces a function of the core wherever the core uses it."""
    users = [m for key, m in sys.modules.items() if key.startswith("broker.core.") and hasattr(m, name)]
    with_all = [patch.object(module, name, stand_in) for module in users]
    for one in with_all:
        one.start()
    try:
        yield
    finally:
        for one in with_all:
            one.stop()


class Ordering:
    """A plugin that orders by a key which knows more than handles do."""

    name, version, description, parameters = "cheat", "1", "cheats", ()

    def __init__(self, order: Callable[[Sequence[Handle]], Sequence[int]]) -> None:
        self._order = order

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        return self._order(handles)


def ordered(
    lanes: Sequence[Lane],
    request: CompositionRequest,
    policy: Policy,
    order: Callable[[Sequence[Handle]], Sequence[int]],
) -> Composition:
    """The composition under an order of the cheat's."""
    cheat = replace(policy, plugins={"cheat": Ordering(order)})
    return compose(lanes, replace(request, strategy=PluginStrategy("cheat")), cheat)


def by_key(key: Callable[[Handle, float], object]) -> Composer:
    """Sorts handles by a key that is given each one's raw score."""

    def composer(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
        numbers = raw(lanes)
        return ordered(
            lanes,
            request,
            policy,
            lambda handles: [h.index for h in sorted(handles, key=lambda h: key(h, numbers[h.provider, h.frame_id]))],
        )

    return composer


def without(
    lanes: Sequence[Lane], request: CompositionRequest, policy: Policy, doomed: set[Key], reason: str
) -> Composition:
    """The composition as if some frames had been left out for a reason."""
    kept = [
        replace(lane, candidates=tuple(c for c in lane.candidates if (lane.provider, c.frame.id) not in doomed))
        for lane in lanes
    ]
    composition = compose(kept, request, policy)
    rows = tuple(
        AuditRow(
            provider=lane.provider,
            frame_id=one.frame.id,
            content_digest=one.digest,
            included=False,
            reason=reason,
        )
        for lane in sorted(lanes, key=lambda lane: lane.provider)
        for one in sorted(lane.candidates, key=lambda one: one.frame.id)
        if (lane.provider, one.frame.id) in doomed
    )
    return replace(composition, audit=(*composition.audit, *rows))


def cutting(which: Callable[[Sequence[Lane]], set[Key]]) -> Composer:
    """Leaves out frames by their scores, and calls it a floor."""

    def composer(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
        return without(lanes, request, policy, which(lanes), Reason.BELOW_FLOOR)

    return composer


def in_each_lane(part: Callable[[list[float], float], float], below: float) -> Callable[[Sequence[Lane]], set[Key]]:
    def which(lanes: Sequence[Lane]) -> set[Key]:
        doomed: set[Key] = set()
        for lane in lanes:
            own = raw([lane])
            if own and lane.candidates[0].score is not None and len(set(own.values())) > 1:
                doomed |= {key for key, number in own.items() if part(list(own.values()), number) < below}
        return doomed

    return which


def min_max(numbers: list[float], number: float) -> float:
    return round((number - min(numbers)) / (max(numbers) - min(numbers)), 9)


def z_score(numbers: list[float], number: float) -> float:
    return round((number - mean(numbers)) / pstdev(numbers), 9)


def raw_under_another_name(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    composition = compose(lanes, replace(request, strategy=ScoreDescending()), policy)
    record = replace(composition.summary.strategy, name="smart_blend", compares_raw_scores=False)
    return replace(composition, summary=replace(composition.summary, strategy=record))


def fused_cut(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """Below 1/65, that is beyond the fifth place of one lane alone, frames are dropped as too many."""
    request = replace(request, strategy=ReciprocalRankFusion(60))
    real = packing.pack

    def pack(ranked, *rest):
        places: dict[int, list[int]] = {
            id(entry): [copy.lane_place for copy in entry.copies if copy.lane_place] for entry in ranked
        }
        low = [e for e in ranked if sum(Fraction(1, 60 + p) for p in places[id(e)]) < Fraction(1, 65)]
        for entry in low:
            entry.drop(Reason.FRAME_LIMIT, "low")
        return real([entry for entry in ranked if entry not in low], *rest)

    with patched("pack", pack):
        return compose(lanes, request, policy)


def half_of_the_highest(lanes: Sequence[Lane]) -> set[Key]:
    numbers = raw(lanes)
    scored = {(lane.provider, c.frame.id) for lane in lanes for c in lane.candidates if c.score is not None}
    highest = max((numbers[key] for key in scored), default=0.0)
    return {key for key in scored if numbers[key] < highest / 2}


def better_scored_copy(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    real = duplicates.join_duplicates
    with patched("join_duplicates", lambda admitted, mode, before=None: real(admitted, mode, by_raw_score)):
        return compose(lanes, request, policy)


def last_quarter(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    real = packing.pack

    def pack(ranked, *rest):
        enough = len(ranked) - len(ranked) // 4
        for entry in ranked[enough:]:
            entry.drop(Reason.FRAME_LIMIT, "the last quarter")
        return real(ranked[:enough], *rest)

    with patched("pack", pack):
        return compose(lanes, request, policy)


def packs_by(key: Callable[[object], float], when: Callable[[CompositionRequest], bool]) -> Composer:
    def composer(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
        real = packing.pack

        def pack(ranked, *rest):
            walk = sorted(ranked, key=key, reverse=True) if when(request) else ranked
            return sorted(real(walk, *rest), key=lambda entry: entry.rank)

        with patched("pack", pack):
            return compose(lanes, request, policy)

    return composer


def number_of(entry) -> float:
    return 0.0 if entry.candidate.score is None else raw_across_lanes(entry.candidate.score)


def diverse(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """Maximal marginal relevance over raw scores: the next one is good and from a lane not heard lately."""
    numbers = raw(lanes)

    def order(handles: Sequence[Handle]) -> list[int]:
        left, taken = list(handles), []
        while left:
            heard = [h.provider for h in taken[-2:]]
            best = max(left, key=lambda h: (numbers[h.provider, h.frame_id] - 0.3 * (h.provider in heard), -h.index))
            left.remove(best)
            taken.append(best)
        return [h.index for h in taken]

    return ordered(lanes, request, policy, order)


def outlier_sits_out(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """A provider whose scores lie far from the others' is quarantined."""
    means = {
        lane.provider: mean(raw([lane]).values())
        for lane in lanes
        if lane.candidates and lane.candidates[0].score is not None
    }
    out = {
        name
        for name, own in means.items()
        if len(means) > 2 and abs(own - mean(other for n, other in means.items() if n != name)) > 0.5
    }
    kept = [
        Lane(lane.provider, lane.scale, LaneEnd.QUARANTINED, "an outlier") if lane.provider in out else lane
        for lane in lanes
    ]
    return compose(kept, request, policy)


def arrival_decides(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    with patched("in_lane_order", lambda lanes, configured: list(lanes)):
        return compose(lanes, request, policy)


def hashes_decide(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    return ordered(
        lanes,
        request,
        policy,
        lambda handles: [h.index for h in sorted(handles, key=lambda h: (h.local_rank, hash(h.provider)))],
    )


class ScoredHandle(Handle, frozen=True, dict=True, gc=True):
    """A handle with a score that is not even a field."""


class CallableHandle(Handle, frozen=True):
    """A handle that knows a function which knows the entry."""

    better: Callable[[Handle], bool] = bool


def leaking(leak: Callable[[Handle, entries.Entry], Handle]) -> Composer:
    """Gives policies handles through which a score can be reached."""
    real = ranking.handles_of

    def composer(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
        with patched("handles_of", lambda kept: [leak(h, e) for h, e in zip(real(kept), kept, strict=True)]):
            return compose(lanes, request, policy)

    return composer


def fields_of(handle: Handle) -> dict[str, object]:
    return {name: getattr(handle, name) for name in Handle.__struct_fields__}


def with_score(handle: Handle, entry: entries.Entry) -> Handle:
    leaky = ScoredHandle(**fields_of(handle))
    vars(leaky)["_score"] = number_of(entry)
    return leaky


def with_closure(handle: Handle, entry: entries.Entry) -> Handle:
    return CallableHandle(**fields_of(handle), better=lambda other: entry.candidate.score is not None)


class ScoredRank(int):
    """A local rank with a score that no arithmetic shows."""

    score: float


def ranked_by(column: Callable[[entries.Entry], float]) -> Composer:
    """Gives built-in policies another column of local ranks."""

    def composer(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
        with patched("_ranks", lambda kept: [column(entry) for entry in kept]):
            return compose(lanes, request, policy)

    return composer


def with_scored_rank(entry: entries.Entry) -> ScoredRank:
    leaky = ScoredRank(entry.local_rank)
    leaky.score = number_of(entry)
    return leaky


class FrameWalker:
    """Looks for scores in the frames above it."""

    name, version, description, parameters = "frame_walker", "1", "walks", ()

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        frame = sys._getframe()
        found: dict[Key, LocalScore] = {}
        while frame is not None and not found:
            for value in list(frame.f_locals.values()):
                if isinstance(value, list):
                    found |= {
                        (e.provider, e.candidate.frame.id): e.candidate.score
                        for e in value
                        if isinstance(e, entries.Entry) and e.candidate.score is not None
                    }
            frame = frame.f_back
        number = {key: raw_across_lanes(score) for key, score in found.items()}
        return [h.index for h in sorted(handles, key=lambda h: -number.get((h.provider, h.frame_id), 0.0))]


def shared_ranks(lanes: Sequence[Lane], request: CompositionRequest, policy: Policy) -> Composition:
    """Frames of one lane that have one score are told to have one local rank."""
    numbers = raw(lanes)
    composition = compose(lanes, request, policy)
    first: defaultdict[str, dict[float, int]] = defaultdict(dict)
    rows = []
    for row in composition.audit:
        if row.local_rank and (row.provider, row.frame_id) in numbers:
            number = numbers[row.provider, row.frame_id]
            row = replace(row, local_rank=first[row.provider].setdefault(number, row.local_rank))
        rows.append(row)
    return replace(composition, audit=tuple(rows))


class Careless:
    """Leaves an index out, repeats one and invents one."""

    name, version, description, parameters = "careless", "1", "miscounts", ()

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        return [*(h.index for h in handles[1:]), *(h.index for h in handles[1:2]), len(handles)]


def mutant(name: str, composer: Composer) -> Subject:
    return Subject(
        name=name,
        strategies=(RoundRobin(),),
        composer=composer,
        origin=f"subject:tests.gate.mutants:{name}",
    )


def plugin_mutant(name: str, plugin: object) -> Subject:
    return Subject(name=name, strategies=(PluginStrategy(plugin.name),), plugin=plugin)


M1 = mutant("M1", raw_under_another_name)
M2 = mutant("M2", cutting(in_each_lane(min_max, 0.4)))
M3 = mutant("M3", cutting(in_each_lane(z_score, -0.8)))
M4 = mutant("M4", fused_cut)
M5 = mutant("M5", cutting(half_of_the_highest))
M6 = mutant("M6", by_key(lambda h, number: (h.local_rank, -number, h.lane_order)))
M6_column = mutant("M6_column", ranked_by(lambda e: e.local_rank - number_of(e) / 10**9))
M7 = mutant("M7", better_scored_copy)
M8 = mutant("M8", last_quarter)
M9 = mutant(
    "M9", packs_by(lambda e: (number_of(e) / e.block.cost, -e.rank), lambda request: request.max_tokens < 10**6)
)
M10 = mutant("M10", diverse)
M11 = mutant("M11", by_key(lambda h, number: (-number * {"ash": 2.0}.get(h.provider, 1.0), h.lane_order, h.local_rank)))
M12 = mutant("M12", outlier_sits_out)
M13 = mutant("M13", packs_by(lambda e: (number_of(e), -e.rank), lambda request: request.max_frames is not None))
M14 = mutant("M14", arrival_decides)
M15 = mutant("M15", hashes_decide)
M16_handle = mutant("M16_handle", leaking(with_score))
M16_closure = mutant("M16_closure", leaking(with_closure))
M16_column = mutant("M16_column", ranked_by(with_scored_rank))
M16_frame = plugin_mutant("M16_frame", FrameWalker())
M17 = mutant("M17", shared_ranks)
M18 = plugin_mutant("M18", Careless())

CAUGHT_BY: Mapping[str, tuple[Subject, set[str], set[str]]] = {
    "M1": (M1, {"T2"}, set()),
    "M2": (M2, {"T2", "T3"}, {"T1"}),
    "M3": (M3, {"T2", "T3"}, {"T1"}),
    "M4": (M4, {"T3"}, {"T1", "T2", "T4", "T5"}),
    "M5": (M5, {"T1", "T2", "T3"}, set()),
    "M6": (M6, {"T2"}, {"T1", "T3", "T4", "T5"}),
    "M6 column": (M6_column, {"T2"}, {"T1", "T3"}),
    "M7": (M7, {"T2"}, set()),
    "M8": (M8, {"T3"}, {"T1", "T2", "T4", "T5"}),
    "M9": (M9, {"T2"}, set()),
    "M10": (M10, {"T2"}, set()),
    "M11": (M11, {"T2"}, set()),
    "M12": (M12, {"T1"}, set()),
    "M13": (M13, {"T2"}, set()),
    "M14": (M14, {"T4"}, set()),
    "M15": (M15, {"T4"}, {"T1", "T2", "T3", "T5"}),
    "M16 handle": (M16_handle, {"T5"}, set()),
    "M16 closure": (M16_closure, {"T5"}, set()),
    "M16 column": (M16_column, {"T5"}, {"T1", "T2", "T3", "T4"}),
    "M16 frame": (M16_frame, {"T5"}, set()),
    "M17": (M17, {"ranks"}, {"T1", "T2", "T3", "T4", "T5"}),
    "M18": (M18, {"order"}, set()),
}
"""Each cheat, the properties that must refuse it, and those that it must pass: what they cannot see."""
