"""Duplicates: which frames are the same evidence, and which copy stands for it.

Two frames are the same evidence when their bytes hash the same; under ``SAME_BYTES_OR_SOURCE`` also when their first
``file`` provenance names the same region. Frames are taken one by one; each joins the earliest kept frame that it
matches *directly*, or is kept. Matching is never inherited from a frame that was not kept, so that no frame can bridge
two others into one. A hash stands for each comparison: the walk is linear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from broker.core.audited import Reason
from broker.core.entries import Entry
from broker.core.frames import Frame, Provenance
from broker.core.intake import MAX_PROVENANCE
from broker.core.request import Duplicates

MAX_CONFLICTS = 16
"""Links from one frame to others that name its source region: the nearest in lane order."""

MAX_LENT_BYTES = 32 * 1024
"""UTF-8 bytes of provenance that a kept frame takes over from its copies: rivals cannot swell it beyond one message."""

_Source = tuple[str, str]
_Key = str | _Source


def join_duplicates(
    lanes: Sequence[Sequence[Entry]],
    mode: Duplicates,
    before: Callable[[Entry], tuple[float, ...]] | None = None,
) -> list[Entry]:
    """Finds the frame that stands for each piece of evidence, and numbers every lane.

    Frames are walked by place in their lane, then lane order. Sets ``lane_place``, ``kept``, ``copies``,
    ``local_rank`` and, under ``SAME_BYTES``, ``conflicts``; drops every frame that joins another as ``DUPLICATE``.

    Args:
        lanes: Each lane's admitted frames, best first, in lane order.
        mode: Which frames are the same evidence.
        before: Sorts the walk before places do; None: places decide.

    Returns:
        The kept frames, in lane order, then best first.
    """
    walk: list[tuple[tuple[float, ...], Entry]] = []
    for lane in lanes:
        for position, (place, repeat, entry) in enumerate(_own_places(lane, mode)):
            first = before(entry) if before is not None else ()
            # A lane's place is held by one frame alone, so that ids never have to decide. Repeats come right behind
            # the frame that they follow: the walk never turns a lane's own order round.
            walk.append(((*first, place, repeat, entry.lane_order, position), entry))
    walk.sort(key=lambda step: step[0])
    _join((entry for _, entry in walk), mode)
    kept = [entry for lane in lanes for entry in _number(lane)]
    if mode is Duplicates.SAME_BYTES:
        _link_conflicts(kept)
    return kept


def joint_provenance(entry: Entry) -> tuple[tuple[Provenance, ...], int]:
    """Every copy's provenance, the kept one's first and nothing twice.

    Returns:
        All of the kept copy's own entries, of the others' as many as :data:`MAX_PROVENANCE` and
        :data:`MAX_LENT_BYTES` leave room for, and how many more there were.
    """
    own = entry.candidate.frame.provenance
    if len(entry.copies) == 1 and len(own) <= 1:
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


def _keys(entry: Entry, mode: Duplicates) -> tuple[_Key, ...]:
    source = _source(entry.candidate.frame) if mode is Duplicates.SAME_BYTES_OR_SOURCE else None
    return (entry.candidate.digest,) if source is None else (entry.candidate.digest, source)


def _own_places(lane: Sequence[Entry], mode: Duplicates) -> Iterator[tuple[int, bool, Entry]]:
    """Each frame with its place among those that repeat nothing of their own lane, and whether it repeats something."""
    seen: set[_Key] = set()
    place = 0
    for entry in lane:
        keys = _keys(entry, mode)
        repeat = not seen.isdisjoint(keys)
        if not repeat:
            seen.update(keys)
            place += 1
        yield place, repeat, entry


def _join(walk: Iterable[Entry], mode: Duplicates) -> None:
    kept_by: dict[_Key, tuple[int, Entry]] = {}
    for index, entry in enumerate(walk):
        keys = _keys(entry, mode)
        matches = [kept_by[key] for key in keys if key in kept_by]
        if matches:
            _, kept = min(matches, key=lambda match: match[0])
            entry.kept = kept
            kept.copies.append(entry)
            entry.drop(Reason.DUPLICATE, "same bytes" if kept.candidate.digest == keys[0] else "same source")
        else:
            entry.kept = entry
            entry.copies = [entry]
            kept_by.update(dict.fromkeys(keys, (index, entry)))


def _number(lane: Sequence[Entry]) -> Iterator[Entry]:
    """Gives a lane its places, one for each piece of evidence that it holds, and yields what it kept."""
    held: set[Entry | None] = set()
    local_rank = 0
    for entry in lane:
        if entry.kept not in held:
            held.add(entry.kept)
            entry.lane_place = len(held)
        if entry.kept is entry:
            local_rank += 1
            entry.local_rank = local_rank
            yield entry


def _link_conflicts(kept: Sequence[Entry]) -> None:
    by_source: defaultdict[_Source, list[Entry]] = defaultdict(list)
    for entry in kept:
        source = _source(entry.candidate.frame)
        if source is not None:
            by_source[source].append(entry)
    for group in by_source.values():
        for index, entry in enumerate(group):
            start = max(0, min(index - MAX_CONFLICTS // 2, len(group) - MAX_CONFLICTS - 1))
            near = group[start : start + MAX_CONFLICTS + 1]
            entry.conflicts = tuple(other.ref for other in near if other is not entry)
