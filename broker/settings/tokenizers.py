"""What can be configured of tokenizers: files that the operator names, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from broker.settings.base import Section


class ConfiguredTokenizer(Section):
    """A tokenizer that requests may name, beside ``bytes/4``, which every broker has.

    Attributes:
        kind: ``tiktoken``: a file of ranks. ``huggingface``: a ``tokenizer.json``.
        file: The file; nothing is fetched.
        encoding: Of the kind ``tiktoken``: the encoding whose pattern parts the text, where it is a known one.
        pattern: Of the kind ``tiktoken``: the pattern itself, where it is another.
    """

    kind: Literal["tiktoken", "huggingface"]
    file: Path
    encoding: Literal["o200k_base", "cl100k_base"] | None = None
    pattern: str = ""

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        parted = [key for key in ("encoding", "pattern") if getattr(self, key)]
        if self.kind == "tiktoken" and len(parted) != 1:
            raise ValueError("the kind 'tiktoken' needs either encoding or pattern")
        if self.kind != "tiktoken" and parted:
            raise ValueError(f"{parted[0]} goes with the kind 'tiktoken', and this is a {self.kind!r}")
        return self
