"""Role tokens of common chat formats are counted, and are no reason for anything."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.render.role_tokens import FORMATS, TURNS, role_tokens, role_tokens_of

TOKENS = sorted({token for tokens in FORMATS.values() for token in tokens})


@pytest.mark.parametrize("token", TOKENS)
def test_each_token_counts_wherever_it_stands(token: str):
    assert role_tokens(token) == 1
    assert role_tokens(f"x{token}y {token}\n{token}{token}") == 4


def test_a_token_in_brackets_that_are_no_tokens_counts_too():
    assert role_tokens("<[INST]>") == role_tokens("<|[INST]|>") == role_tokens("<x[INST]y>") == 1


def test_a_turn_counts_at_a_beginning_alone():
    for turn in TURNS:
        assert role_tokens(f"{turn} a") == role_tokens(f"a\n\n{turn} b") == role_tokens(f"a\r\n\r\n{turn}") == 1
        assert role_tokens(f"a {turn} b\n{turn} c") == 0
    assert role_tokens("Human: a\n\nAssistant: b\n\nHuman: c") == 3


@pytest.mark.parametrize(
    "text", ["<|im_start|", "im_start|>", "[inst]", "< s>", "<|IM_START|>", "<html>", "List[INSTANCE]"]
)
def test_what_only_resembles_one_is_none(text: str):
    assert role_tokens(text) == 0


pieces = st.sampled_from([*TOKENS, *TURNS, "<", "<|", "\n\n", "\n", "\r\n", "|>", "[", "a", " "])


@given(st.lists(pieces).map("".join))
def test_the_count_is_what_a_plain_search_finds(text: str):
    found = sum(text.count(token) for token in TOKENS)
    turns = sum(len(re.findall(rf"(?:^|(?<=\n\n)|(?<=\n\r\n)){turn}", text)) for turn in TURNS)
    assert role_tokens(text) == found + turns
    assert role_tokens_of([text, "plain", text]) == [found + turns, 0, found + turns]


@pytest.mark.parametrize("unit", ["<", "<|", "<|im_start|", "[", "\n\n", "\n\nHuman", "<|im_start|>", "<｜", "A"])
def test_the_work_grows_with_the_text_and_no_faster(unit: str):
    # A quadratic search would take minutes here and meet the suite's own limit.
    role_tokens(unit * (1_000_000 // len(unit)))
