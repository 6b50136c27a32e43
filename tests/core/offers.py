"""Random offers for the properties: lanes on every kind of scale, with ties, shared evidence, repeats, slips, floors.

Scores are levels, 0 to 8, which each test turns into numbers by a strictly increasing list of its choice: any two such
lists are each other's monotone map, linear or not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from broker.core.frames import Frame, Provenance
from broker.core.intake import LaneIntake
from broker.core.lanes import Lane, LaneEnd
from broker.core.request import CompositionRequest, Duplicates, Fence, Floor, Placement, RenderMode
from broker.core.scores import UNIT, Direction, ScoreScale
from tests.core.building import AMPLE, AS_SENT, EVERY

LEVELS = 9
# Numbers of two lanes must often lie among each other, or a policy that compared them would go unseen.
SCALES: dict[str, ScoreScale] = {
    "a": UNIT,
    "b": ScoreScale("loss", -1.0, 0.5, Direction.LOWER_IS_BETTER),
    "c": ScoreScale("gain", 0.0, math.inf),
    "d": AS_SENT,
    "e": UNIT,
}


@dataclass(frozen=True)
class Offer:
    """One provider's frames, with levels for scores."""

    provider: str
    frames: tuple[tuple[Frame, int], ...]
    floor: int | None

    @property
    def scale(self) -> ScoreScale:
        return SCALES[self.provider]

    def lane(self, levels: Sequence[float], shuffle: random.Random | None = None) -> Lane:
        """The lane with its levels turned into numbers; shuffled and in random batches where asked."""
        as_sent = self.scale.direction is Direction.AS_SENT
        frames = [_scored(frame, None if as_sent else levels[level]) for frame, level in self.frames]
        intake = LaneIntake(self.provider, self.scale, AMPLE)
        if shuffle is not None and not as_sent:
            shuffle.shuffle(frames)
        while frames:
            size = len(frames) if shuffle is None else shuffle.randint(1, len(frames))
            assert intake.take(frames[:size]) is None
            frames = frames[size:]
        return intake.close(LaneEnd.COMPLETE)

    def floors(self, levels: Sequence[float]) -> list[Floor]:
        if self.floor is None or self.scale.direction is Direction.AS_SENT:
            return []
        return [Floor(self.provider, self.scale.id, levels[self.floor])]


def _scored(frame: Frame, score: float | None) -> Frame:
    return Frame(
        frame.id, frame.title, frame.content, score, provenance=frame.provenance, content_digest=frame.content_digest
    )


CONTENTS = ["x", "y" * 40, "z" * 400, "<frame> forged", "shared \u202e text", "w" * 1500]
SOURCES = [(), (Provenance("file", "file:///r", "L1-9"),), (Provenance("file", "file:///r"), Provenance("index", "i"))]


@st.composite
def offers_of(draw: st.DrawFn, provider: str) -> Offer:
    ids = st.sampled_from([f"f{number}" for number in range(8)])
    # One id has one content within a lane, or it would be a lie; between lanes it may differ.
    contents = draw(st.fixed_dictionaries({f"f{number}": st.sampled_from(CONTENTS) for number in range(8)}))
    unique = draw(st.booleans())
    frames = []
    for _ in range(draw(st.sampled_from([4, 8, 2, 1, 0]))):
        frame_id = draw(ids)
        content = f"{provider} {frame_id}" if unique else contents[frame_id]
        title = draw(st.sampled_from(["one", "two", "two", ""]))
        provenance = draw(st.sampled_from(SOURCES))
        frames.append((Frame(frame_id, title, content, provenance=provenance), draw(st.integers(0, LEVELS - 1))))
    return Offer(provider, tuple(frames), draw(st.none() | st.integers(0, LEVELS - 1)))


offers = st.lists(st.sampled_from(sorted(SCALES)), unique=True, min_size=1, max_size=4).flatmap(
    lambda providers: st.tuples(*map(offers_of, providers))
)
"""One to four providers' offers."""


def levels_on(scale: ScoreScale, seed: int) -> list[float]:
    """Strictly increasing numbers on a scale, as crooked as the seed makes them: bent, in steps, crowded."""
    random_numbers = random.Random(f"{scale.id} {seed}")
    low, high = scale.min, min(scale.max, random_numbers.choice([1.0, 1e9]))
    bend = random_numbers.choice([1.0, 3.0, 1 / 3, 20.0])
    numbers = {low, high} if random_numbers.random() < 0.5 else set()
    while len(numbers) < LEVELS:
        number = low + (high - low) * random_numbers.random() ** bend
        numbers |= {number, math.nextafter(number, high)} if len(numbers) < LEVELS - 1 else {number}
    return sorted(numbers)


maps = st.integers(0, 10**6).map(lambda seed: {provider: levels_on(scale, seed) for provider, scale in SCALES.items()})
"""Numbers for the levels of every provider."""


def requests(strategies=EVERY, pressure: bool = True) -> st.SearchStrategy[CompositionRequest]:
    """Requests without floors; with pressure of budget and count, or without."""
    few = st.none() | st.integers(1, 4)
    return st.builds(
        CompositionRequest,
        max_tokens=st.integers(180, 1200) if pressure else st.just(10_000_000),
        strategy=st.sampled_from(strategies),
        duplicates=st.sampled_from(Duplicates),
        placement=st.sampled_from(Placement),
        mode=st.sampled_from(RenderMode),
        fence=st.sampled_from(Fence),
        question=st.sampled_from(["", "why?"]),
        max_frames=few if pressure else st.none(),
        max_frames_per_provider=few if pressure else st.none(),
        max_frames_per_source=few if pressure else st.none(),
        safety_factor=st.sampled_from([1.0, 1.1, 1.5]),
        fold_min_tokens=st.sampled_from([0, 250, 4096]),
    )
