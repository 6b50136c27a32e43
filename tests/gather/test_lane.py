"""Every lane ends in the one way that its provider's conduct calls for, and says so to all concerned."""

from __future__ import annotations

import pytest

from broker.core.lanes import Grant, LaneEnd, LaneUpdate
from broker.core.scores import UNIT, ScoreScale
from broker.gather.attempt import FRAME_BYTES, MAX_VIOLATIONS
from broker.gather.collect import Collection
from broker.gather.fabric import Ending, Push, PushKey
from broker.gather.gathering import Gathering, WantedLane
from broker.gather.lane import TOLD_SECONDS
from broker.gather.quarantine import Conduct
from broker.gather.session import ProviderSession
from broker.wire.events import Batch, Draining, Hello, Query, Violation
from tests.gather.support import batch, frame, read
from tests.gather.test_local import LocalHarness
from tests.limits.support import holding

WRONG_COST = {"token_cost": 7}


class Request:
    """One request that is being gathered, driven by hand."""

    def __init__(self, world: World, wanted, query: Query, seconds: float) -> None:
        self.updates: list[LaneUpdate] = []
        self.lies = []
        self.done = 0
        self.collection = Collection(
            wanted,
            Gathering(
                fabric=world.harness.fabric,
                conduct=world.conduct,
                clock=world.harness.clock,
                read=world.read,
                held=world.held,
                lane_bytes=world.lane_bytes,
                query=query,
                deadline=world.harness.clock.time() + seconds,
                on_update=self.updates.append,
                on_lie=self.lies.append,
                hedges=world.hedges,
            ),
            self._on_done,
        )
        self.collection.start()
        world.harness.settle()

    def _on_done(self) -> None:
        self.done += 1

    def ends(self):
        assert self.done == 1
        return {lane.provider: lane.end for lane in self.collection.lanes()}

    def lane(self, provider="a"):
        assert self.done == 1
        return next(lane for lane in self.collection.lanes() if lane.provider == provider)

    def ids(self, provider="a"):
        return [candidate.frame.id for candidate in self.lane(provider).candidates]


class World:
    def __init__(self) -> None:
        self.harness = LocalHarness()
        self.conduct = Conduct(self.harness.clock)
        self.attach = self.harness.attach
        self.advance = self.harness.advance
        self.read = read
        self.held = holding()
        self.lane_bytes = 2**20
        self.hedges: dict[str, float] = {}

    def request(self, *wanted, max_frames=5, max_tokens=100, seconds=2.0) -> Request:
        lanes = [WantedLane(name) if isinstance(name, str) else name for name in wanted or ("a",)]
        return Request(self, lanes, Query(goal="g", max_frames=max_frames, max_tokens=max_tokens), seconds)


@pytest.fixture
def world():
    return World()


# How lanes end


def test_a_lane_that_its_provider_ends_is_complete_or_empty(world):
    a, b = world.attach("a"), world.attach("b")
    request = world.request("a", "b")
    a.asked[0].send(frame("f1"), frame("f2"))
    a.asked[0].end()
    assert request.done == 0
    b.asked[0].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE, "b": LaneEnd.EMPTY}
    assert request.ids() == ["f1", "f2"]
    assert request.lane("b").scale == UNIT


def test_all_are_asked_at_once_with_the_grant(world):
    instances = [world.attach(name) for name in "abc"]
    world.request("a", "b", "c", max_frames=9, max_tokens=70)
    assert [(i.asked[0].query.max_frames, i.asked[0].query.max_tokens) for i in instances] == [(9, 70)] * 3


def test_a_lane_with_a_grant_of_its_own_is_asked_for_that_and_held_to_it(world):
    a, b = world.attach("a"), world.attach("b")
    request = world.request(WantedLane("a", grant=Grant(2, 7)), "b", max_frames=9, max_tokens=70)
    assert [(i.asked[0].query.max_frames, i.asked[0].query.max_tokens) for i in (a, b)] == [(2, 7), (9, 70)]
    for instance in (a, b):
        instance.asked[0].send(frame("f1"), frame("f2", "x" * 40))
        instance.asked[0].end()
    assert request.ends() == {"a": LaneEnd.REFUSED, "b": LaneEnd.COMPLETE}
    assert request.lane("a").lie.reason == "TOKENS_EXCEEDED"
    assert request.lane("b").trimmed_to is None


def test_a_push_beyond_its_lanes_grant_is_no_lie_and_is_to_be_trimmed(world):
    """Whoever pushes early cannot know what the request will grant."""
    request = world.request(WantedLane("p", KEY, grant=Grant(1, 7)), max_frames=5, max_tokens=100)
    world.harness.fabric.hold(KEY, Push(UNIT, (batch(frame("f1", "x" * 40), frame("f2")),)), 30)
    world.harness.settle()
    assert request.ends() == {"p": LaneEnd.COMPLETE}
    assert request.ids("p") == ["f1", "f2"]
    assert request.lane("p").trimmed_to == Grant(1, 7)


def test_a_failed_lane_keeps_what_came_and_says_why(world):
    """C24, C26."""
    a, b, c = world.attach("a"), world.attach("b"), world.attach("c")
    request = world.request("a", "b", "c")
    a.asked[0].send(frame("f1"))
    b.asked[0].end(Ending.FAILED, "index is gone")
    c.asked[0].send(frame("f1"))
    c.asked[0].end()
    world.advance(2)
    assert request.ends() == {"a": LaneEnd.PARTIAL, "b": LaneEnd.FAILED, "c": LaneEnd.COMPLETE}
    assert [lane.offered for lane in request.collection.lanes()] == [1, 0, 1]
    assert request.lane("b").message == "index is gone"


def test_silence_and_failure_are_told_apart(world):
    """C27, C28."""
    b, c = world.attach("b"), world.attach("c")
    request = world.request("b", "c", seconds=0.2)
    c.asked[0].end(Ending.FAILED, "raised")
    world.advance(0.2)
    assert request.ends() == {"b": LaneEnd.TIMED_OUT, "c": LaneEnd.FAILED}
    assert b.asked[0].cancelled == 1
    assert c.asked[0].cancelled == 0


def test_one_frame_a_second_for_ever_is_a_partial_lane_and_later_frames_count_nowhere(world):
    """H76."""
    a = world.attach("a")
    request = world.request(seconds=2.5)
    for number in range(5):
        a.asked[0].send(frame(f"f{number}"))
        world.advance(1)
    assert request.ends() == {"a": LaneEnd.PARTIAL}
    assert request.ids() == ["f0", "f1", "f2"]
    assert request.done == 1
    assert a.asked[0].cancelled == 1


def test_a_provider_that_is_not_attached_is_absent(world):
    request = world.request(WantedLane("a", scale=ScoreScale("known")))
    assert request.ends() == {"a": LaneEnd.ABSENT}
    assert request.lane().scale == ScoreScale("known")


def test_a_provider_whose_instances_are_all_full_fails_and_says_so(world):
    a = world.attach("a", max_in_flight=1)
    world.request()
    request = world.request()
    assert request.ends() == {"a": LaneEnd.FAILED}
    assert "limit" in request.lane().message
    assert request.lane().retry_after == 1.0
    assert len(a.asked) == 1


def test_without_time_no_one_is_asked(world):
    a = world.attach("a")
    request = world.request(seconds=0)
    assert request.ends() == {"a": LaneEnd.TIMED_OUT}
    assert a.asked == []


def test_a_batch_that_cannot_be_read_ends_the_lane_and_is_no_hole(world):
    a = world.attach("a")
    request = world.request()
    a.asked[0].send(frame("f1"))
    a.asked[0].send(b"!")
    a.asked[0].send(frame("f2"))
    assert request.ends() == {"a": LaneEnd.FAILED}
    assert request.ids() == ["f1"]
    assert a.asked[0].cancelled == 1


def test_a_batch_that_is_delivered_three_times_is_offered_three_times_and_no_lie(world):
    """P13: its frames are credited once, which the composition sees to."""
    a = world.attach("a")
    request = world.request(max_frames=6)
    for _ in range(3):
        a.asked[0].send(frame("f1"), frame("f2", "y"))
    a.asked[0].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    assert request.ids() == ["f1", "f2"] * 3


# Failover


def test_when_an_instance_is_lost_another_is_asked_and_the_old_frames_are_discarded(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request()
    first, second = (one, two) if one.asked else (two, one)
    first.asked[0].send(frame("old"), frame("both"))
    first.close()
    world.harness.settle()
    assert second.asked[0].deadline == first.asked[0].deadline
    second.asked[0].send(frame("both", "other content"))
    second.asked[0].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    assert request.ids() == ["both"]


def test_what_the_lost_instance_sent_does_not_count_against_the_grant(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request(max_frames=2)
    first, second = (one, two) if one.asked else (two, one)
    first.asked[0].send(frame("1"), frame("2"))
    first.close()
    second.asked[0].send(frame("1"), frame("2"))
    second.asked[0].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}


def test_with_no_other_instance_a_lost_lane_keeps_what_came(world):
    a = world.attach("a")
    request = world.request()
    a.asked[0].send(frame("f1"))
    a.close()
    assert request.ends() == {"a": LaneEnd.LOST}
    assert request.ids() == ["f1"]
    assert request.lane().message == "gone"


def test_every_instance_is_tried_once(world):
    instances = [world.attach("a", name) for name in "123"]
    request = world.request()
    for _ in instances:
        next(i for i in instances if i.open).close()
        world.harness.settle()
    assert [len(i.asked) for i in instances] == [1, 1, 1]
    assert request.ends() == {"a": LaneEnd.LOST}


def test_a_replaced_instance_is_lost_and_the_new_one_is_asked(world):
    """P13: frames of the replaced session are in no lane."""
    old = world.attach("a", session="s1")
    request = world.request()
    old.asked[0].send(frame("old"))
    new = world.attach("a", session="s2")
    old.asked[0].send(frame("ghost"))
    new.asked[0].send(frame("new"))
    new.asked[0].end()
    assert request.ids() == ["new"]


def test_after_the_deadline_no_other_is_asked(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request(seconds=2)
    first, second = (one, two) if one.asked else (two, one)
    first.asked[0].send(frame("f1"))
    world.harness.clock.now += 2
    first.close()
    assert request.ends() == {"a": LaneEnd.LOST}
    assert second.asked == []


def test_a_failed_answer_is_no_reason_to_ask_another(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request()
    (one if one.asked else two).asked[0].end(Ending.FAILED, "bad query")
    assert request.ends() == {"a": LaneEnd.FAILED}
    assert len(one.asked) + len(two.asked) == 1


def test_a_lane_has_one_scale_also_over_a_failover(world):
    old = world.attach("a", session="s1")
    request = world.request()
    world.attach("a", session="s2", scale=ScoreScale("other"))
    assert request.ends() == {"a": LaneEnd.LOST}
    assert old.asked[0].cancelled == 0


# Honesty


def test_the_grant_is_no_lie_to_fill_and_one_to_pass(world):
    """H48."""
    a = world.attach("a")
    request = world.request(max_frames=5)
    a.asked[0].send(*(frame(str(number)) for number in range(3)))
    a.asked[0].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    request = world.request(max_frames=5)
    a.asked[1].send(*(frame(str(number)) for number in range(6)))
    assert request.ends() == {"a": LaneEnd.REFUSED}
    assert request.lane().lie.reason == "COUNT_EXCEEDED"
    assert request.lane().offered == 6


def test_reading_stops_at_the_first_frame_beyond_the_grant(world):
    """H50."""
    seen = []

    class Watched(list):
        def __getitem__(self, part):
            seen.extend(super().__getitem__(part))
            return super().__getitem__(part)

    world.read = lambda data: Watched(read(data))
    a = world.attach("a")
    request = world.request(max_frames=64, max_tokens=10_000)
    a.asked[0].send(*(frame(str(number)) for number in range(10_000)))
    assert request.lane().lie.reason == "COUNT_EXCEEDED"
    assert len(seen) == 65


def test_a_lie_cancels_quarantines_reports_and_tells_the_provider(world):
    a, b = world.attach("a"), world.attach("b")
    request = world.request("a", "b")
    a.asked[0].send(frame("good"), frame("bad", **WRONG_COST))
    a.asked[0].send(frame("more"))
    assert a.asked[0].cancelled == 1
    assert [violation.reason for violation in a.asked[0].rejected] == ["COST_MISMATCH"]
    assert a.asked[0].rejected[0].frame_id == "bad"
    (report,) = request.lies
    assert (report.provider, report.instance, report.lie.reason, report.offered, report.sits_out) == (
        "a",
        a.key,
        "COST_MISMATCH",
        2,
        60.0,
    )
    assert world.harness.fabric.quarantined("a") == 60.0
    b.asked[0].send(frame("f"))
    b.asked[0].end()
    assert request.ends() == {"a": LaneEnd.REFUSED, "b": LaneEnd.COMPLETE}


def test_a_liar_is_not_asked_until_its_time_is_over_and_then_for_one_trial(world):
    a = world.attach("a")
    world.request()
    a.asked[0].send(frame("bad", **WRONG_COST))
    request = world.request()
    assert request.ends() == {"a": LaneEnd.QUARANTINED}
    assert "60 s" in request.lane().message
    world.advance(60)
    trial, beside = world.request(), world.request()
    assert len(a.asked) == 2
    assert beside.ends() == {"a": LaneEnd.QUARANTINED}
    a.asked[1].send(frame("good"))
    a.asked[1].end()
    assert trial.ends() == {"a": LaneEnd.COMPLETE}
    world.request()
    assert len(a.asked) == 3


def test_when_one_replica_lies_the_provider_sits_out_as_a_whole(world):
    """H91."""
    one, two = world.attach("a", "1"), world.attach("a", "2")
    b = world.attach("b")
    request = world.request("a", "b")
    liar = one if one.asked else two
    liar.asked[0].send(frame("bad", **WRONG_COST))
    b.asked[0].end()
    assert request.ends() == {"a": LaneEnd.REFUSED, "b": LaneEnd.EMPTY}
    assert request.lies[0].instance == liar.key
    assert world.request().ends() == {"a": LaneEnd.QUARANTINED}
    assert len(one.asked) + len(two.asked) == 1


def test_a_provider_that_sits_out_is_not_asked_again_for_a_lost_answer(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    early, late = world.request(), world.request()
    one.asked[0].send(frame("bad", **WRONG_COST))
    assert early.ends() == {"a": LaneEnd.REFUSED}
    two.close()
    assert late.ends() == {"a": LaneEnd.LOST}
    assert len(one.asked) == 1


def test_a_second_lie_found_while_it_sits_out_is_reported_and_adds_nothing(world, monkeypatch):
    told = []
    quarantine = world.harness.fabric.quarantine
    monkeypatch.setattr(world.harness.fabric, "quarantine", lambda *args: told.append(args) or quarantine(*args))
    a = world.attach("a")
    requests = [world.request(), world.request()]
    for exchange in a.asked:
        exchange.send(frame("bad", **WRONG_COST))
    assert [request.lies[0].sits_out for request in requests] == [60.0, 0.0]
    assert told == [("a", 60.0)]
    assert world.harness.fabric.quarantined("a") == 60.0


def test_slips_are_told_once_at_the_end_of_the_lane(world):
    a = world.attach("a")
    request = world.request()
    a.asked[0].send(frame("", "c"), frame("f", "c"))
    assert a.asked[0].rejected == []
    a.asked[0].end()
    assert [violation.reason for violation in a.asked[0].rejected] == ["ID_EMPTY"]
    assert request.ids() == ["f"]


@pytest.mark.parametrize(("slips", "more"), [(MAX_VIOLATIONS, 0), (MAX_VIOLATIONS + 1, 2), (100, 69)])
def test_the_verdict_is_bounded_and_says_how_much_it_leaves_out(world, slips, more):
    a = world.attach("a")
    world.request(max_frames=200, max_tokens=1000)
    a.asked[0].send(*(frame("") for _ in range(slips)))
    a.asked[0].end()
    rejected = a.asked[0].rejected
    assert len(rejected) == MAX_VIOLATIONS
    if more:
        assert rejected[-1] == Violation("MORE", f"and {more} more violations")
    assert [v.reason for v in rejected[: MAX_VIOLATIONS - 1]] == ["ID_EMPTY"] * (MAX_VIOLATIONS - 1)


def test_a_lie_after_many_slips_is_told_first(world):
    a = world.attach("a")
    world.request(max_frames=200, max_tokens=1000)
    a.asked[0].send(*(frame("") for _ in range(50)), frame("bad", **WRONG_COST))
    assert a.asked[0].rejected[0].reason == "COST_MISMATCH"
    assert len(a.asked[0].rejected) == MAX_VIOLATIONS


def test_the_verdict_on_a_lane_cut_by_the_deadline_comes_too(world):
    a = world.attach("a")
    world.request()
    a.asked[0].send(frame(""))
    world.advance(2)
    assert [violation.reason for violation in a.asked[0].rejected] == ["ID_EMPTY"]


@pytest.mark.parametrize("room", range(3))
def test_a_lane_ends_once_even_if_its_verdict_is_what_ends_the_session(world, room):
    session = ProviderSession(
        fabric=world.harness.fabric,
        clock=world.harness.clock,
        session_id="s",
        new_query_id=lambda: "q",
        now=world.harness.clock.time,
        outbox_limit=4,
    )
    session.receive(Hello("a", "1", max_in_flight=1))
    request = world.request()
    while session.take() is not None:
        pass
    for _ in range(session._outbox.limit - room):
        assert session._outbox.put(Draining(1))
    session.receive(Batch("q", frame("bad", **WRONG_COST)))
    assert request.ends() == {"a": LaneEnd.REFUSED}
    assert len(request.lies) == 1
    assert len(request.updates) == 1
    assert (session.error is None) == (room == 2)


# Circuits


def test_a_provider_that_keeps_failing_is_not_asked_for_a_while_and_others_are(world):
    a, b = world.attach("a"), world.attach("b")
    for _ in range(5):
        world.request()
        a.asked[-1].end(Ending.FAILED, "raised")
    request = world.request("a", "b")
    b.asked[0].end()
    assert request.ends() == {"a": LaneEnd.FAILED, "b": LaneEnd.EMPTY}
    assert "circuit open" in request.lane().message
    assert request.lane().retry_after == 5.0
    assert len(a.asked) == 5
    world.advance(5)
    trial, beside = world.request(), world.request()
    assert beside.ends() == {"a": LaneEnd.FAILED}
    a.asked[-1].end()
    assert trial.ends() == {"a": LaneEnd.EMPTY}
    world.request()
    assert len(a.asked) == 7


def test_a_caller_in_a_hurry_opens_no_circuit(world):
    a = world.attach("a")
    for _ in range(20):
        world.request(seconds=0.1)
        world.advance(0.1)
    assert len(a.asked) == 20


def test_a_provider_that_is_busy_or_whose_requests_were_cancelled_has_not_failed(world):
    a = world.attach("a", max_in_flight=1)
    first = world.request()
    for _ in range(10):
        assert world.request().ends() == {"a": LaneEnd.FAILED}
    first.collection.close()
    for _ in range(10):
        world.request().collection.close()
    world.request()
    assert len(a.asked) == 12


# Pushes


KEY = PushKey("", "r1", "p")


@pytest.mark.parametrize("early", [True, False])
def test_a_push_is_a_lane_in_either_order_with_its_own_scale(world, early):
    scale = ScoreScale("bm25", 0, 100)
    push = Push(scale, (batch(frame("1", score=70.0)), batch(frame("2", score=5.0))))
    if early:
        world.harness.fabric.hold(KEY, push, 30)
    request = world.request(WantedLane("p", KEY))
    if not early:
        world.harness.fabric.hold(KEY, push, 30)
    assert request.ends() == {"p": LaneEnd.COMPLETE}
    assert request.ids("p") == ["1", "2"]
    assert request.lane("p").scale == scale


def test_a_push_that_does_not_come_is_a_timed_out_lane(world):
    request = world.request(WantedLane("p", KEY))
    world.advance(2)
    assert request.ends() == {"p": LaneEnd.TIMED_OUT}
    assert world.harness.pushes.waiting == 0


def test_an_attached_provider_that_is_to_push_is_not_asked(world):
    p = world.attach("p")
    world.request(WantedLane("p", KEY))
    assert p.asked == []


def test_a_lie_in_a_push_is_a_lie(world):
    request = world.request(WantedLane("p", KEY))
    push = Push(UNIT, (batch(frame("bad", **WRONG_COST)), batch(frame("more"))))
    world.harness.fabric.hold(KEY, push, 30)
    assert request.ends() == {"p": LaneEnd.REFUSED}
    assert request.lane("p").offered == 1
    assert request.lies[0].instance is None
    assert world.request(WantedLane("p", KEY)).ends() == {"p": LaneEnd.QUARANTINED}


def test_a_push_is_held_to_the_grant(world):
    request = world.request(WantedLane("p", KEY), max_frames=2)
    world.harness.fabric.hold(KEY, Push(UNIT, (batch(*(frame(str(n)) for n in range(3))),)), 30)
    assert request.lane("p").lie.reason == "COUNT_EXCEEDED"


def test_a_push_of_a_provider_that_this_request_does_not_expect_joins_no_lane(world):
    """H58."""
    request = world.request(WantedLane("p", KEY))
    world.harness.fabric.hold(PushKey("", "r1", "stranger"), Push(UNIT, (batch(frame("x")),)), 30)
    world.advance(2)
    assert request.ends() == {"p": LaneEnd.TIMED_OUT}


# What the request hears while it waits


def test_updates_come_with_the_first_frames_now_and_then_and_with_the_end_and_not_for_every_batch(world):
    a = world.attach("a")
    request = world.request("a", "ghost")
    a.asked[0].send()
    assert request.updates == [LaneUpdate("ghost", LaneEnd.ABSENT, 0, "no instance is attached")]
    for number in range(4):
        a.asked[0].send(frame(str(number)))
    world.harness.advance(TOLD_SECONDS)
    a.asked[0].send()
    a.asked[0].send(frame("4"))
    a.asked[0].end()
    told = [(None, 1), (None, 4), (LaneEnd.COMPLETE, 5)]
    assert request.updates[1:] == [LaneUpdate("a", end, came) for end, came in told]


def test_a_lie_in_the_first_batch_is_one_update(world):
    a = world.attach("a")
    request = world.request()
    a.asked[0].send(frame("bad", **WRONG_COST))
    assert [update.end for update in request.updates] == [LaneEnd.REFUSED]


# Turns


@pytest.fixture
def turns(world, monkeypatch):
    """A world in which two frames are a turn; each turn is noted, and so is whatever else had one."""
    monkeypatch.setattr("broker.gather.attempt.TURN_BYTES", 2 * FRAME_BYTES)
    world.read_at = []

    class Watched(list):
        def __getitem__(self, part):
            world.read_at.append(part.start)
            world.harness.clock.call_soon(lambda: world.read_at.append("another"))
            return super().__getitem__(part)

    world.read = lambda data: Watched(read(data))
    return world


def test_a_large_batch_is_read_in_turns_and_what_comes_after_it_waits(turns):
    a = turns.attach("a")
    request = turns.request(max_frames=9)
    a.asked[0].send(*(frame(str(number)) for number in range(5)))
    a.asked[0].send(frame("5"))
    a.asked[0].end()
    assert request.done == 0
    turns.harness.settle()
    assert turns.read_at == [0, "another", 2, "another", 4, 0, "another", "another"]
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    assert request.ids() == ["0", "1", "2", "3", "4", "5"]
    assert request.updates == [LaneUpdate("a", None, 5), LaneUpdate("a", LaneEnd.COMPLETE, 6)]


def test_a_batch_of_large_frames_is_read_in_turns_of_fewer(turns):
    a = turns.attach("a")
    request = turns.request(max_tokens=10_000)
    a.asked[0].send(*(frame(str(number), "x" * (FRAME_BYTES + 1)) for number in range(3)))
    a.asked[0].end()
    turns.harness.settle()
    assert [start for start in turns.read_at if start != "another"] == [0, 1, 2]
    assert request.ids() == ["0", "1", "2"]


@pytest.mark.parametrize("early", [True, False])
def test_a_push_of_many_parts_is_read_in_turns(turns, early):
    push = Push(UNIT, tuple(batch(frame(str(number))) for number in range(5)))
    if early:
        turns.harness.fabric.hold(KEY, push, 30)
    request = turns.request(WantedLane("p", KEY))
    if not early:
        turns.harness.fabric.hold(KEY, push, 30)
        assert (turns.read_at, request.done) == ([0, 0], 0)
        turns.harness.settle()
    assert turns.read_at == [0, 0, "another", "another"] * 2 + [0, "another"]
    assert request.ends() == {"p": LaneEnd.COMPLETE}
    assert request.ids("p") == ["0", "1", "2", "3", "4"]
    assert request.updates == [LaneUpdate("p", None, 1), LaneUpdate("p", LaneEnd.COMPLETE, 5)]


def test_the_deadline_cuts_a_push_between_its_turns(turns):
    request = turns.request(WantedLane("p", KEY))
    turns.harness.fabric.hold(KEY, Push(UNIT, tuple(batch(frame(str(number))) for number in range(5))), 30)
    request.collection._expire()
    turns.harness.settle()
    assert request.ends() == {"p": LaneEnd.PARTIAL}
    assert request.ids("p") == ["0", "1"]
    assert turns.harness.pushes.waiting == 0


def test_batches_without_frames_take_turns_too(turns):
    request = turns.request(WantedLane("p", KEY))
    turns.harness.fabric.hold(KEY, Push(UNIT, (b"",) * 7), 30)
    assert request.done == 0
    assert len([start for start in turns.read_at if start == 0]) == 2
    turns.harness.settle()
    assert request.ends() == {"p": LaneEnd.EMPTY}


def test_a_lie_in_a_later_turn_is_accounted_for_with_the_whole_batch(turns):
    a = turns.attach("a")
    request = turns.request(max_frames=9)
    a.asked[0].send(*(frame(str(n), **WRONG_COST if n in (3, 5) else {}) for n in range(7)))
    a.asked[0].send(frame("later"))
    a.asked[0].end()
    turns.harness.settle()
    assert request.ends() == {"a": LaneEnd.REFUSED}
    assert request.lane().lie.frame_id == "3"
    assert request.lane().offered == 7
    assert a.asked[0].cancelled == 0
    assert len(request.lies) == 1


def test_a_flood_is_not_read_past_the_grant_in_any_turn(turns):
    a = turns.attach("a")
    request = turns.request(max_frames=5)
    a.asked[0].send(*(frame(str(number)) for number in range(1000)))
    turns.harness.settle()
    assert request.lane().lie.reason == "COUNT_EXCEEDED"
    assert request.lane().offered == 6


def test_the_deadline_cuts_a_batch_that_is_being_read(turns):
    a = turns.attach("a")
    request = turns.request(max_frames=9)
    a.asked[0].send(*(frame(str(number)) for number in range(8)))
    a.asked[0].end()
    request.collection._expire()
    assert request.ends() == {"a": LaneEnd.PARTIAL}
    assert request.ids() == ["0", "1"]
    turns.harness.settle()
    assert request.lane().offered == 2
    assert [start for start in turns.read_at if start != "another"] == [0]


def test_an_abandoned_lane_reads_no_further(turns):
    a = turns.attach("a")
    request = turns.request(max_frames=9)
    a.asked[0].send(*(frame(str(number)) for number in range(8)))
    request.collection.close()
    turns.harness.settle()
    assert request.done == 0
    assert [start for start in turns.read_at if start != "another"] == [0]


def test_a_lane_that_fails_while_a_batch_is_being_read_has_what_came_before(turns):
    a, b, c = (turns.attach(name) for name in "abc")
    sent = [frame(str(number)) for number in range(4)]
    turns.lane_bytes = len(batch(*sent)) + 10
    request = turns.request("a", "b", "c", max_frames=9)
    a.asked[0].send(*sent)
    a.asked[0].send(frame("more"))
    b.asked[0].send(*sent)
    b.asked[0].end(Ending.LOST, "gone")
    c.asked[0].send(*sent)
    c.asked[0].send(b"!")
    turns.harness.settle()
    assert request.ends() == {"a": LaneEnd.FAILED, "b": LaneEnd.LOST, "c": LaneEnd.FAILED}
    assert [request.ids(name) for name in "abc"] == [["0", "1", "2", "3"]] * 3


# Bytes


def test_an_answer_of_more_bytes_than_a_lane_may_have_ends_it_with_what_came_before(world):
    a = world.attach("a")
    world.lane_bytes = len(batch(frame("f1"))) * 2
    request = world.request(max_frames=9)
    a.asked[0].send(frame("f1"))
    a.asked[0].send(frame("f2"))
    a.asked[0].send(frame("f3"))
    assert request.ends() == {"a": LaneEnd.FAILED}
    assert request.ids() == ["f1", "f2"]
    assert a.asked[0].cancelled == 1


def test_an_answer_that_there_is_no_room_for_ends_its_lane_and_is_not_held_against_its_provider(world):
    a, b = world.attach("a"), world.attach("b")
    world.held = holding(len(batch(frame("f1"))))
    for _ in range(20):
        request = world.request("a", "b")
        b.asked[-1].send(frame("f1"))
        a.asked[-1].send(frame("f2"))
        b.asked[-1].end()
        assert request.ends() == {"a": LaneEnd.FAILED, "b": LaneEnd.COMPLETE}
        assert "no room" in request.lane("a").message
        assert request.ids("b") == ["f1"]
        request.collection.close()
        world.held.release()
