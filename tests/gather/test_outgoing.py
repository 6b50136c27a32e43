"""A query leaves with the time that it has left by then, and not at all once it is over."""

from __future__ import annotations

from broker.gather.asked import Asked
from broker.gather.outgoing import Outgoing
from broker.wire.events import Ask, Draining
from tests.gather.support import QUERY, FakeClock, Recorder


def asked(name: str, deadline: float) -> Asked:
    return Asked(name, QUERY, deadline, Recorder(), lambda _: None, lambda _: None)


def test_a_query_is_sent_with_the_time_that_is_left_when_it_leaves():
    clock = FakeClock()
    query, late = asked("q1", clock.time() + 2.0), asked("q2", clock.time() + 0.5)
    outgoing = Outgoing(8, clock, {"q1", "q2"})
    assert outgoing.put(query)
    assert outgoing.put(late)
    assert not query.sent
    clock.advance(0.75)
    assert outgoing.event() == Ask("q1", QUERY, 1250)
    assert query.sent
    assert outgoing.event() == Ask("q2", QUERY, 0)


def test_a_query_that_is_over_is_passed_over_and_was_never_sent():
    clock = FakeClock()
    query, outgoing = asked("q1", clock.time() + 2.0), Outgoing(8, clock, set())
    outgoing.put(query)
    outgoing.put(Draining(5))
    assert outgoing.event() == Draining(5)
    assert outgoing.event() is None
    assert not query.sent


async def test_waiting_skips_what_is_over_and_ends_with_the_outbox():
    clock = FakeClock()
    outgoing = Outgoing(8, clock, set())
    outgoing.put(asked("q1", clock.time()))
    outgoing.put(Draining(5))
    outgoing.close()
    assert await outgoing.next_event() == Draining(5)
    assert await outgoing.next_event() is None
