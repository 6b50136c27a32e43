"""One asking of one instance, or the wait for one push, on behalf of a lane: what comes is checked in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from msgspec import Struct

from broker.core.intake import LaneIntake
from broker.core.lanes import Lane, LaneEnd
from broker.core.scores import ScoreScale
from broker.errors import BrokerError, ResourceExhausted
from broker.gather.fabric import Ending, Fabric, Handle, PushKey, Ref
from broker.gather.gathering import Gathering, Unread
from broker.wire.events import Violation

MAX_VIOLATIONS = 32
"""Violations that a provider is told of one lane; a last one says how many more there were."""

TURN_BYTES = 1024 * 1024
FRAME_BYTES = 4096
"""About how many bytes of an answer are read and checked before anything else has its turn, a few milliseconds' work; a
frame counts for so many at least, and so does a batch."""


class Taker(Protocol):
    """The lane that an attempt is made for. Each call may stop the attempt."""

    def begun(self, attempt: Attempt, scale: ScoreScale) -> None:
        """A push came: gives the attempt its intake."""

    def took(self, frames: int) -> None:
        """Frames of an attempt were taken: so many until now."""

    def refused(self, attempt: Attempt) -> None:
        """A frame showed a lie."""

    def failed(self, attempt: Attempt, end: LaneEnd, message: str) -> None:
        """It came to nothing more, though the answer may go on."""

    def no_room(self, attempt: Attempt, message: str) -> None:
        """A batch found no room in what the request may hold."""

    def ended(self, attempt: Attempt, ending: Ending, message: str) -> None:
        """The answer ended."""


class Attempt(Struct, eq=False):
    """The sink that the fabric calls, what it took, and how to stop it.

    Attributes:
        ref: Whom it asks; None: it waits for a push.
        intake: What it took; None: no push has begun, or it was stopped.
        size: Bytes of all batches that came.
        handle: On the instance that it asked.
        expected: The push that it waits for.
    """

    _lane: Taker
    _gathering: Gathering
    ref: Ref | None = None
    intake: LaneIntake | None = None
    size: int = 0
    handle: Handle | None = None
    expected: PushKey | None = None
    _spent: int = 0
    _waiting: list[Callable[[], None]] | None = None

    @property
    def offered(self) -> int:
        """Frames that it took."""
        return 0 if self.intake is None else self.intake.offered

    def begin(self, scale: ScoreScale, /) -> None:
        """From the fabric."""
        self._lane.begun(self, scale)

    def batch(self, data: bytes, last: bool, /) -> None:  # noqa: ARG002 - the ending says all that matters here
        """From the fabric."""
        gathering = self._gathering
        self.size += len(data)
        if self.size > gathering.lane_bytes:
            text = f"it sent more than the {gathering.lane_bytes} bytes of a lane"
            self._then(partial(self._lane.failed, self, LaneEnd.FAILED, text))
            return
        try:
            gathering.held.take(len(data))
        except ResourceExhausted as error:
            self._then(partial(self._lane.no_room, self, error.message))
            return
        if self._waiting is None:
            self._look_into(data)
        else:
            self._waiting.append(partial(self._look_into, data))

    def end(self, ending: Ending, message: str, /) -> None:
        """From the fabric."""
        if self._waiting is None:
            self._lane.ended(self, ending, message)
        else:
            self._waiting.append(partial(self._lane.ended, self, ending, message))

    def reject(self, lane: Lane) -> None:
        """Tells the instance what of its answer was not taken."""
        if self.handle is not None:
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

    def _look_into(self, data: bytes) -> None:
        try:
            frames = self._gathering.read(data)
        except BrokerError as error:
            self._lane.failed(self, LaneEnd.FAILED, f"a batch could not be read: {error.message}")
            return
        count = len(frames)
        self._take(frames, 0, count, max(FRAME_BYTES, len(data) // max(1, count)))

    def _take(self, frames: Unread, start: int, count: int, cost: int) -> None:
        """Takes the frames of a batch from ``start`` on, each for ``cost`` bytes of this turn, the rest in the next."""
        intake = self.intake
        if intake is None:
            return
        # No more are read than show that there are too many.
        end = min(count, start + intake.grant.max_frames + 1 - intake.offered)
        stop = min(end, start + max(1, (TURN_BYTES - self._spent) // cost))
        intake.take(frames[start:stop], goes_on=start > 0, decoded=True)
        self._spent += cost * max(1, stop - start)
        if stop < end:
            self._pause(partial(self._take, frames, stop, count, cost))
            return
        if intake.lie is not None:
            self._lane.refused(self)
        elif intake.offered:
            self._lane.took(intake.offered)
        if self._spent >= TURN_BYTES and self.intake is not None:
            self._pause()

    def _then(self, step: Callable[[], None]) -> None:
        """Does a step: now, or after all that waits for another turn."""
        if self._waiting is None:
            step()
        else:
            self._waiting.append(step)

    def _pause(self, *rest: Callable[[], None]) -> None:
        """Leaves the turn to others: what is left to do, and what comes meanwhile, waits for the next one."""
        self._waiting = list(rest)
        self._gathering.clock.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Does what waits, in the order in which it came, up to what pauses again; after :meth:`stop` nothing."""
        self._spent = 0
        waiting, self._waiting = self._waiting or (), None
        for step in waiting:
            if self.intake is not None:
                self._then(step)


def _verdict(lane: Lane) -> Sequence[Violation]:
    """What the provider is told of frames that were not taken."""
    violations = [Violation(slip.reason, slip.detail, slip.frame_id) for slip in islice(lane.slips, MAX_VIOLATIONS)]
    if lane.lie is not None:
        violations.insert(0, Violation(lane.lie.reason, lane.lie.detail, lane.lie.frame_id))
    more = len(lane.slips) + (lane.lie is not None) - MAX_VIOLATIONS
    if more > 0:
        violations[MAX_VIOLATIONS - 1 :] = [Violation("MORE", f"and {more + 1} more violations")]
    return violations
