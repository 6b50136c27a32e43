"""A tokenizer.json counts the whole of a text, without what a model puts around it."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ConfigError
from broker.tokenizers.huggingface import HuggingFaceCounter
from tests.tokenizers.making import tokenizer_json

COUNTER = HuggingFaceCounter("words", "", tokenizer_json())


@given(st.lists(st.sampled_from(["broker", "frames", "unheard", ",", "_x", "1"])))
def test_every_word_and_mark_is_a_token(words):
    assert COUNTER.count(" ".join(words)) == len(words)


def test_a_file_that_truncates_and_pads_does_neither_here():
    counter = HuggingFaceCounter("words", "", tokenizer_json(truncated_to=5))
    assert [counter.count("broker " * times) for times in (1, 5, 60)] == [1, 5, 60]


def test_the_name_of_a_special_token_is_text():
    assert COUNTER.count("[CLS]") == 3


def test_a_run_of_a_million_characters_is_counted():
    assert COUNTER.count("a" * 1_000_000) >= 1


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[1]"])
def test_a_file_that_is_none_is_refused(data):
    with pytest.raises(ConfigError, match="no tokenizer"):
        HuggingFaceCounter("words", "", data)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'context-broker[tokenizers]'")):
        HuggingFaceCounter("words", "", tokenizer_json())
