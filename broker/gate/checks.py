"""The properties T1 to T4 and the two checks beside them, each on one sample.

A check answers with what it found, or with None where the property holds. It is a function of the subject and the
sample alone, so that a sample can be made smaller while it still shows the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from broker.core.audited import AuditRow, Reason
from broker.core.composition import Composition
from broker.core.frames import content_digest
from broker.core.scores import Direction
from broker.gate.maps import CURVED, Curve, mapped, rescored
from broker.gate.samples import SCALES, Sample, SampleFrame, SampleLane
from broker.gate.subjects import Subject

_PRESSURE = frozenset(
    {
        Reason.DUPLICATE,
        Reason.FRAME_LIMIT,
        Reason.PROVIDER_FRAME_LIMIT,
        Reason.SOURCE_FRAME_LIMIT,
        Reason.OVER_BUDGET,
        Reason.BLOCK_TOO_LARGE,
    }
)
"""Reasons that say how a frame fared against others, which every policy decides; all others are its own affair."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        says: What was wrong.
        before: The composition of the sample; None: there was none to show.
        changed: The sample that should have made no difference; None: the sample itself was enough.
        after: Its composition.
    """

    says: str
    before: Composition | None = None
    changed: Sample | None = None
    after: Composition | None = None


Check = Callable[[Subject, Sample], Finding | None]


def non_interference(subject: Subject, sample: Sample) -> Finding | None:
    """T1: one provider's scores change nothing of another's drops by score, order in its lane, or standing."""
    before = subject.compose(sample)
    for turn, lane in enumerate(sample.lanes):
        changed = rescored(sample, lane.provider, sample.seed + turn)
        if changed == sample:
            continue
        after = subject.compose(changed)
        for other in sample.lanes:
            if other.provider != lane.provider and _own(before, other.provider) != _own(after, other.provider):
                says = f"other scores of {lane.provider} change what {other.provider} keeps by its own"
                return Finding(says, before, changed, after)
    return None


def monotone_invariance(
    subject: Subject, sample: Sample, curves: Sequence[Curve] = tuple(CURVED.values())
) -> Finding | None:
    """T2: a strictly increasing map of every provider's scores and floor, another for each, changes no byte."""
    before = subject.compose(sample)
    for turn in (sample.seed, sample.seed + 2):
        changed = mapped(sample, curves, turn)
        after = subject.compose(changed)
        if _without_floors(before) != _without_floors(after):
            says = "scores that keep their order in every lane give another " + (
                "prompt" if before.prompt != after.prompt else "audit"
            )
            return Finding(says, before, changed, after)
    return None


def no_pressure_no_drop(subject: Subject, sample: Sample) -> Finding | None:
    """T3: without limits a frame is left out for its own provider's floor, as a duplicate or as invalid, or not at all.

    What a reason says is not believed: floors, copies and slips are worked out again from the sample.
    """
    sample = sample.unpressed()
    composition = subject.compose(sample)
    rows = {(row.provider, row.frame_id): row for row in composition.audit}
    if Counter((row.provider, row.frame_id) for row in composition.audit) != Counter(
        (lane.provider, frame.id) for lane in sample.lanes for frame in lane.frames
    ):
        return Finding("without pressure, not every frame has exactly one row", composition)
    digests = {
        (lane.provider, frame.id): content_digest(frame.content) for lane in sample.lanes for frame in lane.frames
    }
    for lane in sample.lanes:
        for frame in lane.frames:
            row = rows[lane.provider, frame.id]
            if not (row.included or _rightly_out(lane, frame, row, rows, digests)):
                says = f"without pressure, {lane.provider} {frame.id} is left out as {row.reason}"
                return Finding(says, composition)
    return None


def arrival_and_names(subject: Subject, sample: Sample) -> Finding | None:
    """T4: order of arrival and batches change no byte; another lane order never turns a lane round."""
    before = subject.compose(sample)
    if subject.compose(sample) != before:
        return Finding("asked twice, it answers differently", before, sample, subject.compose(sample))
    for arrival in (1, 2):
        after = subject.compose(sample, arrival=arrival)
        if after != before:
            return Finding("another order of arrival gives another answer", before, sample, after)
    alone = sample.unshared().unpressed()
    names = [lane.provider for lane in alone.lanes]
    before, after = subject.compose(alone), subject.compose(alone, lane_order=tuple(reversed(names)))
    for one, other in zip(_ranked(before), _ranked(after), strict=False):
        if one != other:
            # The first place where they part must be one of two equals. Which of them comes first is the policy's
            # affair, worst first too; but two frames of one lane are never equal.
            if one[0] != other[0]:
                return None
            says = f"with the lanes turned round, {other[1]} of {other[0]} overtakes {one[1]} of its own lane"
            return Finding(says, before, alone, after)
    if len(_ranked(before)) != len(_ranked(after)):
        return Finding("with the lanes turned round, another number of frames is ranked", before, alone, after)
    return None


def local_ranks(subject: Subject, sample: Sample) -> Finding | None:
    """Ranks: the frames of a lane have local ranks 1 to n, each once."""
    composition = subject.compose(sample)
    for lane in sample.lanes:
        own = [row for row in composition.audit if row.provider == lane.provider]
        for field, numbers in (
            ("local rank", [row.local_rank for row in own]),
            ("lane place", [row.lane_place for row in own]),
        ):
            held = sorted(filter(None, numbers))
            if held != list(range(1, len(held) + 1)):
                return Finding(f"{lane.provider} has the {field}s {', '.join(map(str, held))}", composition)
    return None


def permutation(subject: Subject, sample: Sample) -> Finding | None:
    """Order: every frame is ranked exactly once, and nothing had to be repaired for it."""
    composition = subject.compose(sample)
    if composition.summary.strategy.repairs:
        return Finding(f"its order had to be repaired: {'; '.join(composition.summary.strategy.repairs)}", composition)
    ranks = sorted(row.rank for row in composition.audit if row.rank)
    if ranks != list(range(1, len(ranks) + 1)):
        return Finding(f"the ranks are {', '.join(map(str, ranks))}", composition)
    return None


def _own(composition: Composition, provider: str) -> tuple[object, ...]:
    """What of a provider's frames may depend on nothing but its own scores."""
    rows = [
        (row.frame_id, "" if row.reason in _PRESSURE else row.reason)
        for row in composition.audit
        if row.provider == provider
    ]
    return tuple(rows), *(lane.end for lane in composition.summary.lanes if lane.provider == provider)


def _without_floors(composition: Composition) -> Composition:
    """The composition but for the written values of its floors."""
    floors = tuple(replace(record, floor=replace(record.floor, value=0.0)) for record in composition.summary.floors)
    return replace(composition, summary=replace(composition.summary, floors=floors))


def _rightly_out(
    lane: SampleLane,
    frame: SampleFrame,
    row: AuditRow,
    rows: dict[tuple[str, str], AuditRow],
    digests: dict[tuple[str, str], str],
) -> bool:
    match row.reason:
        case Reason.INVALID:
            return not frame.title
        case Reason.BELOW_FLOOR:
            if frame.score is None or lane.floor is None:
                return False
            lower = SCALES[lane.provider].direction is Direction.LOWER_IS_BETTER
            return frame.score > lane.floor if lower else frame.score < lane.floor
        case Reason.DUPLICATE if row.duplicate_of is not None:
            kept = (row.duplicate_of.provider, row.duplicate_of.frame_id)
            return kept in rows and rows[kept].included and digests[kept] == digests[lane.provider, frame.id]
        case _:
            return False


def _ranked(composition: Composition) -> list[tuple[str, str]]:
    rows = sorted((row for row in composition.audit if row.rank), key=lambda row: row.rank)
    return [(row.provider, row.frame_id) for row in rows]
