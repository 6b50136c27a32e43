"""One lane of one request while it is open: whom it asks, what it takes, how it ends.

======================================  =====================================================================
what happens                            how the lane ends
======================================  =====================================================================
the provider sits out, or its trial     QUARANTINED, without being asked
is another request's
it failed again and again               FAILED, without being asked: its circuit is open
no instance is attached                 ABSENT, without being asked
every instance is at its limit          FAILED, without being asked: waiting would take other lanes' time
the instance ends its answer            COMPLETE or EMPTY
the instance says that it could not     FAILED, with what came
the instance is lost                    another that was not tried is asked, if there is one of the same scale
                                        and time remains: what came is discarded. Else LOST, with what came
a batch cannot be read, or is more      FAILED, with what came before it
than a lane may have or the broker has
room for
its hedge time is over                  a second instance is asked too, if there is one as above. Whichever is the
                                        first to end its answer is the lane, and the other is cancelled and what
                                        it sent discarded; one that fails or is lost leaves the lane to the other
a frame shows a lie                     REFUSED; the provider sits out from now
the deadline comes                      PARTIAL or TIMED_OUT, of two with what the one that sent more frames sent
======================================  =====================================================================

An ended lane is told to the provider where it had frames refused, to the request, and to whoever counts lies, in this
order; it leaves nothing behind in the fabric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, LaneUpdate
from broker.core.scores import ScoreScale
from broker.errors import BrokerError, ResourceExhausted
from broker.gather.attempt import Attempt
from broker.gather.clock import Timer
from broker.gather.fabric import Ending, Ref
from broker.gather.gathering import Gathering, LieReport, Unread, WantedLane
from broker.gather.quarantine import Permit, Withheld

SOON = 1.0
"""Seconds after which a provider that was busy may have room again."""

TURN_FRAMES = 256
TURN_BYTES = 1024 * 1024
"""Frames of a batch, and about how many bytes, that are read and checked before anything else has its turn: a few
milliseconds' work."""


class OpenLane:
    """A lane until it has ended; then ``on_end`` gets it, once, and nothing of its frames is kept here."""

    __slots__ = ("_attempts", "_ended", "_gathering", "_hedge", "_on_end", "_permit", "_told", "_tried", "wanted")

    def __init__(self, wanted: WantedLane, gathering: Gathering, on_end: Callable[[Lane], None]) -> None:
        self.wanted = wanted
        self._ended = False
        self._gathering = gathering
        self._on_end = on_end
        self._permit: Permit | None = None
        self._tried: list[Ref] = []
        self._attempts: list[Attempt] = []
        self._told = False
        self._hedge: Timer | None = None

    def open(self) -> None:
        """Asks the provider, or begins to wait for its push.

        Raises:
            AlreadyExists: Another request waits for the same push.
        """
        gathering, provider, push = self._gathering, self.wanted.provider, self.wanted.push
        sits_out = gathering.fabric.quarantined(provider)
        if sits_out > 0:
            seconds = math.ceil(sits_out)
            text = f"sits out for an earlier lie or by the operator's word, {seconds} s more"
            self._unasked(LaneEnd.QUARANTINED, text, float(seconds))
            return
        if gathering.clock.time() >= gathering.deadline:
            self._unasked(LaneEnd.TIMED_OUT, "no time was left to ask")
            return
        permit = gathering.conduct.admit(provider, pushed=push is not None)
        if isinstance(permit, Withheld):
            self._unasked(permit.end, permit.message, permit.retry_after)
            return
        self._permit = permit
        if push is not None:
            attempt = Attempt(self)
            gathering.fabric.expect(push, attempt)
            attempt.expected = push
            self._attempts.append(attempt)
        else:
            self._ask_first()

    def expire(self) -> None:
        """The deadline has come."""
        if self._ended:
            return
        attempt = max(self._attempts, key=lambda attempt: attempt.offered)
        if attempt.intake is None:
            self._unasked(LaneEnd.TIMED_OUT, "nothing was pushed by the deadline")
        elif attempt.offered == 0:
            self._finish(attempt, LaneEnd.TIMED_OUT, "nothing came by the deadline")
        else:
            self._finish(attempt, LaneEnd.PARTIAL, f"cut by the deadline with {attempt.offered} frames in hand")

    def abandon(self) -> None:
        """The request is over: stops whatever is still running for this lane. Idempotent."""
        self._stop()
        # They hold the lane: in a circle all of it would stay in memory until the collector comes round.
        self._attempts = []
        if self._permit is not None:
            self._gathering.conduct.settle(self._permit, None)
            self._permit = None

    def begun(self, attempt: Attempt, scale: ScoreScale) -> None:
        """A push came."""
        query = self._gathering.query
        attempt.intake = LaneIntake(self.wanted.provider, scale, Grant(query.max_frames, query.max_tokens))

    def received(self, attempt: Attempt, data: bytes) -> None:
        """A batch came."""
        gathering = self._gathering
        attempt.bytes += len(data)
        if attempt.bytes > gathering.lane_bytes:
            text = f"it sent more than the {gathering.lane_bytes} bytes of a lane"
            attempt.then(partial(self._failed, attempt, LaneEnd.FAILED, text))
            return
        try:
            gathering.held.take(len(data))
        except ResourceExhausted as error:
            attempt.then(partial(self._no_room, attempt, error.message))
            return
        attempt.then(partial(self._look_into, attempt, data))

    def _look_into(self, attempt: Attempt, data: bytes) -> None:
        try:
            frames = self._gathering.read(data)
        except BrokerError as error:
            self._failed(attempt, LaneEnd.FAILED, f"a batch could not be read: {error.message}")
            return
        count = len(frames)
        self._take(attempt, frames, 0, max(1, min(TURN_FRAMES, count * TURN_BYTES // max(1, len(data)))))

    def _take(self, attempt: Attempt, frames: Unread, start: int, size: int) -> None:
        """Takes some of a batch's frames, and the rest when others have had their turn."""
        intake = attempt.intake
        if intake is None:
            # Stopped since the turn before.
            return
        # No more are read than show that there are too many.
        end = min(len(frames), start + intake.grant.max_frames + 1 - intake.offered)
        intake.take(frames[start : min(start + size, end)], goes_on=start > 0)
        if start + size < end:
            attempt.pause()
            self._gathering.clock.call_soon(partial(self._take, attempt, frames, start + size, size))
            return
        if intake.lie is not None:
            self._finish(attempt, LaneEnd.REFUSED)
        elif not self._told and intake.offered > 0:
            self._told = True
            self._gathering.on_update(LaneUpdate(self.wanted.provider, None, intake.offered))
        attempt.resume()

    def _no_room(self, attempt: Attempt, message: str) -> None:
        if self._permit is not None:
            # Others took the room, which proves nothing of the provider.
            self._gathering.conduct.settle(self._permit, None)
            self._permit = None
        self._finish(attempt, LaneEnd.FAILED, f"the broker had no room for it: {message}")

    def ended(self, attempt: Attempt, ending: Ending, message: str) -> None:
        """The answer ended."""
        if self._ended:
            # The verdict on the lane was more than a slow provider's session could hold, and ended it.
            return
        if ending is Ending.COMPLETE:
            self._finish(attempt, LaneEnd.COMPLETE)
        elif ending is Ending.FAILED:
            self._failed(attempt, LaneEnd.FAILED, message)
        elif len(self._attempts) == 1 and self._ask_another():
            self._drop(attempt)
        else:
            self._failed(attempt, LaneEnd.LOST, message)

    def _ask_first(self) -> None:
        ref, load = self._gathering.fabric.pick(self.wanted.provider, self._tried)
        if ref is not None:
            self._ask(ref)
            hedge = self._gathering.hedges.get(self.wanted.provider)
            if hedge is not None:
                clock = self._gathering.clock
                self._hedge = clock.call_at(clock.time() + hedge, self._ask_second)
        elif load == 0:
            self._unasked(LaneEnd.ABSENT, "no instance is attached")
        else:
            self._unasked(LaneEnd.FAILED, f"every instance is at its limit, {load} queries in flight", SOON)

    def _ask_second(self) -> None:
        if len(self._attempts) == 1:
            self._ask_another()

    def _ask_another(self) -> bool:
        gathering, provider = self._gathering, self.wanted.provider
        if gathering.clock.time() >= gathering.deadline or gathering.fabric.quarantined(provider) > 0:
            return False
        ref, _ = gathering.fabric.pick(provider, self._tried)
        if ref is None or not self._tried or ref.scale != self._tried[0].scale:
            return False
        self._ask(ref)
        return True

    def _ask(self, ref: Ref) -> None:
        gathering = self._gathering
        grant = self.wanted.granted(gathering.query)
        query = replace(
            gathering.query,
            max_frames=grant.max_frames,
            max_tokens=grant.max_tokens,
            traceparent=self.wanted.traceparent,
        )
        attempt = Attempt(self, ref, LaneIntake(self.wanted.provider, ref.scale, grant))
        self._tried.append(ref)
        self._attempts.append(attempt)
        attempt.handle = gathering.fabric.ask(ref, query, gathering.deadline, attempt)

    def _failed(self, attempt: Attempt, end: LaneEnd, message: str) -> None:
        """An attempt came to nothing: the lane is the other's, or ends with it."""
        if len(self._attempts) > 1:
            self._drop(attempt)
        else:
            self._finish(attempt, end, message)

    def _drop(self, attempt: Attempt) -> None:
        self._attempts.remove(attempt)
        attempt.stop(self._gathering.fabric)

    def _stop(self) -> None:
        if self._hedge is not None:
            self._hedge.cancel()
            self._hedge = None
        for attempt in self._attempts:
            attempt.stop(self._gathering.fabric)

    def _unasked(self, end: LaneEnd, message: str, retry_after: float | None = None) -> None:
        self._conclude(Lane(self.wanted.provider, self.wanted.scale, end, message, retry_after=retry_after), None)

    def _finish(self, attempt: Attempt, end: LaneEnd, message: str = "") -> None:
        intake = attempt.intake
        assert intake is not None, "a sink is called after ask has returned, or after begin"
        lane = intake.close(end, message)
        if attempt.ref is None:
            lane = replace(lane, trimmed_to=self.wanted.grant)
        self._conclude(lane, attempt)

    def _conclude(self, lane: Lane, attempt: Attempt | None) -> None:
        """Ends the lane; ``attempt`` is the one that it was taken from, None where no one was asked."""
        self._ended = True
        gathering = self._gathering
        if attempt is not None:
            attempt.reject(lane)
        self._stop()
        sits_out = 0.0
        if self._permit is not None:
            asked = attempt is not None or lane.end is not LaneEnd.FAILED
            sits_out = gathering.conduct.settle(self._permit, lane.end if asked else None)
            self._permit = None
        lie = lane.lie
        if lie is not None:
            if sits_out > 0:
                gathering.fabric.quarantine(lane.provider, sits_out)
            remaining = math.ceil(gathering.fabric.quarantined(lane.provider))
            lane = replace(lane, retry_after=float(remaining) if remaining else None)
            instance = attempt.ref.key if attempt is not None and attempt.ref is not None else None
            gathering.on_lie(LieReport(lane.provider, instance, lie, lane.offered, sits_out))
        gathering.on_update(LaneUpdate(lane.provider, lane.end, lane.offered, lane.message))
        self._on_end(lane)
