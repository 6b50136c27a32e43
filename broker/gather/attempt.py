"""One asking of one instance, or the wait for one push, on behalf of a lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from broker.core.intake import LaneIntake
from broker.core.lanes import Lane
from broker.core.scores import ScoreScale
from broker.gather.fabric import Ending, Fabric, Handle, PushKey, Ref
from broker.wire.events import Violation

MAX_VIOLATIONS = 32
"""Violations that a provider is told of one lane; a last one says how many more there were."""


class Taker(Protocol):
    """The lane that an attempt is made for."""

    def begun(self, attempt: Attempt, scale: ScoreScale) -> None:
        """A push came."""

    def received(self, attempt: Attempt, data: bytes) -> None:
        """A batch came."""

    def ended(self, attempt: Attempt, ending: Ending, message: str) -> None:
        """The answer ended."""


class Attempt:
    """The sink that the fabric calls, what it took, and how to stop it.

    Attributes:
        ref: Whom it asks; None: it waits for a push.
        intake: What it took; None: no push has begun.
        bytes: Of all batches that came.
        handle: On the instance that it asked.
        expected: The push that it waits for.
    """

    __slots__ = ("_lane", "_waiting", "bytes", "expected", "handle", "intake", "ref")

    def __init__(self, lane: Taker, ref: Ref | None = None, intake: LaneIntake | None = None) -> None:
        self._lane = lane
        self._waiting: list[Callable[[], None]] | None = None
        self.ref = ref
        self.intake = intake
        self.bytes = 0
        self.handle: Handle | None = None
        self.expected: PushKey | None = None

    @property
    def offered(self) -> int:
        """Frames that it took."""
        return 0 if self.intake is None else self.intake.offered

    def begin(self, scale: ScoreScale, /) -> None:
        """From the fabric."""
        self._lane.begun(self, scale)

    def batch(self, data: bytes, last: bool, /) -> None:  # noqa: ARG002 - the ending says all that matters here
        """From the fabric."""
        self._lane.received(self, data)

    def end(self, ending: Ending, message: str, /) -> None:
        """From the fabric."""
        self.then(partial(self._lane.ended, self, ending, message))

    def then(self, step: Callable[[], None]) -> None:
        """Does a step: now, or after :meth:`resume` where what came before it is not done."""
        if self._waiting is None:
            step()
        else:
            self._waiting.append(step)

    def pause(self) -> None:
        """What comes from now on waits for what has begun; idempotent."""
        if self._waiting is None:
            self._waiting = []

    def resume(self) -> None:
        """Does what waits, in the order in which it came, up to what pauses again; after :meth:`stop` nothing."""
        waiting, self._waiting = self._waiting or (), None
        for step in waiting:
            if self.intake is not None:
                self.then(step)

    def reject(self, lane: Lane) -> None:
        """Tells the instance what of its answer was not taken."""
        if self.handle is not None and (lane.slips or lane.lie is not None):
            self.handle.reject(_verdict(lane))

    def stop(self, fabric: Fabric) -> None:
        """Takes nothing more and lets go of what it took; idempotent."""
        if self.handle is not None:
            self.handle.cancel()
        if self.expected is not None:
            fabric.unexpect(self.expected)
            self.expected = None
        self.intake = None
        self._waiting = None


def _verdict(lane: Lane) -> Sequence[Violation]:
    """What the provider is told of frames that were not taken."""
    violations = [Violation(slip.reason, slip.detail, slip.frame_id) for slip in islice(lane.slips, MAX_VIOLATIONS)]
    if lane.lie is not None:
        violations.insert(0, Violation(lane.lie.reason, lane.lie.detail, lane.lie.frame_id))
    more = len(lane.slips) + (lane.lie is not None) - MAX_VIOLATIONS
    if more > 0:
        violations[MAX_VIOLATIONS - 1 :] = [Violation("MORE", f"and {more + 1} more violations")]
    return violations
