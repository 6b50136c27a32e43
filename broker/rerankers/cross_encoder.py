"""``cross-encoder``: a model that reads question and text together, run by ONNX Runtime on this machine's processors.

The model lies in a directory, as sentence-transformers and Optimum export one: ``model.onnx`` with the inputs
``input_ids``, ``attention_mask`` and, where it has them, ``token_type_ids``, and one number out for each pair; and
``tokenizer.json``. Nothing is fetched. Needs the extra ``cross-encoder``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.core.rerank import RerankCandidate, Reranked
from broker.errors import ConfigError
from broker.rerankers.threads import Threads

MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"

MAX_CHARACTERS = 8 * 1024
"""Of one candidate that the tokenizer is given; no model reads so many."""

BATCH = 16
"""Pairs that the model reads at once. Between batches a request that no one waits for ends."""

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_PADS = ("[PAD]", "<pad>")


class CrossEncoder:
    """A loaded model. One request's batch is run at a time: the model itself uses every processor.

    Args:
        directory: Where ``model.onnx`` and ``tokenizer.json`` lie.
        max_tokens: Tokens of question and text together; a tokenizer that allows fewer has its way.

    Raises:
        ConfigError: The extra is not installed; a file is missing or is none; the model takes other inputs, or does not
            give one number for each pair.
    """

    def __init__(self, directory: Path, *, max_tokens: int = 512) -> None:
        for name in (MODEL, TOKENIZER):
            if not (directory / name).is_file():
                raise ConfigError(
                    f"there is no file {name} in {directory}; a cross-encoder needs {MODEL} and {TOKENIZER}"
                )
        self._np, self._session, self._tokenizer = _loaded(directory, max_tokens)
        self._inputs = _inputs(self._session, directory)
        self._threads = Threads("rerank-cross-encoder", 1)
        self._version = _digest(directory)
        try:
            self._batch("a question", ["a text", "another text"])
        except Exception as error:  # noqa: BLE001 - the runtime raises what it likes
            raise ConfigError(f"{directory / MODEL} does not score pairs of texts: {error}") from None

    @property
    def version(self) -> str:
        """The first digits of the SHA-256 of model and tokenizer."""
        return self._version

    async def score(self, question: str, candidates: Sequence[RerankCandidate], seconds: float) -> Reranked:  # noqa: ARG002
        """See :meth:`broker.rerankers.reranker.Reranker.score`."""
        texts = [_text(candidate) for candidate in candidates]
        scores: list[float] = []
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            scores += await self._threads.run(lambda batch=batch: self._batch(question, batch))  # type: ignore[misc]
        return Reranked(tuple(scores), self._version)

    async def close(self) -> None:
        """The model goes when the last of its users does."""

    def _batch(self, question: str, texts: Sequence[str]) -> list[float]:
        encoded = self._tokenizer.encode_batch([(question, text) for text in texts])
        given = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        feed = {name: self._np.asarray(given[name], dtype=kind) for name, kind in self._inputs.items()}
        numbers = self._session.run(None, feed)[0]
        if numbers.shape not in ((len(texts),), (len(texts), 1)):
            raise ValueError(
                f"expected one number for each pair, and {len(texts)} pairs gave the shape {numbers.shape}"
            )
        return [float(number) for number in numbers.reshape(-1)]


def _loaded(directory: Path, max_tokens: int) -> tuple[Any, Any, Any]:
    """NumPy, the model's session and the tokenizer."""
    try:
        import numpy as np
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(
            f"a cross-encoder needs the extra 'cross-encoder' ({error.name} is missing): "
            "pip install 'context-broker[cross-encoder]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(directory / MODEL), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the runtime raises what it likes
        raise ConfigError(f"{directory / MODEL} is no model that ONNX Runtime can load: {error}") from None
    try:
        tokenizer = Tokenizer.from_file(str(directory / TOKENIZER))
    except Exception as error:  # noqa: BLE001 - tokenizers raises plain Exception
        raise ConfigError(f"{directory / TOKENIZER} is no tokenizer: {error}") from None
    own = tokenizer.truncation
    tokenizer.enable_truncation(max_length=min(max_tokens, own["max_length"]) if own else max_tokens)
    if tokenizer.padding is None:
        pads = ((pad, tokenizer.token_to_id(pad)) for pad in _PADS)
        token, number = next(((pad, found) for pad, found in pads if found is not None), (_PADS[0], 0))
        tokenizer.enable_padding(pad_id=number, pad_token=token)
    else:
        tokenizer.enable_padding(**{**tokenizer.padding, "length": None})
    return np, session, tokenizer


def _inputs(session: Any, directory: Path) -> dict[str, str]:
    """The model's inputs, each with the type of number that it takes."""
    kinds = {"tensor(int64)": "int64", "tensor(int32)": "int32"}
    inputs = {one.name: kinds.get(one.type) for one in session.get_inputs()}
    if "input_ids" not in inputs or not _INPUTS.issuperset(inputs) or None in inputs.values():
        told = ", ".join(f"{one.name} {one.type}" for one in session.get_inputs())
        raise ConfigError(f"{directory / MODEL} takes {told}; expected whole numbers in {', '.join(sorted(_INPUTS))}")
    return {name: kind for name, kind in inputs.items() if kind is not None}


def _digest(directory: Path) -> str:
    both = hashlib.sha256()
    for name in (MODEL, TOKENIZER):
        with (directory / name).open("rb") as file:
            both.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{both.hexdigest()[:16]}"


def _text(candidate: RerankCandidate) -> str:
    # Many providers put the title at the head of the content; the model reads it once all the same.
    content = candidate.content[:MAX_CHARACTERS]
    return content if content.startswith(candidate.title) else f"{candidate.title}\n{content}"
