"""Waits double up to 10 s, with full jitter, and start over after things went well."""

from __future__ import annotations

from broker.client.backoff import Backoff


def test_the_longest_wait_doubles_up_to_its_bound():
    backoff = Backoff(uniform=lambda _, high: high)
    assert [backoff.wait() for _ in range(9)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    backoff.reset()
    assert backoff.wait() == 0.1


def test_jitter_is_full():
    drawn = []
    backoff = Backoff(uniform=lambda low, high: drawn.append((low, high)) or low)
    assert backoff.wait() == 0.0
    assert drawn == [(0.0, 0.1)]


def test_a_wait_that_was_asked_for_is_kept_with_jitter_on_top():
    assert Backoff(uniform=lambda _, high: high).wait(at_least=3.0) == 3.1
    assert Backoff(uniform=lambda low, _: low).wait(at_least=3.0) == 3.0
