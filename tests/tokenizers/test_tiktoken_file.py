"""A file of ranks counts as tiktoken does with it, in linear time, and a file that is none is refused."""

from __future__ import annotations

import base64
import re
import sys

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from broker.errors import ConfigError
from broker.tokenizers.parts import MOST
from broker.tokenizers.tiktoken_file import PATTERNS, TiktokenCounter
from tests.tokenizers.making import TEXT, ranks, tiktoken_file

COUNTERS = {name: TiktokenCounter("small", "", tiktoken_file(), pattern) for name, pattern in PATTERNS.items()}
ORACLES = {
    name: tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks(), special_tokens={})
    for name, pattern in PATTERNS.items()
}

texts = st.text() | st.lists(st.sampled_from([*TEXT.split(), " ", "\n", "\r\n", "Ünï", "漢字", "😀", "1234"])).map(
    "".join
)


@pytest.mark.parametrize("encoding", PATTERNS)
@given(texts)
def test_a_text_counts_what_the_library_says(encoding, text):
    assert COUNTERS[encoding].count(text) == len(ORACLES[encoding].encode_ordinary(text))


@pytest.mark.parametrize("encoding", PATTERNS)
def test_a_long_text_counts_in_parts_what_it_counts_whole(encoding):
    text = TEXT * 300
    assert len(text) > 8 * MOST
    assert COUNTERS[encoding].count(text) == len(ORACLES[encoding].encode_ordinary(text))


@pytest.mark.parametrize("encoding", PATTERNS)
@pytest.mark.parametrize("run", ["a", " ", "\n", "!", " \n", "e\u0301", "漢", "😀", "\t \u3000"])
def test_a_run_of_a_million_characters_is_counted(encoding, run):
    """Whole, the library takes seconds for some of these and panics at others."""
    text = run * (1_000_000 // len(run))
    assert len(text) // (4 * len(max(ranks(), key=len))) < COUNTERS[encoding].count(text) <= len(text.encode())


def test_the_name_of_a_special_token_is_text():
    assert COUNTERS["o200k_base"].count("<|endoftext|>") > 1


@pytest.mark.parametrize("encoding", PATTERNS)
def test_the_patterns_are_those_of_the_library(monkeypatch, encoding):
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks())
    assert getattr(openai_public, encoding)()["pat_str"] == PATTERNS[encoding]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "256 of the 256 single bytes are no tokens"),
        (b"no ranks at all\n", "line 1 is not a token in base64 and its rank"),
        (tiktoken_file() + b"*** 9\n", f"line {len(ranks()) + 1} is not"),
        (tiktoken_file() + b"AAAA nine\n", f"line {len(ranks()) + 1} is not"),
        (tiktoken_file().replace(base64.b64encode(b"a") + b" ", b"YWFhYQ== "), "1 of the 256 single bytes"),
        (tiktoken_file() + b"cXFxcXFx 97\n", "two tokens have one rank"),
    ],
)
def test_a_file_that_is_none_is_refused(data, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        TiktokenCounter("small", "", data, PATTERNS["o200k_base"])


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="the pattern cannot be used"):
        TiktokenCounter("small", "", tiktoken_file(), "(")


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'context-broker[tokenizers]'")):
        TiktokenCounter("small", "", tiktoken_file(), PATTERNS["o200k_base"])
