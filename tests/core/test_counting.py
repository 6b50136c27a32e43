"""Without a tokenizer four UTF-8 bytes are a token, and a whole never counts more than its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.counting import BYTES_PER_4


@given(st.text())
def test_a_quarter_of_the_bytes_rounded_up(text):
    assert BYTES_PER_4.count(text) == -(-len(text.encode()) // 4)


@given(st.lists(st.text()))
def test_a_whole_is_no_more_than_its_parts(parts):
    assert BYTES_PER_4.count("".join(parts)) <= sum(map(BYTES_PER_4.count, parts))


def test_its_name_is_what_requests_call_it():
    assert (BYTES_PER_4.name, BYTES_PER_4.version) == ("bytes/4", "")
