"""Entries: one composition's working record of each checked frame.

The stages fill an entry in, one after the other, and the audit is written from it. Entries never leave the core: a
:class:`~broker.core.plan.Plan` carries them from one of its steps to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, lt

from msgspec import Struct

from broker.core.frames import Frame, FrameRef
from broker.core.lanes import Candidate, Lane
from broker.core.render.renderer import Block
from broker.core.scores import lane_keys


class Entry(Struct, eq=False, gc=False):
    """One checked frame on its way.

    No entry leads back to itself: a kept one knows its copies, and a copy knows the kept one by its name.

    Attributes:
        candidate: The frame.
        lane_order: Place of its lane among all, from 0.
        reason: Why it is left out, a :class:`~broker.core.audited.Reason`; empty: it still stands.
        detail: The reason's particulars.
        lane_place: Its place in its lane after floors and own repeats, from 1; 0: none.
        duplicate_of: The frame that stands for its evidence, where that is another.
        others: Of a kept entry: every other entry that it stands for.
        local_rank: Its place in its lane once duplicates are gone, from 1; 0: none.
        rank: Its place over all lanes, from 1; 0: none.
        prior_rank: Its place before a reranker, where one was applied; 0: none.
        rerank_score: The reranker's score; None: none.
        position: Its place in the prompt, from 1; 0: none.
        block: Its rendered block; None: not rendered.
        remaining: Tokens left when packing came to it, where it was over the budget.
        conflicts: Frames that name the same source region with other bytes.
    """

    candidate: Candidate
    lane_order: int
    reason: str = ""
    detail: str = ""
    lane_place: int = 0
    duplicate_of: FrameRef | None = None
    others: Sequence[Entry] = ()
    local_rank: int = 0
    rank: int = 0
    prior_rank: int = 0
    rerank_score: float | None = None
    position: int = 0
    block: Block | None = None
    remaining: int = 0
    conflicts: tuple[FrameRef, ...] = ()

    @property
    def provider(self) -> str:
        """Whose frame it is."""
        return self.candidate.provider

    @property
    def ref(self) -> FrameRef:
        """The frame's name."""
        return FrameRef(self.candidate.provider, self.candidate.frame.id)

    @property
    def copies(self) -> Sequence[Entry]:
        """Of a kept entry: every entry that it stands for, itself first."""
        return self, *self.others

    def drop(self, reason: str, detail: str = "") -> None:
        """Leaves the frame out."""
        self.reason = reason
        self.detail = detail


_SEQUENCE = attrgetter("sequence")


def in_lane_order(lanes: Sequence[Lane], configured: Sequence[str]) -> list[Lane]:
    """Lanes in the operator's order, then by name.

    Raises:
        ValueError: Two lanes have one provider.
    """
    place = {name: index for index, name in enumerate(configured)}
    # Python compares strings by code point, which is the order of their UTF-8 bytes.
    ordered = sorted(lanes, key=lambda lane: (place.get(lane.provider, len(place)), lane.provider))
    for lane, following in pairwise(ordered):
        if lane.provider == following.provider:
            raise ValueError(f"two lanes of {lane.provider!r} in one composition")
    return ordered


def stand_in_order(ranked: Iterable[Entry]) -> None:
    """Gives kept frames their ranks, and forgets what became of them after they were ranked before."""
    for rank, entry in enumerate(ranked, 1):
        if entry.rank:
            entry.prior_rank, entry.rerank_score = 0, None
            entry.reason = entry.detail = ""
            entry.position = entry.remaining = 0
        entry.rank = rank


def best_first(lane: Lane, lane_order: int) -> list[Entry]:
    """A lane's frames by score, frame id and declared digest (absent first); as sent where it sends no scores."""
    scores = [candidate.score for candidate in lane.candidates if candidate.score is not None]
    if len(scores) < len(lane.candidates):
        return [Entry(candidate, lane_order) for candidate in sorted(lane.candidates, key=_SEQUENCE)]
    keys = lane_keys(scores, lane.provider)
    ordered: Sequence[Candidate] = lane.candidates
    if not all(map(lt, keys, keys[1:])):
        # Not best first already with no two alike, as most lanes come.
        places = sorted(range(len(keys)), key=keys.__getitem__)
        ordered = [lane.candidates[place] for place in places]
        if len(set(keys)) < len(keys):
            # Runs of one score are sorted each on its own: most scores are had by one frame alone.
            runs = groupby(places, key=keys.__getitem__)
            ordered = [one for _, run in runs for one in _sorted_run([lane.candidates[place] for place in run])]
    return [Entry(candidate, lane_order) for candidate in ordered]


def _sorted_run(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates of one score by frame id, declared digest and, where that leaves two alike, by all else."""
    if len(candidates) == 1:
        return candidates
    decided = len({(one.frame.id, one.frame.content_digest) for one in candidates}) == len(candidates)
    return sorted(candidates, key=_deciding if decided else _total)


def _deciding(candidate: Candidate) -> tuple[str, str]:
    return candidate.frame.id, candidate.frame.content_digest


def _total(candidate: Candidate) -> tuple[object, ...]:
    """What decides, and the rest, so that frames of one id and one content stand alike whichever came first."""
    return *_deciding(candidate), _remaining_fields(candidate.frame)


def _remaining_fields(frame: Frame) -> tuple[object, ...]:
    return (
        frame.title,
        frame.kind,
        frame.citation_label,
        frame.uri,
        [(p.type, p.uri, p.range, p.digest, p.method, p.by) for p in frame.provenance],
        [(r.rel, r.target_uri, r.display_name) for r in frame.relations],
        frame.valid_from,
        frame.valid_to,
        frame.recorded_at,
        frame.token_cost is not None,
        frame.content,
    )
