"""A liar sits out 60 s, doubled to an hour, and comes back by one trial; who keeps failing is left alone a while."""

from __future__ import annotations

import pytest

from broker.core.lanes import LaneEnd
from broker.gather.circuit import CircuitRules
from broker.gather.quarantine import Conduct, ConductRules, SitOuts, Withheld
from tests.gather.support import FakeClock

FORGIVEN_AFTER = ConductRules().forgiven_after
FAILURES = CircuitRules().failures


class Court:
    def __init__(self, rules: ConductRules | None = None):
        self.clock = FakeClock()
        self.opened = []
        self.conduct = Conduct(self.clock, rules, on_open=lambda *told: self.opened.append(told))

    def withheld(self, **how) -> LaneEnd | None:
        """How the next lane would end unasked; None: it may ask."""
        leave = self.conduct.admit("a", **how)
        if isinstance(leave, Withheld):
            return leave.end
        self.conduct.settle(leave, None)
        return None

    def fail(self, times: int = 1, end: LaneEnd = LaneEnd.FAILED) -> None:
        for _ in range(times):
            self.conduct.settle(self.conduct.admit("a"), end)

    def lie(self) -> float:
        return self.conduct.settle(self.conduct.admit("a"), LaneEnd.REFUSED)


def test_sentences_double_up_to_an_hour():
    court = Court()
    sentences = []
    for _ in range(9):
        sentences.append(court.lie())
        assert court.withheld() is LaneEnd.QUARANTINED
        court.clock.advance(sentences[-1])
    assert sentences == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_others_are_not_touched():
    court = Court()
    court.lie()
    assert not isinstance(court.conduct.admit("b"), Withheld)


def test_a_sentence_over_one_request_is_the_trial_and_no_other_asks():
    court = Court()
    court.clock.advance(court.lie())
    trial = court.conduct.admit("a")
    assert trial.trial
    assert court.withheld() is LaneEnd.QUARANTINED
    assert court.conduct.settle(trial, LaneEnd.COMPLETE) == 0.0
    assert not court.conduct.admit("a").trial


@pytest.mark.parametrize("end", [LaneEnd.LOST, LaneEnd.FAILED, LaneEnd.TIMED_OUT, LaneEnd.PARTIAL])
def test_a_trial_that_proved_nothing_is_given_to_the_next(end):
    court = Court()
    court.clock.advance(court.lie())
    court.conduct.settle(court.conduct.admit("a"), end)
    assert court.conduct.admit("a").trial


def test_an_empty_answer_is_a_clean_trial():
    court = Court()
    court.clock.advance(court.lie())
    court.conduct.settle(court.conduct.admit("a"), LaneEnd.EMPTY)
    assert not court.conduct.admit("a").trial


def test_a_lie_at_the_trial_doubles():
    court = Court()
    court.clock.advance(court.lie())
    assert court.conduct.settle(court.conduct.admit("a"), LaneEnd.REFUSED) == 120


def test_a_lie_soon_after_a_clean_trial_still_doubles():
    court = Court()
    court.clock.advance(court.lie())
    court.conduct.settle(court.conduct.admit("a"), LaneEnd.COMPLETE)
    assert court.lie() == 120
    court.clock.advance(120)
    assert court.conduct.admit("a").trial


def test_lies_are_forgotten_an_hour_after_the_last_sentence():
    court = Court()
    court.clock.advance(court.lie() + FORGIVEN_AFTER - 1)
    assert court.conduct.admit("a").trial
    court.clock.advance(1)
    assert not court.conduct.admit("a").trial
    assert court.lie() == 60


def test_requests_that_had_asked_before_belong_to_the_running_sentence():
    court = Court()
    early, late = court.conduct.admit("a"), court.conduct.admit("a")
    assert court.conduct.settle(early, LaneEnd.REFUSED) == 60
    assert court.conduct.settle(late, LaneEnd.REFUSED) == 0.0
    court.clock.advance(60)
    assert court.conduct.settle(court.conduct.admit("a"), LaneEnd.REFUSED) == 120


def test_one_that_asked_before_the_lie_is_no_clean_trial():
    court = Court()
    early = court.conduct.admit("a")
    court.clock.advance(court.lie())
    court.conduct.settle(early, LaneEnd.COMPLETE)
    assert court.conduct.admit("a").trial


def test_records_of_the_forgiven_are_dropped():
    court = Court()
    court.lie()
    court.clock.advance(60 + FORGIVEN_AFTER)
    court.conduct.settle(court.conduct.admit("b"), LaneEnd.REFUSED)
    assert set(court.conduct._records) == {"b"}


def test_records_of_many_that_failed_once_are_dropped_in_time():
    court = Court()
    for number in range(100):
        court.conduct.settle(court.conduct.admit(f"old{number}"), LaneEnd.LOST)
    court.clock.advance(FORGIVEN_AFTER)
    for number in range(100):
        court.conduct.settle(court.conduct.admit(f"new{number}"), LaneEnd.LOST)
    assert not [name for name in court.conduct._records if name.startswith("old")]


def test_an_operator_sets_how_long():
    court = Court(ConductRules(first=5.0, longest=12.0, forgiven_after=1.0))
    sentences = []
    for _ in range(4):
        sentences.append(court.lie())
        court.clock.advance(sentences[-1])
    assert sentences == [5, 10, 12, 12]
    court.clock.advance(1)
    assert court.lie() == 5


def test_what_is_forgiven_never_was():
    court = Court()
    court.fail(FAILURES)
    court.conduct.forgive("a")
    court.lie()
    court.conduct.forgive("a")
    assert court.withheld() is None
    court.fail(FAILURES - 1)
    assert court.lie() == 60


# Circuits


@pytest.mark.parametrize("end", [LaneEnd.FAILED, LaneEnd.LOST])
def test_who_fails_again_and_again_is_not_asked_for_a_while_and_then_tried_once(end):
    court = Court()
    court.fail(FAILURES - 1, end)
    assert court.withheld() is None
    court.fail(end=end)
    assert court.opened == [("a", FAILURES, 5.0)]
    leave = court.conduct.admit("a")
    assert (leave.end, leave.retry_after) == (LaneEnd.FAILED, 5.0)
    assert "circuit open" in leave.message
    court.clock.advance(5)
    trial = court.conduct.admit("a")
    assert court.withheld() is LaneEnd.FAILED
    court.conduct.settle(trial, LaneEnd.COMPLETE)
    assert court.withheld() is None
    assert not court.conduct._records


@pytest.mark.parametrize("end", [LaneEnd.COMPLETE, LaneEnd.EMPTY, LaneEnd.PARTIAL])
def test_one_answer_is_enough_to_begin_again(end):
    court = Court()
    court.fail(FAILURES - 1)
    court.conduct.settle(court.conduct.admit("a"), end)
    court.fail(FAILURES - 1)
    assert court.withheld() is None


@pytest.mark.parametrize(("seconds", "opens"), [(0.99, False), (1.0, True)])
def test_silence_counts_where_there_was_time_to_speak(seconds, opens):
    court = Court()
    for _ in range(FAILURES):
        permit = court.conduct.admit("a")
        court.clock.advance(seconds)
        court.conduct.settle(permit, LaneEnd.TIMED_OUT)
    assert bool(court.opened) is opens


def test_what_was_stopped_or_never_asked_proves_nothing():
    court = Court()
    court.fail(FAILURES - 1)
    for end in (None, LaneEnd.ABSENT):
        court.conduct.settle(court.conduct.admit("a"), end)
    court.fail()
    assert len(court.opened) == 1
    court.clock.advance(5)
    court.conduct.settle(court.conduct.admit("a"), None)
    assert court.withheld() is None


def test_pushes_open_no_circuit_and_pass_an_open_one():
    court = Court()
    for _ in range(FAILURES):
        court.conduct.settle(court.conduct.admit("a", pushed=True), LaneEnd.TIMED_OUT)
    assert court.withheld() is None
    court.fail(FAILURES)
    assert court.withheld() is LaneEnd.FAILED
    assert court.withheld(pushed=True) is None


def test_no_failures_allowed_for_is_no_circuit():
    court = Court(ConductRules(circuit=CircuitRules(failures=0)))
    court.fail(100)
    assert court.withheld() is None


def test_failures_are_no_lies_and_lies_no_failures():
    court = Court()
    for _ in range(FAILURES):
        court.clock.advance(court.lie())
    assert court.opened == []
    court.clock.advance(FORGIVEN_AFTER)
    court.fail(FAILURES)
    court.clock.advance(5)
    assert court.lie() == 60


def test_sitting_out_can_be_lifted():
    table = SitOuts(FakeClock())
    table.set("a", 10)
    table.lift("a")
    table.lift("a")
    assert table.remaining("a") == 0


def test_sitting_out_ends_by_itself_and_leaves_nothing():
    clock = FakeClock()
    table = SitOuts(clock)
    table.set("a", 10)
    table.set("b", 5)
    clock.advance(5)
    assert (table.remaining("a"), table.remaining("b"), table.remaining("c")) == (5, 0, 0)
    clock.advance(5)
    table.set("c", 1)
    assert set(table.until) == {"c"}
