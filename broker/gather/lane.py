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

from msgspec import Struct
from msgspec.structs import replace

from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, LaneUpdate
from broker.core.scores import ScoreScale
from broker.gather.attempt import Attempt
from broker.gather.clock import Timer
from broker.gather.fabric import Ending, Ref
from broker.gather.gathering import Gathering, LieReport, WantedLane
from broker.gather.quarantine import Permit, Withheld

SOON = 1.0
"""Seconds after which a provider that was busy may have room again."""

TOLD_SECONDS = 0.2
"""How long the request hears nothing more of a lane that collects, once it heard how many frames came: what people see
need not change more often, and a lane of many small batches is not told of as often as it sends."""


class OpenLane(Struct, eq=False):
    """A lane until it has ended; then ``on_end`` gets it, once, and nothing of its frames is kept here."""

    wanted: WantedLane
    _gathering: Gathering
    _on_end: Callable[[Lane], None]
    _ended: bool = False
    _permit: Permit | None = None
    _tried: list[Ref] = []
    _attempts: list[Attempt] = []
    _told: int = 0
    _untold_until: float = -math.inf
    _hedge: Timer | None = None

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
            attempt = Attempt(self, gathering)
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
            some = "1 frame" if attempt.offered == 1 else f"{attempt.offered} frames"
            self._finish(attempt, LaneEnd.PARTIAL, f"cut by the deadline with {some} in hand")

    def abandon(self) -> None:
        """The request is over: stops whatever is still running for this lane. Idempotent."""
        self._stop()
        if self._permit is not None:
            self._gathering.conduct.settle(self._permit, None)
            self._permit = None

    def begun(self, attempt: Attempt, scale: ScoreScale) -> None:
        """A push came."""
        query = self._gathering.query
        attempt.intake = LaneIntake(self.wanted.provider, scale, Grant(query.max_frames, query.max_tokens))

    def took(self, frames: int) -> None:
        """An attempt has so many frames now."""
        now = self._gathering.clock.time()
        if frames > self._told and now >= self._untold_until:
            self._told, self._untold_until = frames, now + TOLD_SECONDS
            self._gathering.on_update(LaneUpdate(self.wanted.provider, None, frames))

    def refused(self, attempt: Attempt) -> None:
        """A frame showed a lie."""
        self._finish(attempt, LaneEnd.REFUSED)

    def failed(self, attempt: Attempt, end: LaneEnd, message: str) -> None:
        """An attempt came to nothing: the lane is the other's, or ends with it."""
        if len(self._attempts) > 1:
            self._drop(attempt)
        else:
            self._finish(attempt, end, message)

    def no_room(self, attempt: Attempt, message: str) -> None:
        """A batch found no room in what the request may hold."""
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
            self.failed(attempt, LaneEnd.FAILED, message)
        elif len(self._attempts) == 1 and self._ask_another():
            self._drop(attempt)
        else:
            self.failed(attempt, LaneEnd.LOST, message)

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
        attempt = Attempt(self, gathering, ref, LaneIntake(self.wanted.provider, ref.scale, grant))
        self._tried.append(ref)
        self._attempts.append(attempt)
        attempt.handle = gathering.fabric.ask(ref, query, gathering.deadline, attempt)

    def _drop(self, attempt: Attempt) -> None:
        self._attempts.remove(attempt)
        attempt.stop(self._gathering.fabric)

    def _stop(self) -> None:
        if self._hedge is not None:
            self._hedge.cancel()
            self._hedge = None
        for attempt in self._attempts:
            attempt.stop(self._gathering.fabric)
        # They hold the lane: in a circle all of it would stay in memory until the collector comes round.
        self._attempts = []

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
        if attempt is not None and (lane.slips or lane.lie is not None):
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
