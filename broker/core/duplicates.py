"""Duplicates: which frames are the same evidence, and which copy stands for it.

Two frames are the same evidence when their bytes hash the same; under ``SAME_BYTES_OR_SOURCE`` also when their first
``file`` provenance names the same region. Frames are taken one by one; each joins the earliest kept frame that it
matches *directly*, or is kept. Matching is never inherited from a frame that was not kept, so that no frame can bridge
two others into one. A hash stands for each comparison: the walk is linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import is_not, itemgetter

from broker.core.audited import Reason
from broker.core.entries import Entry
from broker.core.frames import Frame, Provenance
from broker.core.request import Duplicates
from broker.core.slips import MAX_PROVENANCE

MAX_CONFLICTS = 16
"""Links from one frame to others that name its source region: the nearest in lane order."""

MAX_LENT_BYTES = 32 * 1024
"""UTF-8 bytes of provenance that a kept frame takes over from its copies: rivals cannot swell it beyond one message."""

_Source = tuple[str, str]
_Key = str | _Source

_STEP = itemgetter(0, 1, 2)


def join_duplicates(
    lanes: Sequence[Sequence[Entry]],
    mode: Duplicates,
    before: Callable[[Entry], tuple[float, ...]] | None = None,
) -> list[Entry]:
    """Finds the frame that stands for each piece of evidence, and numbers every lane.

    Frames are walked by place in their lane, then lane order. Sets ``lane_place``, ``duplicate_of``, ``others``,
    ``local_rank`` and, under ``SAME_BYTES``, ``conflicts``; drops every frame that joins another as ``DUPLICATE``.

    Args:
        lanes: Each lane's admitted frames, best first, in lane order.
        mode: Which frames are the same evidence.
        before: Sorts the walk before places do; None: places decide.

    Returns:
        The kept frames, in lane order, then best first.
    """
    by_source = mode is Duplicates.SAME_BYTES_OR_SOURCE
    every = list(chain.from_iterable(lanes))
    # By bytes alone, a frame whose bytes no other has needs no walk: it is kept, and nothing joins it.
    walk = _walk(lanes, by_source, range(len(every)) if by_source else _sharing(every))
    if before is not None:
        walk.sort(key=before)  # Sorting is stable: places decide among equals.
    stands_for = _join(walk, by_source)
    for lane in lanes:
        _number(lane, stands_for)
    kept = [entry for entry in every if entry.duplicate_of is None]
    if not by_source:
        _link_conflicts(kept)
    return kept


def joint_provenance(entry: Entry) -> tuple[tuple[Provenance, ...], int]:
    """Every copy's provenance, the kept one's first and nothing twice.

    Returns:
        All of the kept copy's own entries, of the others' as many as :data:`MAX_PROVENANCE` and
        :data:`MAX_LENT_BYTES` leave room for, and how many more there were.
    """
    own = entry.candidate.frame.provenance
    if not entry.others and len(own) <= 1:
        return own, 0
    # A dict keeps the order of first insertion.
    union = tuple(dict.fromkeys(step for copy in entry.copies for step in copy.candidate.frame.provenance))
    taken = len(set(entry.candidate.frame.provenance))
    room = MAX_LENT_BYTES
    for step in union[taken:MAX_PROVENANCE]:
        room -= len(f"{step.type}{step.uri}{step.range}{step.digest}{step.method}{step.by}".encode())
        if room < 0:
            break
        taken += 1
    return union[:taken], len(union) - taken


def first_copies(entry: Entry) -> list[Entry]:
    """Each provider's best copy of a kept entry's evidence, the kept one first: the copies that hold a lane place."""
    return [copy for copy in entry.copies if copy.lane_place]


def _source(frame: Frame) -> _Source | None:
    for step in frame.provenance:
        if step.type == "file":
            return (step.uri, step.range) if step.uri else None
    return None


def _sharing(every: Sequence[Entry]) -> list[int]:
    """The indices of the frames whose bytes another has too."""
    digests = [entry.candidate.digest for entry in every]
    first: dict[str, Entry] = {}
    firsts = map(first.setdefault, digests, every)
    shared = set(compress(digests, map(is_not, firsts, every)))
    return list(compress(range(len(digests)), map(shared.__contains__, digests))) if shared else []


def _walk(lanes: Sequence[Sequence[Entry]], by_source: bool, which: Sequence[int]) -> list[Entry]:
    """Entries by place in their lane, then lane order.

    A place is held by one frame of a lane alone, so that ids never have to decide. What repeats a frame of its own lane
    has no place: it comes right behind those of the place that the lane had come to, so that the walk never turns a
    lane's own order round.

    Args:
        lanes: All entries, lane by lane.
        by_source: Whether a frame is repeated by what has its source, and not its bytes alone.
        which: Indices, over all lanes, of those to walk; what repeats anything is among them with all that it repeats.
    """
    steps: list[tuple[int, bool, int, Entry]] = []
    start = done = 0
    for order, lane in enumerate(lanes):
        end = start + len(lane)
        first, done = done, bisect_left(which, end)
        seen: set[_Key | None] = set()
        repeats = 0
        for index in which[first:done]:
            entry = lane[index - start]
            keys = entry.candidate.digest, _source(entry.candidate.frame) if by_source else None
            fresh = seen.isdisjoint(keys)
            if fresh:
                seen.update(keys)
                seen.discard(None)
            else:
                repeats += 1
            steps.append((index - start + 1 - repeats, not fresh, order, entry))
        start = end
    # By all but the entry: of one step and lane there is one frame, or there are repeats in the order that they have.
    steps.sort(key=_STEP)
    return [entry for *_, entry in steps]


def _join(walk: Iterable[Entry], by_source: bool) -> dict[Entry, Entry]:
    """Keeps frames and joins others to them; gives the kept one of each that was joined."""
    kept: list[Entry] = []
    others: defaultdict[int, list[Entry]] = defaultdict(list)
    # Where in the list of kept ones the frame is that has a digest, or names a source.
    with_digest: dict[str, int] = {}
    with_source: dict[_Source, int] = {}
    for entry in walk:
        digest = entry.candidate.digest
        found = with_digest.get(digest)
        source = _source(entry.candidate.frame) if by_source else None
        if source is not None:
            of_source = with_source.get(source)
            if found is None or (of_source is not None and of_source < found):
                found = of_source
        if found is not None:
            others[found].append(entry)
            continue
        with_digest[digest] = len(kept)
        if source is not None:
            with_source[source] = len(kept)
        kept.append(entry)
    stands_for = {}
    for index, joined in others.items():
        one = kept[index]
        one.others, ref = joined, one.ref
        for entry in joined:
            stands_for[entry] = one
            entry.duplicate_of = ref
            same_bytes = entry.candidate.digest == one.candidate.digest
            entry.drop(Reason.DUPLICATE, "same bytes" if same_bytes else "same source")
    return stands_for


def _number(lane: Sequence[Entry], stands_for: Mapping[Entry, Entry]) -> None:
    """Gives a lane its places, one for each piece of evidence that it holds, and what it kept local ranks."""
    held: set[Entry] = set()
    place = local_rank = 0
    for entry in lane:
        if entry.duplicate_of is None:
            place += 1
            local_rank += 1
            entry.lane_place = place
            entry.local_rank = local_rank
            continue
        kept = stands_for[entry]
        # No walk turns a lane's own order round: what stands for a frame of its own lane came before it.
        if kept.lane_order != entry.lane_order and kept not in held:
            held.add(kept)
            place += 1
            entry.lane_place = place


def _link_conflicts(kept: Sequence[Entry]) -> None:
    first: dict[_Source, Entry] = {}
    groups: dict[_Source, list[Entry]] = {}
    for entry in kept:
        for step in entry.candidate.frame.provenance:
            if step.type == "file":
                if step.uri:
                    source = step.uri, step.range
                    other = first.setdefault(source, entry)
                    if other is not entry:
                        groups.setdefault(source, [other]).append(entry)
                break
    for group in groups.values():
        refs = [entry.ref for entry in group]
        for index, entry in enumerate(group):
            start = max(0, min(index - MAX_CONFLICTS // 2, len(group) - MAX_CONFLICTS - 1))
            end = start + MAX_CONFLICTS + 1
            entry.conflicts = (*refs[start:index], *refs[index + 1 : end])
