"""``huggingface``: a ``tokenizer.json``, as models are published with. Needs the extra ``tokenizers``."""

from __future__ import annotations

from typing import Any

from broker.errors import ConfigError
from broker.tokenizers.parts import parts


class HuggingFaceCounter:
    """Counts by a ``tokenizer.json``, without the tokens that a model puts around a text.

    The file's own truncation and padding are left out: they would count a long text as a short one.

    Attributes:
        name: What requests call it.
        version: The file's digest.

    Args:
        name: See there.
        version: See there.
        data: The file.

    Raises:
        ConfigError: The extra is not installed, or the file is none.
    """

    def __init__(self, name: str, version: str, data: bytes) -> None:
        self.name = name
        self.version = version
        self._tokenizer = _loaded(data)

    def count(self, text: str, /) -> int:
        """Tokens of the text, part by part; see :mod:`broker.tokenizers.parts`."""
        return sum(len(self._tokenizer.encode(part, add_special_tokens=False).ids) for part in parts(text))


def _loaded(data: bytes) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(
            f"a tokenizer of the kind 'huggingface' needs the extra 'tokenizers' ({error.name} is missing): "
            "pip install 'context-broker[tokenizers]'"
        ) from None
    try:
        tokenizer = Tokenizer.from_str(data.decode())
    except Exception as error:  # noqa: BLE001 - tokenizers raises plain Exception
        raise ConfigError(f"the file is no tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # What looks like a token of the model's own, in a text, is text.
    tokenizer.encode_special_tokens = True
    return tokenizer
