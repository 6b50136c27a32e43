"""The counters of a broker: ``bytes/4`` and the configured tokenizers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from broker.core.counting import BYTES_PER_4, TokenCounter
from broker.errors import ConfigError
from broker.settings import ConfiguredTokenizer
from broker.tokenizers.huggingface import HuggingFaceCounter
from broker.tokenizers.tiktoken_file import PATTERNS, TiktokenCounter

_DIGITS = 16
"""Hexadecimal digits of a file's SHA-256 that stand for it in audits."""


def counters_of(configured: Mapping[str, ConfiguredTokenizer]) -> dict[str, TokenCounter]:
    """Every counter that requests may name, by name.

    Raises:
        ConfigError: One cannot be loaded.
    """
    counters: dict[str, TokenCounter] = {BYTES_PER_4.name: BYTES_PER_4}
    for name, one in configured.items():
        try:
            counters[name] = _made(name, one)
        except ConfigError as error:
            raise ConfigError(f"tokenizers.{name}: {one.file}: {error}") from None
    return counters


def _made(name: str, configured: ConfiguredTokenizer) -> TokenCounter:
    try:
        data = configured.file.read_bytes()
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from None
    version = f"sha256:{hashlib.sha256(data).hexdigest()[:_DIGITS]}"
    if configured.kind == "huggingface":
        return HuggingFaceCounter(name, version, data)
    pattern = configured.pattern if configured.encoding is None else PATTERNS[configured.encoding]
    return TiktokenCounter(name, version, data, pattern)
