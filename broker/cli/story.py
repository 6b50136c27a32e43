"""Each frame's story: who offered it, what it was merged with, where it ranked and why, and where it stands or why not.

A story is told from the audit alone. Its texts are cleaned for a terminal; what makes pages of them escapes them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from broker.cli.left_out import meaning_of, particulars
from broker.cli.text import clean, listed, plainly, plural
from broker.cli.why import Reasons, shown_score
from broker.core.audited import AuditRow, RerankOutcome
from broker.core.composition import Composition, Placed
from broker.core.frames import FrameRef


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a frame.

    Attributes:
        name: Of the stage, one word.
        text: What happened.
        brief: The same in a table that says provider, rank and place; empty: nothing is left to say.
    """

    name: str
    text: str
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """One offered frame's way.

    Attributes:
        row: Its audit row.
        placed: Where it stands; None: it was left out.
        copies: Of its evidence, other than itself, where it stands for them.
        steps: What happened to it, in order.
    """

    row: AuditRow
    placed: Placed | None
    copies: tuple[FrameRef, ...]
    steps: tuple[Step, ...]

    @property
    def ref(self) -> FrameRef:
        """The frame's name."""
        return FrameRef(self.row.provider, self.row.frame_id)

    @property
    def line(self) -> str:
        """The whole story on one line."""
        return "; ".join(step.text for step in self.steps if step.name in _TOLD)

    @property
    def brief(self) -> str:
        """The part of the story that rank, provider and place do not tell, for a table that has these."""
        return "; ".join(step.brief for step in self.steps if step.brief)


NO_CONTENT = "its content was not kept"
"""What stands in the place of a block that a broker has no record of."""

_TOLD = frozenset({"offered", "merged", "ranked", "reranked", "packed", "placed", "left out"})
"""Steps that the one line is made of."""


def shown(ref: FrameRef) -> str:
    """``provider/id`` of a frame."""
    return f"{clean(ref.provider)}/{clean(ref.frame_id) or '(no id)'}"


def stories(composition: Composition) -> list[Story]:
    """Every frame's story: ranked ones by rank, then the others as the audit has them."""
    teller = _Teller(composition)
    rows = enumerate(composition.audit)
    ordered = sorted(rows, key=lambda place: (not place[1].rank, place[1].rank, place[0]))
    return [teller.story(row) for _, row in ordered]


class _Teller:
    def __init__(self, composition: Composition) -> None:
        self._composition = composition
        self._why = Reasons(composition)
        self._placed = {placed.position: placed for placed in composition.placed}
        self._lanes = {lane.provider: lane for lane in composition.summary.lanes}
        self._floors = {record.floor.provider: record.floor for record in composition.summary.floors}
        self._copies: dict[FrameRef, list[FrameRef]] = defaultdict(list)
        for row in composition.audit:
            if row.duplicate_of is not None:
                self._copies[row.duplicate_of].append(FrameRef(row.provider, row.frame_id))

    def story(self, row: AuditRow) -> Story:
        ref = FrameRef(row.provider, row.frame_id)
        copies = tuple(self._copies[ref]) if row.local_rank else ()
        placed = self._placed.get(row.position) if row.included else None
        return Story(row, placed, copies, tuple(self._steps(row, copies, placed)))

    def _steps(self, row: AuditRow, copies: tuple[FrameRef, ...], placed: Placed | None) -> Iterator[Step]:
        yield Step("offered", self._offered(row))
        if row.score is not None:
            yield Step("scored", f"{shown_score(row)}, in its provider's own scale")
        if row.provider in self._floors and row.reason != "BELOW_FLOOR" and (row.lane_place or row.rank):
            yield Step("floor", f"at or above the floor of {clean(row.provider)}")
        if row.duplicate_of is not None:
            how = f" ({clean(row.detail)})" if row.detail else ""
            yield Step(
                "merged",
                f"merged into {shown(row.duplicate_of)}{how}, which stands for it",
                f"see {shown(row.duplicate_of)}",
            )
        if copies:
            yield Step("merged", f"stands for {_names(copies)} too", f"also of {_providers(copies)}")
        if row.conflicts:
            told = f"names the source region of {_names(row.conflicts)}, with other bytes"
            yield Step("conflict", told, f"in conflict with {plural(len(row.conflicts), 'frame')}")
        if row.rank:
            yield from self._ranked(row)
        if placed is not None:
            yield Step("packed", f"{plural(row.cost, 'token')}, fits", plural(row.cost, "token"))
            yield Step("placed", f"placed {placed.position} of {placed.total}")
            yield Step("cited", f"as {plainly(placed.citation_label)}")
        elif row.duplicate_of is None:
            told = particulars(row) or meaning_of(row.reason)
            yield Step("left out", f"left out, {clean(row.reason)}: {told}", told)
        if row.escaped_characters or row.neutralised_fences or row.role_tokens:
            made = [
                plural(row.escaped_characters, "hidden character") + " made visible" if row.escaped_characters else "",
                plural(row.neutralised_fences, "fence look-alike") + " neutralised" if row.neutralised_fences else "",
                plural(row.role_tokens, "role token") + " of chat formats left as data" if row.role_tokens else "",
            ]
            yield Step("rendered", listed([text for text in made if text]))

    def _offered(self, row: AuditRow) -> str:
        lane = self._lanes.get(row.provider)
        place = row.local_rank or row.lane_place
        of = f" of its {plural(lane.offered, 'frame')}" if lane is not None else ""
        return f"offered by {clean(row.provider)}" + (f", #{place}{of}" if place else "")

    def _ranked(self, row: AuditRow) -> Iterator[Step]:
        strategy, rerank = self._composition.summary.strategy.name, self._composition.summary.rerank
        why = self._why.by_strategy(row)
        yield Step("ranked", f"rank {row.prior_rank or row.rank} ({why}) by {clean(strategy)}", why)
        if row.prior_rank and rerank is not None:
            given = f"score {float(row.rerank_score):.4g}" if row.rerank_score else "without a score"
            yield Step(
                "reranked",
                f"rank {row.rank} by {clean(rerank.name)}, {given}, was {row.prior_rank}",
                f"{given}, was {row.prior_rank}",
            )
        elif rerank is not None and rerank.outcome is RerankOutcome.FALLBACK:
            yield Step("rerank", f"{clean(rerank.name)} was not applied: {clean(rerank.message)}")


def _names(refs: tuple[FrameRef, ...]) -> str:
    return listed([shown(ref) for ref in refs])


def _providers(refs: tuple[FrameRef, ...]) -> str:
    return listed(list(dict.fromkeys(clean(ref.provider) for ref in refs)))
