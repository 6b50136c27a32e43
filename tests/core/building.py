"""What the tests of the core share: short ways to lanes, compositions and rows, and a reader of prompts."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import astuple, replace

from broker.core.audited import AuditRow
from broker.core.compose import compose
from broker.core.composition import Composition
from broker.core.entries import Entry, best_first
from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, Unreadable
from broker.core.request import CompositionRequest, Policy
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)

POLICY = Policy(seal_key=b"the key of the tests")
AMPLE = Grant(max_frames=1_000_000, max_tokens=1_000_000_000)
ANY = ScoreScale("any", -math.inf, math.inf)
DISTANCE = ScoreScale("dist", 0.0, 2.0, Direction.LOWER_IS_BETTER)
AS_SENT = ScoreScale("none", direction=Direction.AS_SENT)

ORDINAL = (
    RoundRobin(),
    PerProviderQuota(2),
    TrustWeighted({"a": 2.0, "b": 0.5}, 1.0),
    ReciprocalRankFusion(),
    ReciprocalRankFusion(2, {"b": 0.0}),
    Precomputed((("b", "f1"), ("a", "f2")), "mine"),
)
"""Policies that see no score."""
EVERY = (*ORDINAL, ScoreDescending())


def frame(frame_id: str, score: float | None = 0.5, content: str | None = None, **fields) -> Frame:
    """A frame whose content, where none is given, is its id: one id in two lanes is the same evidence."""
    return Frame(frame_id, fields.pop("title", frame_id), frame_id if content is None else content, score, **fields)


def lane(
    provider: str,
    frames: Iterable[Frame | Unreadable] | Mapping[str, float | None],
    scale: ScoreScale = UNIT,
    end: LaneEnd = LaneEnd.COMPLETE,
    grant: Grant = AMPLE,
) -> Lane:
    """A lane as intake makes it; a mapping of ids to scores stands for frames of those."""
    if isinstance(frames, Mapping):
        frames = [frame(frame_id, score) for frame_id, score in frames.items()]
    intake = LaneIntake(provider, scale, grant)
    intake.take(frames)
    return intake.close(end, "as the test says")


def referents(thing: object) -> list[object]:
    """All that an object refers to; what the collector does not follow says it by its fields."""
    return [*gc.get_referents(thing), *(astuple(thing) if isinstance(thing, Struct) else ())]


def entries(*lanes: Lane) -> list[list[Entry]]:
    """Each lane's entries, best first; lanes in the order given."""
    return [best_first(one, order) for order, one in enumerate(lanes)]


def composed(*lanes: Lane, policy: Policy = POLICY, max_tokens: int = 1_000_000, **request) -> Composition:
    return compose(lanes, CompositionRequest(max_tokens=max_tokens, **request), policy)


def ranked(composition: Composition) -> list[str]:
    """Frame ids, best rank first."""
    return [row.frame_id for row in sorted(composition.audit, key=lambda row: row.rank) if row.rank]


def placed(composition: Composition) -> list[str]:
    """Frame ids from the top of the prompt."""
    return [one.frame.id for one in composition.placed]


def row(composition: Composition, provider: str, frame_id: str) -> AuditRow:
    """The one row of a frame."""
    (found,) = [r for r in composition.audit if (r.provider, r.frame_id) == (provider, frame_id)]
    return found


def excluded(composition: Composition) -> dict[str, str]:
    """Reason by frame id, for frames that were left out."""
    return {r.frame_id: r.reason for r in composition.audit if not r.included}


def without_floor_values(composition: Composition) -> Composition:
    """The composition but for the written values of its floors."""
    floors = tuple(replace(record, floor=replace(record.floor, value=0.0)) for record in composition.summary.floors)
    return replace(composition, summary=replace(composition.summary, floors=floors))


@dataclass(frozen=True)
class Read:
    """A block as a reader of the prompt finds it."""

    seal: str | None
    provider: str
    frame_id: str
    kind: str
    label: str
    content: str


_VALUE = '"([^"<>\n\r\t]*)"'
_BLOCK = re.compile(
    rf'<frame(?: seal="([A-Z2-7]{{10}})")? provider={_VALUE} id={_VALUE} kind={_VALUE} label={_VALUE}>\n',
)


def read_blocks(evidence: str) -> list[Read]:
    """Reads blocks back, knowing the format and nothing of the renderer.

    Raises:
        ValueError: What stands there is no sequence of blocks.
    """
    found = []
    at = 0
    while at < len(evidence):
        opening = _BLOCK.match(evidence, at)
        if opening is None:
            raise ValueError(f"no opening line at {at}: {evidence[at : at + 60]!r}")
        seal = opening[1]
        closing = f'\n</frame seal="{seal}">\n' if seal else "\n</frame>\n"
        end = evidence.find(closing, opening.end())
        if end < 0:
            raise ValueError(f"no closing line for {opening[0]!r}")
        found.append(Read(seal, *map(turned_back, opening.groups()[1:]), turned_back(evidence[opening.end() : end])))
        at = end + len(closing)
    return found


def turned_back(text: str) -> str:
    """Turns every escape back into its character."""
    first, *rest = text.split("⟦U+")
    return first + "".join(
        chr(int(digits, 16)) + tail for digits, tail in (part.split("⟧", maxsplit=1) for part in rest)
    )


def evidence_of(composition: Composition) -> str:
    """The prompt without preamble and closing."""
    return composition.prompt.removeprefix(composition.preamble).removesuffix(composition.closing)
