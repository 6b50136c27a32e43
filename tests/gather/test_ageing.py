"""A session of some age makes place for a newer one of its replica, and nothing that it was asked is lost by it."""

from __future__ import annotations

from broker.gather.ageing import Ageing
from broker.gather.fabric import Ending
from broker.gather.session import RETIRED_LINGER, State
from broker.wire.events import Draining, LaneEnded
from tests.gather.test_session import Door, drain

TIMES = {"age": 100.0, "overlap": 10.0, "finish": 300.0, "uniform": lambda low, high: (low + high) / 2}


def aged(door: Door):
    """A session that was just told to attach anew."""
    session = door.attached()
    ageing = Ageing(session, door.harness.clock, **TIMES)
    door.harness.advance(99)
    assert drain(session) == []
    door.harness.advance(1)
    assert drain(session) == [Draining(310_000)]
    return session, ageing


def test_it_is_told_at_its_age_how_long_it_may_stay():
    session, _ = aged(Door())
    assert session.renewing


def test_ages_differ_by_a_tenth_at_most():
    """P6."""
    drawn = []
    door = Door()
    Ageing(door.attached(), door.harness.clock, **TIMES | {"uniform": lambda *ends: drawn.append(ends) or ends[1]})
    assert drawn == [(0.9, 1.1)]


def test_where_no_newer_one_comes_it_is_asked_no_more_and_ends_well_when_it_has_finished():
    door = Door()
    session, ageing = aged(door)
    door.harness.advance(9)
    query_id, sink, _ = door.asked(session)
    door.harness.advance(1)
    assert door.harness.fabric.pick("a", []) == (None, 0)
    door.harness.advance(200)
    session.receive(LaneEnded(query_id))
    assert sink.endings == [Ending.COMPLETE]
    door.harness.advance(RETIRED_LINGER)
    assert (session.state, session.error) == (State.CLOSED, None)
    ageing.stop()
    assert door.harness.clock.pending == 0


def test_one_that_never_leaves_is_closed():
    door = Door()
    session, _ = aged(door)
    _, sink, _ = door.asked(session)
    door.harness.advance(310)
    assert (session.error.code, session.error.reason) == ("UNAVAILABLE", "SESSION_AGE")
    assert sink.endings == [Ending.LOST]


def test_a_session_that_is_over_leaves_no_timer():
    door = Door()
    session = door.attached()
    ageing = Ageing(session, door.harness.clock, **TIMES)
    session.close()
    ageing.stop()
    ageing.stop()
    assert door.harness.clock.pending == 0
