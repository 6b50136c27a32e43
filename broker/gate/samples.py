"""Generated sets of evidence: the same for one seed on every machine, small ones first.

Several lanes on scales of every kind, one of which is lower-is-better and one sends no scores; equal scores, evidence
that several lanes hold, repeats, floors, a frame that is dropped alone; with pressure of budget and count, and without.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd
from broker.core.request import CompositionRequest, Floor
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.strategies import Strategy

# The numbers of lanes lie among each other, or a policy that compared them would go unseen.
SCALES: Mapping[str, ScoreScale] = {
    "ash": UNIT,
    "birch": ScoreScale("loss", -1.0, 0.5, Direction.LOWER_IS_BETTER),
    "cedar": ScoreScale("gain", 0.0, math.inf),
    "elm": ScoreScale("none", direction=Direction.AS_SENT),
    "fir": UNIT,
}
"""Every provider of the samples."""

AMPLE = 10_000_000
"""Tokens that are no pressure."""

_GRANT = Grant(max_frames=1000, max_tokens=AMPLE)
_GRID = 40
_LARGE_FROM = 45
_MANY = 40
"""Frames of a lane, at most, from that sample on: a policy that keeps the first so many of a prompt is seen."""
_KINDS = ("snippet", "doc", "fact")
_TIMES = ("", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")


@dataclass(frozen=True, slots=True)
class SampleFrame:
    """One frame; ``score`` is None where its lane sends none, and an empty ``title`` makes it a slip."""

    id: str
    title: str
    content: str
    score: float | None
    kind: str
    recorded_at: str


@dataclass(frozen=True, slots=True)
class SampleLane:
    """One provider's frames, in the order sent; its scale is that of :data:`SCALES`."""

    provider: str
    frames: tuple[SampleFrame, ...]
    floor: float | None

    @property
    def scale(self) -> ScoreScale:
        """Of its scores."""
        return SCALES[self.provider]

    @property
    def numbers(self) -> list[float]:
        """Its scores and its floor, each once, ascending."""
        scores = [frame.score for frame in self.frames if frame.score is not None]
        return sorted({*scores, *(() if self.floor is None else (self.floor,))})

    def mapped(self, numbers: Mapping[float, float]) -> SampleLane:
        """The lane with every number replaced."""
        frames = tuple(
            frame if frame.score is None else replace(frame, score=numbers[frame.score]) for frame in self.frames
        )
        return replace(self, frames=frames, floor=None if self.floor is None else numbers[self.floor])


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of evidence and what is asked of it; no limit where one is None."""

    seed: int
    lanes: tuple[SampleLane, ...]
    max_tokens: int | None = None
    max_frames: int | None = None
    max_frames_per_provider: int | None = None

    @property
    def size(self) -> int:
        """Frames in all."""
        return sum(len(lane.frames) for lane in self.lanes)

    def unpressed(self) -> Sample:
        """The same without limits."""
        return replace(self, max_tokens=None, max_frames=None, max_frames_per_provider=None)

    def unshared(self) -> Sample:
        """The same with no evidence in two lanes."""
        lanes = tuple(
            replace(lane, frames=tuple(replace(f, content=f"{lane.provider} {f.content}") for f in lane.frames))
            for lane in self.lanes
        )
        return replace(self, lanes=lanes)

    def offered(self, arrival: int | None = None) -> list[Lane]:
        """The lanes as intake makes them.

        Args:
            arrival: Seed of another order of arrival and other batches; None: as written, in one batch.
        """
        numbers = None if arrival is None else random.Random(f"arrival {self.seed} {arrival}")  # noqa: S311
        lanes = [_offered(lane, numbers) for lane in self.lanes]
        if numbers is not None:
            numbers.shuffle(lanes)
        return lanes

    def request(self, strategy: Strategy) -> CompositionRequest:
        """What is asked."""
        return CompositionRequest(
            max_tokens=self.max_tokens or AMPLE,
            strategy=strategy,
            floors=tuple(
                Floor(lane.provider, lane.scale.id, lane.floor) for lane in self.lanes if lane.floor is not None
            ),
            max_frames=self.max_frames,
            max_frames_per_provider=self.max_frames_per_provider,
        )

    def smaller(self) -> Iterator[Sample]:
        """Every sample with one thing less, the largest things first."""
        for index in range(len(self.lanes)):
            yield replace(self, lanes=_without(self.lanes, index))
        for index, lane in enumerate(self.lanes):
            for place in range(len(lane.frames)):
                yield self._with(index, replace(lane, frames=_without(lane.frames, place)))
        if self.max_tokens is not None:
            yield replace(self, max_tokens=None)
        if self.max_frames is not None:
            yield replace(self, max_frames=None)
        if self.max_frames_per_provider is not None:
            yield replace(self, max_frames_per_provider=None)
        for index, lane in enumerate(self.lanes):
            if lane.floor is not None:
                yield self._with(index, replace(lane, floor=None))

    def _with(self, index: int, lane: SampleLane) -> Sample:
        return replace(self, lanes=(*self.lanes[:index], lane, *self.lanes[index + 1 :]))


def samples(count: int) -> list[Sample]:
    """The first so many samples."""
    return [_sample(seed) for seed in range(count)]


def to_json(sample: Sample) -> dict[str, Any]:
    """A sample as JSON has it."""
    return asdict(sample)


def from_json(record: Mapping[str, Any]) -> Sample:
    """The inverse of :func:`to_json`."""
    lanes = tuple(
        SampleLane(lane["provider"], tuple(SampleFrame(**frame) for frame in lane["frames"]), lane["floor"])
        for lane in record["lanes"]
    )
    return Sample(**{**record, "lanes": lanes})


def _sample(seed: int) -> Sample:
    numbers = random.Random(f"sample {seed}")  # noqa: S311 - the same everywhere is the point
    providers = sorted(numbers.sample(sorted(SCALES), numbers.choice([2, 3, 3, 4])))
    most = _MANY if seed >= _LARGE_FROM else min(2 + seed // 6, 8)
    shared = [f"shared {n} " + "s" * numbers.choice([0, 60, 300]) for n in range(3)]
    lanes = tuple(_lane(provider, numbers, most, shared) for provider in providers)
    pressure = numbers.choice([(None, None, None), (1, None, None), (1, 1, None), (None, 1, None), (None, None, 1)])
    return Sample(
        seed,
        lanes,
        max_tokens=None if pressure[0] is None else numbers.randint(150, 150 + 60 * most),
        max_frames=None if pressure[1] is None else numbers.randint(1, 2 + most // 2),
        max_frames_per_provider=None if pressure[2] is None else numbers.randint(1, 1 + most // 2),
    )


def _lane(provider: str, numbers: random.Random, most: int, shared: Sequence[str]) -> SampleLane:
    scale = SCALES[provider]
    grid = numbers.choice([3, _GRID, _GRID])
    frames = []
    for place in range(numbers.randint(1, most)):
        own = f"{provider} {place} " + "o" * numbers.choice([0, 0, 90, 400])
        score = None if scale.direction is Direction.AS_SENT else _number(scale, numbers.randint(0, grid) / grid)
        content = numbers.choice(shared) if numbers.random() < 0.3 else own
        title = "" if numbers.random() < 0.04 else f"title {place}"
        frames.append(SampleFrame(f"f{place}", title, content, score, numbers.choice(_KINDS), numbers.choice(_TIMES)))
    scores = [frame.score for frame in frames if frame.score is not None]
    floor = None
    if scores and numbers.random() < 0.4:
        # Some floors equal a score to the last bit.
        floor = numbers.choice([*scores, _number(scale, numbers.randint(0, _GRID) / _GRID)])
    return SampleLane(provider, tuple(frames), floor)


def _number(scale: ScoreScale, part: float) -> float:
    low, high = scale.min, scale.max if math.isfinite(scale.max) else 2.0
    return low + (high - low) * part


def _offered(lane: SampleLane, numbers: random.Random | None) -> Lane:
    frames = [
        Frame(one.id, one.title, one.content, one.score, kind=one.kind, recorded_at=one.recorded_at)
        for one in lane.frames
    ]
    intake = LaneIntake(lane.provider, lane.scale, _GRANT)
    if numbers is not None and lane.scale.direction is not Direction.AS_SENT:
        numbers.shuffle(frames)
    while frames:
        size = len(frames) if numbers is None else numbers.randint(1, len(frames))
        intake.take(frames[:size])
        frames = frames[size:]
    return intake.close(LaneEnd.COMPLETE)


def _without(items: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return (*items[:index], *items[index + 1 :])
