"""Counting tokens: four bytes to one (CGP B3), or as a model's own tokenizer does."""

from __future__ import annotations

from typing import Protocol

from broker.core.frames import content_tokens


class TokenCounter(Protocol):
    """Counts the tokens of a text; the same text always has the same count."""

    @property
    def name(self) -> str:
        """What requests call it."""

    @property
    def version(self) -> str:
        """What audits add to the name, such as the digest of its file; empty: nothing."""

    def count(self, text: str, /) -> int:
        """Tokens of the text, at least 0."""


class BytesPerFour:
    """Four UTF-8 bytes are a token, and what is left over is one more: a text need not be written to be counted."""

    name = "bytes/4"
    version = ""

    def count(self, text: str, /) -> int:
        """``(UTF-8 bytes + 3) // 4``."""
        return content_tokens(len(text.encode()))


BYTES_PER_4 = BytesPerFour()
