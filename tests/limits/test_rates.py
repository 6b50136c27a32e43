"""A caller may call as often as its bucket allows, exactly, and buckets that are full cost nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits.rates import Rates

TICKS = 1024
"""Moments of these tests are whole parts of a second by a power of two: sums of them are exact."""

MOMENTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2 * TICKS)), max_size=200)


class Bucket:
    """The textbook's token bucket, in fractions."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self.tokens = Fraction(per_second)
        self.at = Fraction(0)

    def take(self, at: Fraction) -> bool:
        self.tokens = min(Fraction(self.per_second), self.tokens + (at - self.at) * self.per_second)
        self.at = at
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@given(MOMENTS, st.sampled_from([1, 2, 4, 16, 64]))
def test_calls_are_taken_as_by_the_textbook(steps: list[tuple[str, int]], per_second: int) -> None:
    rates, ticks = Rates(per_second), 0
    buckets = {name: Bucket(per_second) for name in "ab"}
    for caller, after in steps:
        # Most of the time stands still, as in a flood.
        ticks += after if after % 3 == 0 else 0
        taken = rates.take(caller, 1000 + ticks / TICKS) == 0
        assert taken == buckets[caller].take(Fraction(ticks, TICKS))


@given(MOMENTS, st.integers(1, 1000))
def test_one_call_is_taken_after_the_wait_that_a_refusal_names(steps: list[tuple[str, int]], per_second: int) -> None:
    rates, now = Rates(per_second), 1000.0
    for caller, after in steps:
        now += after / TICKS
        wait = rates.take(caller, now)
        assert 0 <= wait <= 1 / per_second
        if wait:
            now += wait
            assert rates.take(caller, now + 1e-9) == 0


def test_a_full_bucket_is_worth_one_second() -> None:
    for per_second in (1, 3, 7, 1000):
        rates = Rates(per_second)
        taken = [rates.take("a", 12345.678) for _ in range(per_second + 1)]
        assert taken[:-1] == [0.0] * per_second
        assert taken[-1] > 0


def test_buckets_that_are_full_again_are_forgotten() -> None:
    rates = Rates(10)
    for number in range(1000):
        rates.take(f"connection {number}", float(number))
    assert rates.known <= 2


@given(MOMENTS, st.integers(1, 100), st.integers(0, 3))
def test_what_is_booked_is_spread_and_never_waits_longer_than_it_may(
    steps: list[tuple[str, int]], per_second: int, most: int
) -> None:
    rates, now = Rates(per_second), 1000.0
    due: dict[str, list[float]] = {"a": [], "b": []}
    for caller, after in steps:
        now += after / TICKS if after % 3 == 0 else 0
        wait = rates.book(caller, now, float(most))
        assert 0 <= wait <= most
        due[caller].append(now + wait)
        if wait < most:
            # No more are due in any second than the rate, and the bucket's worth that had been saved.
            recent = [moment for moment in due[caller] if moment > now + wait - 1]
            assert len(recent) <= 2 * per_second + 1 + sum(moment >= now + most for moment in recent)


def test_a_flood_that_is_booked_waits_its_turn() -> None:
    rates = Rates(10)
    waits = [rates.book("a", 5.0, 1.0) for _ in range(30)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:20] == pytest.approx([0.1 * n for n in range(1, 11)], abs=1e-5)
    assert waits[20:] == [1.0] * 10
    assert rates.book("b", 5.0, 1.0) == 0


def test_another_rate_holds_from_then_on() -> None:
    rates = Rates(1)
    assert rates.take("a", 0.0) == 0.0
    assert rates.take("a", 0.5) > 0.0
    rates.configure(1000)
    assert rates.take("a", 2.0) == 0.0
    assert rates.take("a", 2.0) == 0.0
