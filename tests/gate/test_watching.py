"""What functions are called with is noted while it is watched, and whoever watched before watches again."""

from __future__ import annotations

import sys

import pytest

from broker.gate.watching import calls_of


def doubled(numbers: list[int], times: int = 2) -> list[int]:
    return [number * times for number in numbers]


def other(numbers: list[int]) -> list[int]:
    return doubled(numbers, 3)


def test_every_call_is_noted_with_its_arguments_and_no_other_function_s():
    with calls_of([doubled]) as calls:
        assert doubled([1]) == [2]
        assert other([4]) == [12]
    assert calls == [{"numbers": [1], "times": 2}, {"numbers": [4], "times": 3}]
    doubled([5])
    assert len(calls) == 2


def test_whoever_watched_before_watches_again():
    def earlier(*_: object) -> None:
        return None

    sys.setprofile(earlier)
    try:
        with pytest.raises(ZeroDivisionError), calls_of([doubled]):
            raise ZeroDivisionError
        assert sys.getprofile() is earlier
    finally:
        sys.setprofile(None)
