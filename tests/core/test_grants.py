"""No provider ever offers more frames or tokens than it was granted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import Frame
from broker.core.grants import Allowance


@given(
    st.lists(st.text(min_size=1, max_size=40), max_size=30),
    st.integers(min_value=0, max_value=20),
    st.integers(min_value=0, max_value=100),
)
def test_what_is_taken_fits_and_what_is_refused_would_not(contents: list[str], max_frames: int, max_tokens: int):
    allowance = Allowance(max_frames, max_tokens)
    frames, tokens = 0, 0
    for number, content in enumerate(contents):
        cost = -(-len(content.encode("utf-8")) // 4)
        fits = frames + 1 <= max_frames and tokens + cost <= max_tokens
        assert allowance.take(Frame(id=str(number), title="t", content=content)) is fits
        if fits:
            frames, tokens = frames + 1, tokens + cost
        assert allowance.spent is (frames >= max_frames or tokens >= max_tokens)


def test_a_smaller_frame_may_follow_one_that_did_not_fit():
    allowance = Allowance(5, 2)
    assert [allowance.take(Frame(id="i", title="t", content=c)) for c in ("a" * 9, "é" * 2, "abcd", "a")] == [
        False,
        True,
        True,
        False,
    ]


def test_what_was_granted_is_told_whatever_was_taken_since():
    allowance = Allowance(2, 10)
    allowance.pay(7)
    assert allowance.told == "granted 2 frames and 10 tokens"
