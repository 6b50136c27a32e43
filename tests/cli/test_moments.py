"""A moment is said as it is thought of: how long ago, or when."""

from __future__ import annotations

import time

import click
import pytest

from broker.cli.moments import MOMENT, check_window


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800), ("1w", 604_800)]
)
def test_how_long_ago(text, seconds):
    before = time.time()
    assert before - seconds <= MOMENT.convert(text, None, None) <= time.time() - seconds


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:00Z", 3600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01 00:00:01.5", 1.5),
        ("1969-01-01", 0.0),
        ("999999999w", 0.0),
    ],
)
def test_when_in_utc_where_nothing_else_is_said_and_never_before_the_epoch(text, moment):
    assert MOMENT.convert(text, None, None) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "1", "h", "-1h", "1.5h", "1h30m", "2026-13-01", "²d"])
def test_what_is_no_moment_is_refused_with_examples(text):
    with pytest.raises(click.BadParameter, match="no moment; expected such as 1h"):
        MOMENT.convert(text, None, None)


def test_a_window_ends_after_it_begins():
    for window in ((None, None), (1.0, None), (None, 1.0), (1.0, 2.0)):
        check_window(*window)
    for since, until in ((2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(click.UsageError, match="--since must be before --until"):
            check_window(since, until)
