"""A provider's session keeps its protocol whatever the provider says, and every query it takes ends once."""

from __future__ import annotations

import itertools

import pytest

from broker.core.scores import UNIT, ScoreScale
from broker.errors import Aborted, Unavailable
from broker.gather.fabric import Ending, InstanceKey
from broker.gather.session import NOT_OPEN, RETIRED_LINGER, ProviderSession, State
from broker.wire.events import (
    Ask,
    Batch,
    Cancel,
    Detached,
    Draining,
    Hello,
    LaneEnded,
    Malformed,
    Rejection,
    Violation,
    Welcome,
)
from tests.gather.support import QUERY, Recorder
from tests.gather.test_local import LocalHarness

HELLO = Hello("a", "1", "1.2", ("doc",), ScoreScale("cosine", -1.0, 1.0), 4)


class Door:
    """Sessions on one local fabric."""

    def __init__(self) -> None:
        self.harness = LocalHarness()
        self.ids = (f"q{number}" for number in itertools.count(1))

    def session(self, session_id: str = "s1", **kwargs) -> ProviderSession:
        return ProviderSession(
            fabric=self.harness.fabric,
            clock=self.harness.clock,
            session_id=session_id,
            new_query_id=lambda: next(self.ids),
            now=self.harness.clock.time,
            **kwargs,
        )

    def attached(self, hello: Hello = HELLO, session_id: str = "s1", **kwargs) -> ProviderSession:
        session = self.session(session_id, **kwargs)
        session.receive(hello)
        assert session.take() == Welcome(session_id)
        return session

    def asked(self, session: ProviderSession, provider: str = "a"):
        """A query that was sent: its id, sink and handle."""
        sink, handle = self.harness.ask(provider)
        event = session.take()
        assert isinstance(event, Ask)
        return event.query_id, sink, handle


def drain(session):
    events = []
    while (event := session.take()) is not None:
        events.append(event)
    return events


# Attaching


def test_hello_attaches_and_the_first_message_is_welcome():
    door = Door()
    session = door.attached()
    assert session.state is State.OPEN
    (status,) = door.harness.fabric.instances()
    assert status.key == InstanceKey("", "a", "1", "s1")
    assert (status.version, status.kinds, status.scale.id, status.max_in_flight) == ("1.2", ("doc",), "cosine", 4)


@pytest.mark.parametrize("first", [Batch("q", b""), LaneEnded("q"), Detached()])
def test_anything_before_hello_is_out_of_order(first):
    """H21."""
    session = Door().session()
    session.receive(first)
    assert session.state is State.CLOSED
    assert (session.error.code, session.error.reason) == ("FAILED_PRECONDITION", "PROTOCOL_ORDER")
    assert drain(session) == []


def test_a_first_message_that_cannot_be_read_ends_the_session_with_its_own_reason():
    session = Door().session()
    session.receive(Malformed("PROVIDER_NAME", "bad name"))
    assert (session.error.code, session.error.reason) == ("INVALID_ARGUMENT", "PROVIDER_NAME")


def test_a_second_hello_ends_the_session_and_its_open_lanes_fail():
    """H21."""
    door = Door()
    session = door.attached()
    _, sink, _ = door.asked(session)
    session.receive(HELLO)
    assert session.error.reason == "PROTOCOL_ORDER"
    assert sink.endings == [Ending.FAILED]
    assert door.harness.fabric.instances() == ()


def test_a_refused_hello_says_nothing_but_why():
    """H92."""
    door = Door()
    door.attached()
    second = door.session("s2")
    second.receive(Hello("a", "2", scale=UNIT))
    assert (second.error.code, second.error.reason) == ("FAILED_PRECONDITION", "SCALE_CONFLICT")
    assert "cosine" in second.error.message
    assert "unit" in second.error.message
    assert drain(second) == []
    assert len(door.harness.fabric.instances()) == 1


def test_the_same_replica_attaching_again_fences_the_old_session():
    """H52, P13."""
    door = Door()
    old = door.attached()
    query_id, sink, _ = door.asked(old)
    new = door.attached(session_id="s2")
    assert isinstance(old.error, Aborted)
    assert old.error.reason == "FENCED"
    assert sink.endings == [Ending.LOST]
    old.receive(Batch(query_id, b"ghost"))
    old.receive(LaneEnded(query_id))
    assert sink.batches == []
    assert drain(old) == []
    assert new.state is State.OPEN


def test_another_replica_stays_beside_the_first():
    """H52."""
    door = Door()
    door.attached()
    door.attached(Hello("a", "2", scale=HELLO.scale), "s2")
    assert [status.key.instance for status in door.harness.fabric.instances()] == ["1", "2"]


# Answering


def test_a_query_is_sent_whole_with_the_time_left_when_it_is_sent():
    door = Door()
    session = door.attached()
    door.harness.ask()
    door.harness.clock.now += 0.75
    assert session.take() == Ask("q1", QUERY, 1250)


def test_a_query_sent_after_its_deadline_has_no_time_left_and_not_less():
    door = Door()
    session = door.attached()
    door.harness.ask()
    door.harness.clock.now += 9
    assert session.take().remaining_ms == 0


def test_batches_and_the_end_reach_the_sink():
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.receive(Batch(query_id, b"1"))
    session.receive(Batch(query_id, b"2"))
    assert session.in_flight == 1
    session.receive(LaneEnded(query_id))
    assert sink.calls == [("batch", b"1", False), ("batch", b"2", False), ("end", Ending.COMPLETE, "")]
    assert session.in_flight == 0
    assert drain(session) == []


def test_a_provider_that_cannot_answer_says_why():
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.receive(LaneEnded(query_id, failed=True, message="index is gone"))
    assert sink.calls == [("end", Ending.FAILED, "index is gone")]


@pytest.mark.parametrize("event", [Batch, LaneEnded])
def test_unknown_finished_foreign_cancelled_and_unsent_queries_get_one_and_the_same_text(event):
    """H22."""
    door = Door()
    session, other = door.attached(), door.attached(Hello("b", "1"), "s2")
    finished, _, _ = door.asked(session)
    session.receive(LaneEnded(finished))
    cancelled, _, handle = door.asked(session)
    handle.cancel()
    assert drain(session) == [Cancel(cancelled)]
    foreign, foreign_sink, _ = door.asked(other, "b")
    unsent_sink, _ = door.harness.ask()
    made = {
        query_id: event(query_id, b"f") if event is Batch else event(query_id)
        for query_id in ("nonsense", finished, cancelled, foreign, "q4")
    }
    for said in made.values():
        session.receive(said)
    events = [sent for sent in drain(session) if not isinstance(sent, Ask)]
    assert events == [Rejection(query_id, (NOT_OPEN,)) for query_id in made]
    assert session.state is State.OPEN
    assert foreign_sink.calls == unsent_sink.calls == []


def test_a_message_that_cannot_be_read_is_rejected_alone():
    """H15."""
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.receive(Malformed("MALFORMED", "does not parse", query_id))
    session.receive(Batch(query_id, b"1"))
    assert drain(session) == [Rejection(query_id, (Violation("MALFORMED", "does not parse"),))]
    assert sink.batches == [b"1"]


def test_cancelling_reaches_the_provider_once_and_what_it_still_sends_is_rejected():
    door = Door()
    session = door.attached()
    query_id, sink, handle = door.asked(session)
    handle.cancel()
    handle.cancel()
    assert drain(session) == [Cancel(query_id)]
    assert session.in_flight == 0
    session.receive(Batch(query_id, b"late"))
    assert drain(session) == [Rejection(query_id, (NOT_OPEN,))]
    assert sink.calls == []


def test_a_query_cancelled_before_it_was_sent_is_not_sent():
    door = Door()
    session = door.attached()
    _, handle = door.harness.ask()
    handle.cancel()
    assert drain(session) == []


def test_a_verdict_follows_the_end_of_its_lane():
    door = Door()
    session = door.attached()
    query_id, _, handle = door.asked(session)
    session.receive(LaneEnded(query_id))
    violation = Violation("TITLE_EMPTY", "needs a title", "f1")
    handle.reject([violation])
    handle.reject([])
    assert drain(session) == [Rejection(query_id, (violation,))]


# Leaving


def test_after_detach_there_are_no_new_queries_and_open_ones_may_be_answered():
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.receive(Detached())
    assert door.harness.fabric.pick("a", []) == (None, 0)
    session.receive(Batch(query_id, b"1"))
    session.receive(LaneEnded(query_id))
    assert sink.calls == [("batch", b"1", False), ("end", Ending.COMPLETE, "")]
    assert session.state is State.DETACHED


def test_a_query_that_was_not_sent_before_detach_is_lost_at_once():
    door = Door()
    session = door.attached()
    sink, _ = door.harness.ask()
    session.receive(Detached())
    assert sink.endings == [Ending.LOST]
    assert drain(session) == []


@pytest.mark.parametrize("event", [Batch("q9", b"f"), LaneEnded("q9"), HELLO, Detached()])
def test_anything_new_after_detach_is_out_of_order(event):
    """H21."""
    door = Door()
    session = door.attached()
    _, sink, _ = door.asked(session)
    session.receive(Detached())
    session.receive(event)
    assert session.error.reason == "PROTOCOL_ORDER"
    assert sink.endings == [Ending.FAILED]


def test_a_batch_that_crossed_with_its_cancellation_after_detach_is_no_offence():
    door = Door()
    session = door.attached()
    query_id, _, handle = door.asked(session)
    session.receive(Detached())
    handle.cancel()
    session.receive(Batch(query_id, b"crossed"))
    assert drain(session) == [Cancel(query_id), Rejection(query_id, (NOT_OPEN,))]
    assert session.error is None


def test_a_detached_session_with_nothing_open_ends_well_after_its_linger():
    door = Door()
    session = door.attached(linger=10)
    query_id, _, _ = door.asked(session)
    session.receive(Detached())
    door.harness.advance(11)
    assert session.state is State.DETACHED
    session.receive(LaneEnded(query_id))
    door.harness.advance(9)
    assert session.state is State.DETACHED
    door.harness.advance(1)
    assert session.state is State.CLOSED
    assert session.error is None
    assert drain(session) == []


def test_a_lost_connection_loses_what_is_open_and_leaves_nothing():
    door = Door()
    session = door.attached()
    _, sent, handle = door.asked(session)
    unsent, _ = door.harness.ask()
    session.close()
    session.close(Unavailable("LATER", "not this"))
    assert sent.endings == unsent.endings == [Ending.LOST]
    assert session.error is None
    assert session.in_flight == 0
    assert door.harness.fabric.instances() == ()
    assert drain(session) == []
    handle.cancel()
    handle.reject([NOT_OPEN])
    session.receive(HELLO)
    session.drain(5)
    assert drain(session) == []
    assert session.state is State.CLOSED
    assert door.harness.clock.pending == 0


def test_a_lost_connection_of_a_detached_session_leaves_no_timer():
    door = Door()
    session = door.attached()
    session.receive(Detached())
    session.close()
    assert door.harness.clock.pending == 0


def test_asking_a_session_that_has_ended_is_an_ending():
    door = Door()
    session = door.attached()
    session.close()
    sink = Recorder()
    session.ask(QUERY, 0.0, sink)
    assert sink.endings == [Ending.LOST]


def test_draining_tells_the_provider_and_lets_it_finish():
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.drain(10_000)
    assert drain(session) == [Draining(10_000)]
    assert door.harness.fabric.pick("a", []) == (None, 0)
    session.receive(LaneEnded(query_id))
    assert sink.endings == [Ending.COMPLETE]
    session.receive(Detached())
    assert session.state is State.DETACHED


def test_a_session_that_is_renewed_is_told_and_asked_as_before():
    """P6."""
    door = Door()
    session = door.attached()
    session.renew(10_000)
    assert drain(session) == [Draining(10_000)]
    query_id, sink, _ = door.asked(session)
    session.receive(LaneEnded(query_id))
    assert sink.endings == [Ending.COMPLETE]


def test_a_newer_session_after_a_renewal_leaves_the_old_one_to_finish_and_end_well():
    """P6."""
    door = Door()
    old = door.attached()
    query_id, sink, _ = door.asked(old)
    unsent, _ = door.harness.ask()
    old.renew(10_000)
    new = door.attached(session_id="s2")
    assert door.harness.fabric.pick("a", [])[0].key.session == "s2"
    ask, told = drain(old)
    assert told == Draining(10_000)
    for asked in (query_id, ask.query_id):
        old.receive(Batch(asked, b"f"))
        old.receive(LaneEnded(asked))
    assert (sink.batches, sink.endings) == ([b"f"], [Ending.COMPLETE])
    assert (unsent.batches, unsent.endings) == ([b"f"], [Ending.COMPLETE])
    assert old.state is State.OPEN
    door.harness.advance(RETIRED_LINGER)
    assert (old.state, old.error) == (State.CLOSED, None)
    assert new.state is State.OPEN


@pytest.mark.parametrize("before", ["drain", "detach", "close"])
def test_a_session_that_is_leaving_is_not_renewed(before):
    session = Door().attached()
    {"drain": lambda: session.drain(5), "detach": lambda: session.receive(Detached()), "close": session.close}[before]()
    drain(session)
    session.renew(10_000)
    assert drain(session) == []
    assert not session.renewing


def test_a_retired_session_may_still_detach():
    door = Door()
    session = door.attached()
    query_id, sink, _ = door.asked(session)
    session.retire()
    session.receive(Detached())
    assert door.harness.fabric.pick("a", []) == (None, 0)
    session.receive(LaneEnded(query_id))
    assert sink.endings == [Ending.COMPLETE]
    door.harness.advance(10)
    assert (session.state, session.error) == (State.CLOSED, None)
    assert door.harness.clock.pending == 0


# Sending


def test_a_full_outbox_ends_the_session_and_blocks_no_one():
    door = Door()
    session = door.attached(Hello("a", "1", max_in_flight=1), outbox_limit=3)
    _, sink, _ = door.asked(session)
    for number in range(5):
        session.receive(Malformed("MALFORMED", str(number)))
    assert (session.error.code, session.error.reason) == ("RESOURCE_EXHAUSTED", "SLOW_CONSUMER")
    assert sink.endings == [Ending.LOST]
    assert drain(session) == []


def test_a_query_that_does_not_fit_the_outbox_is_lost_and_not_an_error():
    door = Door()
    session = door.attached(Hello("a", "1", max_in_flight=1), outbox_limit=3)
    for number in range(4):
        session.receive(Malformed("MALFORMED", str(number)))
    sink, _ = door.harness.ask()
    assert sink.endings == [Ending.LOST]
    assert session.error.reason == "SLOW_CONSUMER"


def test_what_was_queued_is_sent_before_the_end():
    door = Door()
    session = door.attached()
    session.receive(Malformed("MALFORMED", "m"))
    session.close(Unavailable("STOPPING", "stopping"))
    assert drain(session) == [Rejection("", (Violation("MALFORMED", "m"),))]


def test_its_owner_is_notified_of_all_that_is_to_be_sent_and_of_the_end_once():
    told = []
    door = Door()
    session = door.session(notify=lambda: told.append(session.state))
    session.receive(HELLO)
    assert told == [State.OPEN]
    _, handle = door.harness.ask()
    handle.cancel()
    door.harness.ask()
    session.receive(Malformed("MALFORMED", "m"))
    assert told == [State.OPEN] * 4
    session.close()
    session.close()
    assert told == [State.OPEN] * 4 + [State.CLOSED]


def test_its_owner_may_end_it_when_it_is_notified():
    """As where a provider takes nothing: the query that was too much is lost, and so is what is open."""
    door, deaf = Door(), []

    def notify():
        if deaf:
            session.close(Unavailable("GONE", "it takes nothing"))

    session = door.session(notify=notify)
    session.receive(HELLO)
    session.take()
    _, sent, _ = door.asked(session)
    deaf.append(True)
    sink, _ = door.harness.ask()
    assert [sent.endings, sink.endings] == [[Ending.LOST]] * 2
    assert door.harness.fabric.instances() == ()


def test_hearing_from_a_provider_is_noted():
    door = Door()
    session = door.attached()
    door.harness.advance(5)
    session.receive(Malformed("MALFORMED", "m"))
    assert door.harness.fabric.instances()[0].last_seen == door.harness.clock.time()
