"""A hedged lane asks a second instance after a while, is the answer of the first to end, and counts no frame twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.lanes import LaneEnd
from broker.core.scores import ScoreScale
from broker.gather.fabric import Ending
from tests.gather.support import frame
from tests.gather.test_lane import WRONG_COST, World


@pytest.fixture
def world():
    world = World()
    world.hedges = {"a": 0.5}
    return world


def asked_twice(world, **kwargs):
    """A request of which both instances were asked: it, the first asked and the second."""
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request(**kwargs)
    first, second = (one, two) if one.asked else (two, one)
    world.advance(0.49)
    assert second.asked == []
    world.advance(0.01)
    return request, first.asked[0], second.asked[0]


def test_a_second_instance_is_asked_after_the_delay_within_the_same_deadline(world):
    _, first, second = asked_twice(world)
    assert second.deadline == first.deadline
    assert second.query == first.query
    assert first.cancelled == 0


@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_to_end_is_the_lane_and_the_other_is_cancelled(world, winner):
    request, *both = asked_twice(world)
    both[0].send(frame("1"), frame("shared"))
    both[1].send(frame("shared"), frame("2"))
    both[winner].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    assert request.ids() == [["1", "shared"], ["shared", "2"]][winner]
    assert request.lane().offered == 2
    assert [exchange.cancelled for exchange in both] == [int(winner == 1), int(winner == 0)]
    world.advance(2)
    assert world.harness.clock.pending == 0


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.LOST])
@pytest.mark.parametrize("loser", [0, 1])
def test_one_that_fails_or_is_lost_leaves_the_lane_to_the_other(world, ending, loser):
    request, *both = asked_twice(world)
    both[loser].send(frame("gone"))
    both[loser].end(ending, "no more")
    assert request.done == 0
    both[1 - loser].send(frame("kept"))
    both[1 - loser].end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}
    assert request.ids() == ["kept"]


def test_where_both_come_to_nothing_the_lane_ends_as_the_last_did(world):
    request, first, second = asked_twice(world)
    second.send(frame("1"))
    first.end(Ending.FAILED, "the first")
    second.end(Ending.LOST, "the second")
    assert request.ends() == {"a": LaneEnd.LOST}
    assert (request.lane().message, request.ids()) == ("the second", ["1"])


@pytest.mark.parametrize("liar", [0, 1])
def test_a_lie_of_either_refuses_the_lane_and_names_who_lied(world, liar):
    """H91."""
    request, *both = asked_twice(world)
    both[1 - liar].send(frame("good"))
    both[liar].send(frame("bad", **WRONG_COST))
    assert request.ends() == {"a": LaneEnd.REFUSED}
    assert request.lies[0].instance == both[liar].owner.key
    assert request.lane().offered == 1
    assert [len(exchange.rejected) for exchange in both] == [int(liar == 0), int(liar == 1)]
    assert both[1 - liar].cancelled == 1


def test_at_the_deadline_the_one_that_sent_more_is_the_lane(world):
    request, first, second = asked_twice(world)
    first.send(frame("1"))
    second.send(frame("1"), frame("2"))
    world.advance(2)
    assert request.ends() == {"a": LaneEnd.PARTIAL}
    assert request.ids() == ["1", "2"]
    assert (first.cancelled, second.cancelled) == (1, 1)


def test_both_silent_is_a_timed_out_lane(world):
    request, *_ = asked_twice(world)
    world.advance(2)
    assert request.ends() == {"a": LaneEnd.TIMED_OUT}


def test_each_of_them_has_the_whole_grant(world):
    request, first, second = asked_twice(world, max_frames=2)
    first.send(frame("1"), frame("2"))
    second.send(frame("1"), frame("2"))
    second.end()
    assert request.ends() == {"a": LaneEnd.COMPLETE}


def test_an_answer_within_the_delay_asks_no_second_and_leaves_no_timer(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    request = world.request()
    (one if one.asked else two).asked[0].end()
    assert request.ends() == {"a": LaneEnd.EMPTY}
    request.collection.close()
    assert world.harness.clock.pending == 0
    world.advance(2)
    assert len(one.asked) + len(two.asked) == 1


def test_a_provider_without_a_hedge_is_asked_once(world):
    one, two = world.attach("b", "1"), world.attach("b", "2")
    world.request("b")
    world.advance(1.9)
    assert len(one.asked) + len(two.asked) == 1


def test_alone_or_with_no_other_free_it_waits_for_the_first(world):
    one, _ = world.attach("a", "1"), world.attach("a", "2", max_in_flight=1)
    world.request()
    world.request()
    request, exchange = world.request(), one.asked[-1]
    world.advance(0.5)
    exchange.end()
    assert request.ends() == {"a": LaneEnd.EMPTY}


def test_after_a_failover_the_hedge_still_asks_one_more(world):
    instances = [world.attach("a", name) for name in "123"]
    request = world.request()
    next(i for i in instances if i.asked).close()
    world.harness.settle()
    world.advance(0.5)
    assert [len(i.asked) for i in instances] == [1, 1, 1]
    for instance in instances[1:]:
        instance.asked[0].send(frame("f"))
    instances[2].asked[0].end()
    assert request.ids() == ["f"]


def test_a_second_of_another_scale_is_not_asked(world):
    world.attach("a", session="s1")
    request = world.request()
    world.attach("a", session="s2", scale=ScoreScale("other"))
    assert request.ends() == {"a": LaneEnd.LOST}


def test_a_provider_that_sits_out_meanwhile_is_not_asked_again(world):
    one, two = world.attach("a", "1"), world.attach("a", "2")
    world.request()
    world.harness.fabric.quarantine("a", 60)
    world.advance(1)
    assert len(one.asked) + len(two.asked) == 1


def test_a_cancelled_request_stops_both(world):
    request, first, second = asked_twice(world)
    request.collection.close()
    assert (first.cancelled, second.cancelled) == (1, 1)
    assert world.harness.clock.pending == 0


STEPS = st.tuples(st.sampled_from(["send", "send", "end", "fail", "lose", "wait"]), st.integers(0, 1))


@given(st.lists(STEPS, max_size=12))
def test_whatever_happens_the_lane_is_the_whole_of_what_one_of_them_sent(steps):
    world = World()
    world.hedges = {"a": 0.5}
    request, *both = asked_twice(world)
    sent = [[], []]
    for number, (step, which) in enumerate(steps):
        exchange = both[which]
        if request.done or id(exchange) not in exchange.owner.open:
            continue
        if step == "send":
            sent[which].append(f"{which}-{number}")
            exchange.send(frame(f"{which}-{number}"))
        elif step == "wait":
            world.advance(0.3)
        else:
            ending = {"end": Ending.COMPLETE, "fail": Ending.FAILED, "lose": Ending.LOST}[step]
            exchange.end(ending)
    world.advance(2)
    assert request.done == 1
    if request.lane().end is not LaneEnd.REFUSED:
        assert request.ids() in sent
        assert request.lane().offered == len(request.ids())
    assert [update.end for update in request.updates if update.end] == [request.lane().end]
    request.collection.close()
    assert world.harness.clock.pending == 0
    assert not world.harness.fabric._answers
