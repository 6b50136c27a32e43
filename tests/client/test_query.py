"""A provider's question says what to search for and how long there is."""

from __future__ import annotations

import time

from broker.client import Query


def test_what_to_search_for_is_the_query_text_or_else_the_goal():
    assert Query(goal="g", query_text="q").text == "q"
    assert Query(goal="g").text == "g"


def test_time_left_never_falls_below_zero():
    assert Query(goal="g").remaining == float("inf")
    assert Query(goal="g", deadline=time.monotonic() - 5).remaining == 0.0
    assert 0 < Query(goal="g", deadline=time.monotonic() + 50).remaining <= 50


def test_no_kinds_means_any():
    assert Query(goal="g").wants("doc")
    assert Query(goal="g", kinds=("doc",)).wants("doc")
    assert not Query(goal="g", kinds=("doc",)).wants("fact")
