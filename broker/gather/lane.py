"""One lane of one request while it is open: whom it asks, what it takes, how it ends.

======================================  =====================================================================
what happens                            how the lane ends
======================================  =====================================================================
the provider sits out, or its trial     QUARANTINED, without being asked
is another request's
no instance is attached                 ABSENT, without being asked
every instance is at its limit          FAILED, without being asked: waiting would take other lanes' time
the instance ends its answer            COMPLETE or EMPTY
the instance says that it could not     FAILED, with what came
the instance is lost                    another that was not tried is asked, if there is one of the same scale
                                        and time remains: what came is discarded. Else LOST, with what came
a batch cannot be read                  FAILED, with what came before it
a frame shows a lie                     REFUSED; the provider sits out from now
the deadline comes                      PARTIAL or TIMED_OUT
======================================  =====================================================================

An ended lane is told to the provider where it had frames refused, to the request, and to whoever counts lies, in this
order; it leaves nothing behind in the fabric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, LaneUpdate, Lie, Unreadable
from broker.core.scores import ScoreScale
from broker.errors import BrokerError
from broker.gather.clock import Clock
from broker.gather.fabric import Ending, Fabric, Handle, InstanceKey, PushKey, Ref
from broker.gather.quarantine import Conduct, Permit
from broker.wire.events import Query, Violation

MAX_VIOLATIONS = 32
"""Violations that a provider is told of one lane; a last one says how many more there were."""

SOON = 1.0
"""Seconds after which a provider that was busy may have room again."""


@dataclass(frozen=True, slots=True)
class WantedLane:
    """One lane that a request wants.

    Attributes:
        provider: The provider.
        push: What it will push under; None: it is asked.
        scale: Its scale as far as known, for a lane in which it says nothing.
    """

    provider: str
    push: PushKey | None = None
    scale: ScoreScale | None = None


@dataclass(frozen=True, slots=True)
class LieReport:
    """A provider lied. To be reported loudly; it holds nothing of any frame's content.

    Attributes:
        provider: The provider; as a whole it sits out.
        instance: Which of its instances lied; None: it pushed.
        lie: What was proven.
        offered: Frames that it had offered by then.
        sits_out: Seconds from now; 0.0: it sat out already.
    """

    provider: str
    instance: InstanceKey | None
    lie: Lie
    offered: int
    sits_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """What every lane of a request shares.

    Attributes:
        fabric: Where instances and pushes are.
        conduct: Who lied how often.
        clock: Monotonic time.
        split: Encoded frames of one batch, in the order sent; raises ``BrokerError`` for bytes that are no batch.
        read: One encoded frame; never raises.
        query: What is asked, and the grant of every lane.
        deadline: Moment of the clock at which collecting ends.
        on_update: Told of every lane's first frames and of its end; must not raise.
        on_lie: Told of every lie; must not raise.
    """

    fabric: Fabric
    conduct: Conduct
    clock: Clock
    split: Callable[[bytes], Iterable[bytes]]
    read: Callable[[bytes], Frame | Unreadable]
    query: Query
    deadline: float
    on_update: Callable[[LaneUpdate], None]
    on_lie: Callable[[LieReport], None]


class OpenLane:
    """A lane until it has ended; then ``on_end`` gets it, once, and nothing of its frames is kept here."""

    def __init__(self, wanted: WantedLane, gathering: Gathering, on_end: Callable[[Lane], None]) -> None:
        self.wanted = wanted
        self._ended = False
        self._gathering = gathering
        self._on_end = on_end
        self._permit: Permit | None = None
        self._tried: list[Ref] = []
        self._attempt = _Attempt(self)

    def open(self) -> None:
        """Asks the provider, or begins to wait for its push.

        Raises:
            AlreadyExists: Another request waits for the same push.
        """
        gathering, provider = self._gathering, self.wanted.provider
        sits_out = gathering.fabric.quarantined(provider)
        if sits_out > 0:
            seconds = math.ceil(sits_out)
            self._unasked(LaneEnd.QUARANTINED, f"sits out for an earlier lie, {seconds} s more", float(seconds))
            return
        if gathering.clock.time() >= gathering.deadline:
            self._unasked(LaneEnd.TIMED_OUT, "no time was left to ask")
            return
        self._permit = gathering.conduct.admit(provider)
        if self._permit is None:
            self._unasked(LaneEnd.QUARANTINED, "sits out for an earlier lie; its trial is running", SOON)
        elif self.wanted.push is not None:
            gathering.fabric.expect(self.wanted.push, self._attempt)
            self._attempt.expected = self.wanted.push
        else:
            self._ask_first()

    def expire(self) -> None:
        """The deadline has come."""
        if self._ended:
            return
        intake = self._attempt.intake
        if intake is None:
            self._unasked(LaneEnd.TIMED_OUT, "nothing was pushed by the deadline")
        elif intake.offered == 0:
            self._finish(intake.close(LaneEnd.TIMED_OUT, "nothing came by the deadline"))
        else:
            self._finish(intake.close(LaneEnd.PARTIAL, f"cut by the deadline with {intake.offered} frames in hand"))

    def abandon(self) -> None:
        """The request is over: stops whatever is still running for this lane. Idempotent."""
        self._attempt.stop(self._gathering.fabric)
        if self._permit is not None:
            # It was stopped, which proves nothing of the provider.
            self._gathering.conduct.settle(self._permit, LaneEnd.LOST)
            self._permit = None

    def begun(self, attempt: _Attempt, scale: ScoreScale) -> None:
        """A push came."""
        attempt.intake = LaneIntake(self.wanted.provider, scale, self._grant)

    def received(self, attempt: _Attempt, data: bytes) -> None:
        """A batch came."""
        intake = attempt.intake
        assert intake is not None, "a sink is called after ask has returned, or after begin"
        try:
            frames = self._gathering.split(data)
        except BrokerError as error:
            self._finish(intake.close(LaneEnd.FAILED, f"a batch could not be read: {error.message}"))
            return
        before = intake.offered
        if intake.take(map(self._gathering.read, frames)) is not None:
            self._finish(intake.close(LaneEnd.REFUSED))
        elif before == 0 and intake.offered > 0:
            self._gathering.on_update(LaneUpdate(self.wanted.provider, None, intake.offered))

    def ended(self, attempt: _Attempt, ending: Ending, message: str) -> None:
        """The answer ended."""
        if self._ended:
            # The verdict on the lane was more than a slow provider's session could hold, and ended it.
            return
        intake = attempt.intake
        assert intake is not None, "a sink is called after ask has returned, or after begin"
        if ending is Ending.COMPLETE:
            self._finish(intake.close(LaneEnd.COMPLETE))
        elif ending is Ending.FAILED:
            self._finish(intake.close(LaneEnd.FAILED, message))
        elif not self._ask_another():
            self._finish(intake.close(LaneEnd.LOST, message))

    @property
    def _grant(self) -> Grant:
        return Grant(self._gathering.query.max_frames, self._gathering.query.max_tokens)

    def _ask_first(self) -> None:
        ref, load = self._gathering.fabric.pick(self.wanted.provider, self._tried)
        if ref is not None:
            self._ask(ref)
        elif load == 0:
            self._unasked(LaneEnd.ABSENT, "no instance is attached")
        else:
            self._unasked(LaneEnd.FAILED, f"every instance is at its limit, {load} queries in flight", SOON)

    def _ask_another(self) -> bool:
        gathering, provider = self._gathering, self.wanted.provider
        if gathering.clock.time() >= gathering.deadline or gathering.fabric.quarantined(provider) > 0:
            return False
        ref, _ = gathering.fabric.pick(provider, self._tried)
        if ref is None or ref.scale != self._tried[0].scale:
            return False
        self._attempt = _Attempt(self)
        self._ask(ref)
        return True

    def _ask(self, ref: Ref) -> None:
        gathering, attempt = self._gathering, self._attempt
        self._tried.append(ref)
        attempt.intake = LaneIntake(self.wanted.provider, ref.scale, self._grant)
        attempt.handle = gathering.fabric.ask(ref, gathering.query, gathering.deadline, attempt)

    def _unasked(self, end: LaneEnd, message: str, retry_after: float | None = None) -> None:
        self._finish(Lane(self.wanted.provider, self.wanted.scale, end, message, retry_after=retry_after))

    def _finish(self, lane: Lane) -> None:
        self._ended = True
        gathering, attempt = self._gathering, self._attempt
        if attempt.handle is not None:
            attempt.handle.reject(_verdict(lane))
        attempt.stop(gathering.fabric)
        attempt.intake = None
        sits_out = 0.0
        if self._permit is not None:
            sits_out = gathering.conduct.settle(self._permit, lane.end)
            self._permit = None
        lie = lane.lie
        if lie is not None:
            if sits_out > 0:
                gathering.fabric.quarantine(lane.provider, sits_out)
            remaining = math.ceil(gathering.fabric.quarantined(lane.provider))
            lane = replace(lane, retry_after=float(remaining) if remaining else None)
            instance = self._tried[-1].key if self._tried else None
            gathering.on_lie(LieReport(lane.provider, instance, lie, lane.offered, sits_out))
        gathering.on_update(LaneUpdate(lane.provider, lane.end, lane.offered, lane.message))
        self._on_end(lane)


class _Attempt:
    """One asking of one instance, or the wait for one push: the sink, what it took, and how to stop it."""

    __slots__ = ("_lane", "expected", "handle", "intake")

    def __init__(self, lane: OpenLane) -> None:
        self._lane = lane
        self.intake: LaneIntake | None = None
        self.handle: Handle | None = None
        self.expected: PushKey | None = None

    def begin(self, scale: ScoreScale, /) -> None:
        """From the fabric."""
        self._lane.begun(self, scale)

    def batch(self, data: bytes, last: bool, /) -> None:  # noqa: ARG002 - the ending says all that matters here
        """From the fabric."""
        self._lane.received(self, data)

    def end(self, ending: Ending, message: str, /) -> None:
        """From the fabric."""
        self._lane.ended(self, ending, message)

    def stop(self, fabric: Fabric) -> None:
        """Takes nothing more; idempotent."""
        if self.handle is not None:
            self.handle.cancel()
        if self.expected is not None:
            fabric.unexpect(self.expected)
            self.expected = None


def _verdict(lane: Lane) -> list[Violation]:
    """What the provider is told of frames that were not taken."""
    violations = [Violation(slip.reason, slip.detail, slip.frame_id) for slip in islice(lane.slips, MAX_VIOLATIONS)]
    if lane.lie is not None:
        violations.insert(0, Violation(lane.lie.reason, lane.lie.detail, lane.lie.frame_id))
    more = len(lane.slips) + (lane.lie is not None) - MAX_VIOLATIONS
    if more > 0:
        violations[MAX_VIOLATIONS - 1 :] = [Violation("MORE", f"and {more + 1} more violations")]
    return violations
