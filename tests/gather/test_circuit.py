"""A circuit opens after so many failures in a row, lets one trial through, and closes at the first success."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.gather.circuit import Circuit, CircuitRules
from tests.gather.support import FakeClock

RULES = CircuitRules(failures=3, seconds=5.0, longest=30.0)


def opened(clock: FakeClock) -> Circuit:
    circuit = Circuit(clock.time, RULES)
    for _ in range(3):
        circuit.leave(circuit.enter(), good=False)
    return circuit


def test_it_opens_at_the_last_failure_allowed_and_not_before():
    circuit = Circuit(FakeClock().time, RULES)
    assert [circuit.leave(circuit.enter(), good=False) for _ in range(3)] == [0.0, 0.0, 5.0]
    assert circuit.enter() is None
    assert circuit.remaining() == 5.0


def test_a_failed_trial_doubles_the_time_up_to_the_longest():
    clock = FakeClock()
    circuit, times = opened(clock), []
    for _ in range(5):
        clock.advance(circuit.remaining())
        trial = circuit.enter()
        assert trial.trial
        assert circuit.enter() is None
        times.append(circuit.leave(trial, good=False))
    assert times == [10, 20, 30, 30, 30]


def test_a_success_forgets_all():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(5)
    circuit.leave(circuit.enter(), good=True)
    assert circuit.failures == 0
    assert [circuit.leave(circuit.enter(), good=False) for _ in range(3)][-1] == 5.0


def test_a_trial_that_proved_nothing_is_given_to_the_next():
    clock = FakeClock()
    circuit = opened(clock)
    clock.advance(5)
    circuit.leave(circuit.enter(), good=None)
    assert circuit.enter().trial


def test_who_entered_before_it_opened_may_close_it_and_cannot_open_it_further():
    clock = FakeClock()
    circuit = Circuit(clock.time, RULES)
    early = [circuit.enter() for _ in range(5)]
    for entry in early[:4]:
        circuit.leave(entry, good=False)
    assert circuit.remaining() == 5.0
    circuit.leave(early[4], good=True)
    assert circuit.enter() is not None


@given(st.lists(st.sampled_from(["enter", "good", "bad", "nothing", "wait"]), max_size=60))
def test_whatever_happens_there_is_one_trial_at_a_time_and_the_way_back_stays_open(steps):
    clock = FakeClock()
    circuit, entries, trials = Circuit(clock.time, RULES), [], set()
    for step in steps:
        if step == "wait":
            clock.advance(4)
        elif step == "enter":
            if (entry := circuit.enter()) is not None:
                entries.append(entry)
                trials |= {entry} if entry.trial else set()
        elif entries:
            entry = entries.pop(0)
            circuit.leave(entry, {"good": True, "bad": False, "nothing": None}[step])
            trials = set() if step == "good" else trials - {entry}
        assert len(trials) <= 1
    for entry in entries:
        circuit.leave(entry, good=None)
    clock.advance(30)
    circuit.leave(circuit.enter(), good=True)
    assert circuit.failures == 0
    assert not circuit.enter().trial
