"""A request's time is shared out so that its caller always hears in time how it ended."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.rpc.timing import LAST_WORD, answer_by, collect_until, record_by

SECONDS = st.floats(0, 1e4)


@pytest.mark.parametrize(
    ("callers", "margin", "expected"),
    [(None, 0.1, None), (110.0, 0.1, 109.9), (100.1, 0.1, 100.06), (99.0, 0.1, 99.0)],
)
def test_answering_keeps_its_margin_and_two_fifths_at_most(
    callers: float | None, margin: float, expected: float | None
) -> None:
    assert answer_by(100.0, callers, margin) == (None if expected is None else pytest.approx(expected))


def test_a_caller_in_no_hurry_waits_as_long_as_the_request_says() -> None:
    assert collect_until(100.0, 2.0, None, 5.0) == 102.0
    assert collect_until(100.0, 2.0, 110.0, 5.0) == 102.0
    assert record_by(None, None) == math.inf


def test_a_reranker_has_its_time_and_half_of_all_at_most() -> None:
    assert collect_until(100.0, 20.0, 110.0) == 110.0
    assert collect_until(100.0, 20.0, 110.0, 3.0) == 107.0
    assert collect_until(100.0, 20.0, 110.0, 30.0) == 105.0


@given(started=SECONDS, callers=SECONDS, margin=SECONDS, seconds=SECONDS, rerank=SECONDS)
def test_all_comes_in_its_order_and_before_the_caller_stops_waiting(
    started: float, callers: float, margin: float, seconds: float, rerank: float
) -> None:
    done_by = answer_by(started, callers, margin)
    assert done_by is not None
    assert collect_until(started, seconds, done_by, rerank) <= done_by
    recorded = record_by(done_by, callers)
    assert done_by - 1e-9 <= recorded <= callers
    assert callers - recorded <= LAST_WORD + 1e-9
