"""Moments are read strictly and compared exactly, to the nanosecond."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import Frame
from broker.core.validity import holds, moment


@pytest.mark.parametrize(
    "text",
    ["2024-02-29T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2024-01-01T00:00:00.5Z"],
)
def test_real_moments_are_read(text):
    assert moment(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "2024-13-01T00:00:00Z", "2023-02-29T00:00:00Z", "2024-01-32T00:00:00Z", "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z", "2016-12-31T23:59:60Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00+00:00",
        "2024-01-01 00:00:00Z", "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00.1234567890Z", "2024-1-1T00:00:00Z",
        "2024-01-01T00:00:00Z\n", " 2024-01-01T00:00:00Z", "٢٠٢٤-01-01T00:00:00Z", "2024-01-01t00:00:00z",
        "0000-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_anything_else_is_no_moment(text):
    assert moment(text) is None


@given(*(st.integers(0, most) for most in (9999, 13, 32, 25, 61, 61)))
def test_a_moment_is_one_of_the_calendar(year, month, day, hour, minute, second):
    seconds = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    try:
        datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - only whether there is such a day
    except ValueError:
        assert moment(seconds + "Z") is None
    else:
        assert moment(seconds + ".25Z") == (seconds, "250000000")


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1))
def test_fractions_compare_as_the_numbers_they_are(left, right):
    first, second = (moment(f"2024-05-06T07:08:09.{number:09d}Z") for number in (left, right))
    assert first is not None
    assert second is not None
    assert (first < second) == (left < right)


@given(st.datetimes(), st.datetimes())
def test_moments_compare_as_times_do(left, right):
    first, second = (moment(f"{time:%Y-%m-%dT%H:%M:%S}.{time:%f}Z".rjust(27, "0")) for time in (left, right))
    assert first is not None
    assert second is not None
    assert (first < second) == (left < right)


def test_trailing_zeros_of_a_fraction_are_nothing():
    assert (
        moment("2024-01-01T00:00:00Z") == moment("2024-01-01T00:00:00.0Z") == moment("2024-01-01T00:00:00.000000000Z")
    )


@pytest.mark.parametrize(
    ("start", "end", "held"),
    [
        ("", "", True),
        ("2024-01-01T00:00:00.1Z", "", True),
        ("2024-01-01T00:00:00.100000001Z", "", False),
        ("", "2024-01-01T00:00:00.1Z", False),
        ("", "2024-01-01T00:00:00.100000001Z", True),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z", True),
        ("2025-01-01T00:00:00Z", "2024-01-01T00:00:00Z", False),
    ],
)
def test_a_window_holds_its_start_and_not_its_end(start, end, held):
    as_of = moment("2024-01-01T00:00:00.1Z")
    assert as_of is not None
    assert holds(Frame("f", "t", "c", valid_from=start, valid_to=end), as_of) is held
