"""A provider that lied sits out 60 s, doubled to an hour, and comes back through one trial."""

from __future__ import annotations

import pytest

from broker.core.lanes import LaneEnd
from broker.gather.quarantine import FORGIVEN_AFTER, Conduct, SitOuts
from tests.gather.support import FakeClock


class Court:
    def __init__(self):
        self.clock = FakeClock()
        self.conduct = Conduct(self.clock)

    def lie(self) -> float:
        return self.conduct.settle(self.conduct.admit("a"), LaneEnd.REFUSED)


def test_sentences_double_up_to_an_hour():
    court = Court()
    sentences = []
    for _ in range(9):
        sentences.append(court.lie())
        assert court.conduct.admit("a") is None
        court.clock.advance(sentences[-1])
    assert sentences == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_others_are_not_touched():
    court = Court()
    court.lie()
    assert court.conduct.admit("b") is not None


def test_a_sentence_over_one_request_is_the_trial_and_no_other_asks():
    court = Court()
    court.clock.advance(court.lie())
    trial = court.conduct.admit("a")
    assert trial.trial
    assert court.conduct.admit("a") is None
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


def test_sitting_out_ends_by_itself_and_leaves_nothing():
    clock = FakeClock()
    table = SitOuts(clock)
    table.set("a", 10)
    table.set("b", 5)
    clock.advance(5)
    assert (table.remaining("a"), table.remaining("b"), table.remaining("c")) == (5, 0, 0)
    clock.advance(5)
    table.set("c", 1)
    assert set(table._until) == {"c"}
