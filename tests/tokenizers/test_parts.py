"""A long text is cut into bounded parts that are the text again, between words where there are any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.tokenizers.parts import MOST, parts


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", " ", "\n", "words and ", "漢", "é", "7 "]), st.integers(1, 9000)), max_size=6
    )
)
def test_parts_are_bounded_and_joined_are_the_text(pieces):
    text = "".join(piece * times for piece, times in pieces)[: 5 * MOST]
    cut = list(parts(text))
    assert "".join(cut) == text
    assert all(0 < len(part) <= MOST for part in cut) or cut == [""]


def test_a_short_text_is_one_part():
    assert list(parts("")) == [""]
    assert list(parts("x" * MOST)) == ["x" * MOST]


def test_words_are_cut_apart_and_not_through():
    cut = list(parts("some words, and 3 more. " * 2000))
    assert len(cut) > 1
    assert all(part[0] == " " and part[1].isalpha() for part in cut[1:])
    assert all(part[-1].isalpha() for part in cut[:-1])


@pytest.mark.parametrize("unbroken", ["x", " ", "1 "])
def test_what_has_no_place_between_words_is_cut_anywhere(unbroken):
    assert {len(part) for part in parts(unbroken * (2 * MOST))} == {MOST}
