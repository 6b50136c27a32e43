"""Each configured tokenizer is a counter by its name, and one that cannot be loaded is named with its file."""

from __future__ import annotations

import hashlib
import re

import pytest

from broker.config import Config
from broker.core.counting import BYTES_PER_4
from broker.errors import ConfigError
from broker.rpc.server import Broker
from broker.settings import ConfiguredTokenizer
from broker.tokenizers.loading import counters_of
from tests.tokenizers.making import tiktoken_file, tokenizer_json


def test_without_any_there_is_one():
    assert counters_of({}) == {"bytes/4": BYTES_PER_4}


def test_a_counter_bears_its_name_and_the_digest_of_its_file(tmp_path):
    files = {"ranks": tiktoken_file(), "words": tokenizer_json()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    counters = counters_of(
        {
            "ranks": ConfiguredTokenizer(kind="tiktoken", file=tmp_path / "ranks", encoding="cl100k_base"),
            "by-hand": ConfiguredTokenizer(kind="tiktoken", file=tmp_path / "ranks", pattern=r"\S+|\s"),
            "words": ConfiguredTokenizer(kind="huggingface", file=tmp_path / "words"),
        }
    )
    digests = {name: f"sha256:{hashlib.sha256(data).hexdigest()[:16]}" for name, data in files.items()}
    assert {name: (one.name, one.version) for name, one in counters.items()} == {
        "bytes/4": ("bytes/4", ""),
        "ranks": ("ranks", digests["ranks"]),
        "by-hand": ("by-hand", digests["ranks"]),
        "words": ("words", digests["words"]),
    }
    assert counters["words"].count("the broker") == 2
    assert counters["by-hand"].count("q r") == 3


@pytest.mark.parametrize("data", [None, b"no ranks"])
def test_what_cannot_be_loaded_is_named_with_its_file(tmp_path, data):
    file = tmp_path / "ranks"
    if data is not None:
        file.write_bytes(data)
    told = f"tokenizers.mine: {file}: {'No such file' if data is None else 'line 1 is not'}"
    with pytest.raises(ConfigError, match=re.escape(told)):
        counters_of({"mine": ConfiguredTokenizer(kind="tiktoken", file=file, encoding="o200k_base")})


def test_a_broker_is_not_made_with_one_that_cannot_be_loaded(tmp_path):
    one = {"kind": "huggingface", "file": tmp_path / "gone.json"}
    with pytest.raises(ConfigError, match=r"tokenizers\.mine: "):
        Broker(Config(server={"listen": "127.0.0.1:0"}, tokenizers={"mine": one}))
