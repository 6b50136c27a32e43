"""Small tokenizers of the tests' own, learned from a few sentences."""

from __future__ import annotations

import base64
import functools
import json
from collections import Counter
from itertools import pairwise

from tokenizers import Tokenizer, models, pre_tokenizers

TEXT = (
    "The broker stands between the providers and the orchestrator. Each provider sends frames; the broker ranks the "
    "frames, packs the budget, and places the frames in the prompt. Evidence is quoted, never instruction.\n"
    '<frame seal="ABCDEFGHIJ" provider="files" id="docs/auth.md" kind="doc" label="Token lifetime">\n</frame>\n'
)
MERGES = 300


@functools.cache
def ranks() -> dict[bytes, int]:
    """Every byte, and then the pairs that are found most often, one after the other."""
    found = {bytes([byte]): byte for byte in range(256)}
    words = [[bytes([byte]) for byte in word.encode()] for word in TEXT.replace(" ", "\0 ").split("\0")]
    while len(found) < 256 + MERGES:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        found.setdefault(left + right, len(found))
        for word in words:
            for at in range(len(word) - 1, 0, -1):
                if word[at - 1 : at + 1] == [left, right]:
                    word[at - 1 : at + 1] = [left + right]
    return found


@functools.cache
def tiktoken_file() -> bytes:
    """A file of ranks, as tiktoken reads it."""
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks().items())


@functools.cache
def tokenizer_json(truncated_to: int | None = None) -> bytes:
    """A ``tokenizer.json``: words and marks by themselves, each unknown one a token."""
    words = ["[UNK]", "[CLS]", *sorted({*TEXT.replace("<", " ").replace(">", " ").split()})]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[CLS]"])
    if truncated_to is not None:
        tokenizer.enable_truncation(max_length=truncated_to)
        tokenizer.enable_padding(length=truncated_to)
    return json.dumps(json.loads(tokenizer.to_str())).encode()
