"""What is to be sent leaves in order and in bounds; a query with the time that it has left by then, or not at all."""

from __future__ import annotations

from broker.gather.asked import Asked
from broker.gather.outgoing import Outgoing
from broker.wire.events import Ask, Cancel, Draining
from tests.gather.support import QUERY, FakeClock, Recorder


def asked(name: str, deadline: float) -> Asked:
    return Asked(name, QUERY, deadline, Recorder(), None)


def outgoing(limit: int = 8, *open_ids: str, clock: FakeClock | None = None) -> Outgoing:
    return Outgoing(limit, clock or FakeClock(), set(open_ids))


def taken(box: Outgoing) -> list[object]:
    """All that it gives."""
    events = []
    while (event := box.take()) is not None:
        events.append(event)
    return events


def test_items_come_out_in_order():
    box = outgoing()
    assert [box.put(Draining(number)) for number in (1, 2, 3)] == [True, True, True]
    assert taken(box) == [Draining(1), Draining(2), Draining(3)]


def test_a_full_one_takes_nothing_until_there_is_room():
    box = outgoing(1)
    assert box.put(Draining(1))
    assert not box.put(Cancel("q"))
    assert box.take() == Draining(1)
    assert box.put(Draining(3))
    assert taken(box) == [Draining(3)]


def test_a_closed_one_gives_out_what_it_holds_and_what_comes_later_vanishes():
    box = outgoing(1)
    box.put(Draining(1))
    box.close()
    assert box.put(Draining(2))
    assert taken(box) == [Draining(1)]


def test_closing_discards_on_demand():
    box = outgoing()
    box.put(Draining(1))
    box.close(discard=True)
    assert box.put(Draining(2))
    assert taken(box) == []


def test_a_query_is_sent_with_the_time_that_is_left_when_it_leaves():
    clock = FakeClock()
    query, late = asked("q1", clock.time() + 2.0), asked("q2", clock.time() + 0.5)
    box = outgoing(8, "q1", "q2", clock=clock)
    assert box.put(query)
    assert box.put(late)
    assert not query.sent
    clock.advance(0.75)
    assert box.take() == Ask("q1", QUERY, 1250)
    assert query.sent
    assert not late.sent
    assert box.take() == Ask("q2", QUERY, 0)


def test_a_query_that_is_over_is_passed_over_and_was_never_sent():
    clock = FakeClock()
    query, box = asked("q1", clock.time() + 2.0), outgoing(clock=clock)
    box.put(query)
    box.put(Draining(5))
    assert taken(box) == [Draining(5)]
    assert not query.sent
