"""No text of a provider's can move the cursor, reorder a line or take more columns than it was given."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.text import clean, clip, listed, plainly, plural, width
from broker.core.render.escaping import escape_header

TEXTS = st.text(max_size=40)


@given(TEXTS)
def test_cleaned_text_holds_no_control_or_format_character(text):
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in clean(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "⟦U+001B⟧[31mred"),
        ("a\nb\tc", "a⟦U+000A⟧b⟦U+0009⟧c"),
        ("abc\u202edef", "abc⟦U+202E⟧def"),
        ("\u200bzero", "⟦U+200B⟧zero"),
        ("plain äöü 漢字", "plain äöü 漢字"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_number(text, shown):
    assert clean(text) == shown


@given(TEXTS, st.integers(1, 30))
def test_clipped_text_fits(text, columns):
    assert width(clip(clean(text), columns, "…")) <= columns


@given(TEXTS, st.integers(1, 30))
def test_text_that_fits_is_left_alone(text, columns):
    cleaned = clean(text)
    assert (clip(cleaned, columns, "…") == cleaned) == (width(cleaned) <= columns)


def test_clipping_keeps_both_ends():
    assert clip("src/package/module.py L10-40", 20, "…") == "src/…odule.py L10-40"


def test_wide_characters_count_twice_and_combining_ones_not_at_all():
    assert (width("漢字"), width("e\u0301"), width("abc")) == (4, 1, 3)


def test_counts_read_as_people_write_them():
    assert [plural(n, "frame") for n in (0, 1, 1234)] == ["0 frames", "1 frame", "1,234 frames"]
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


@given(st.text('a"⟦⟧\u202e漢', max_size=30), st.integers(1, 30))
def test_a_cut_leaves_every_escape_whole(text, columns):
    kept = clip(clean(escape_header(text).text), columns, "…")
    assert width(kept) <= columns
    assert "⟦U+" not in re.sub(r"⟦U\+[0-9A-F]{4,6}⟧", "", kept)


@given(TEXTS)
def test_a_text_of_a_prompt_reads_as_it_was_but_for_what_a_terminal_may_not_get(text):
    assert plainly(escape_header(text).text) == clean(text)
