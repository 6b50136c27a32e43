"""``tiktoken``: byte pair encoding by a file of ranks, such as ``o200k_base.tiktoken``. Needs the extra ``tokenizers``.

Source of the patterns: ``tiktoken_ext/openai_public.py`` of tiktoken 0.14.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from broker.errors import ConfigError
from broker.tokenizers.parts import MOST, parts

PATTERNS: Mapping[str, str] = {
    "cl100k_base": (
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"""
        r"""\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    ),
    "o200k_base": (
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
        r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
        r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
        r"""\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    ),
}
"""How each known encoding parts a text before it looks for tokens."""

_TRIALS = ("a", " ", "\n", "!", " \n", "e\u0301", "漢", "7")


class TiktokenCounter:
    """Counts by a file of ranks. A special token's name in a text is text, as untrusted text must be.

    Attributes:
        name: What requests call it.
        version: The file's digest.

    Args:
        name: See there.
        version: See there.
        data: The file: lines of a token in base64 and its rank.
        pattern: Parts a text before tokens are looked for.

    Raises:
        ConfigError: The extra is not installed, the file is none, or the pattern cannot be used.
    """

    def __init__(self, name: str, version: str, data: bytes, pattern: str) -> None:
        self.name = name
        self.version = version
        self._encoding = _loaded(name, _ranks(data), pattern)

    def count(self, text: str, /) -> int:
        """Tokens of the text, part by part; see :mod:`broker.tokenizers.parts`."""
        return sum(len(self._encoding.encode_ordinary(part)) for part in parts(text))


def _ranks(data: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if line:
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
            except (ValueError, binascii.Error):
                raise ConfigError(f"line {number} is not a token in base64 and its rank") from None
    missing = sum(bytes([byte]) not in ranks for byte in range(256))
    if missing:
        raise ConfigError(f"{missing} of the 256 single bytes are no tokens; not every text could be counted")
    if len(set(ranks.values())) < len(ranks):
        raise ConfigError("two tokens have one rank")
    return ranks


def _loaded(name: str, ranks: dict[bytes, int], pattern: str) -> Any:
    try:
        from tiktoken import Encoding
    except ImportError as error:
        raise ConfigError(
            f"a tokenizer of the kind 'tiktoken' needs the extra 'tokenizers' ({error.name} is missing): "
            "pip install 'context-broker[tokenizers]'"
        ) from None
    try:
        encoding = Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    except ValueError as error:
        raise ConfigError(f"the pattern cannot be used: {error}") from None
    for trial in _TRIALS:
        try:
            encoding.encode_ordinary(trial * (MOST // len(trial)))
        except BaseException as error:
            # The library is written in Rust, and panics are no Exception.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise ConfigError(f"the pattern cannot be used on {MOST} characters of {trial!a}: {error}") from None
    return encoding
