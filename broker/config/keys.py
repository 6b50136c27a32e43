"""The keys that there are, section by section, as the settings declare them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from broker.settings import Config, ConfiguredReranker, ConfiguredTokenizer, KnownProvider

BY_NAME: dict[str, type[BaseModel]] = {
    "providers": KnownProvider,
    "rerankers": ConfiguredReranker,
    "tokenizers": ConfiguredTokenizer,
}
"""Sections whose keys are names of the operator's choice, each of which holds a section."""


def siblings(key: Sequence[str]) -> Iterable[str]:
    """The keys that stand where a key does that was found in the configuration."""
    model: type[BaseModel] = Config
    parts = list(key[:-1])
    while parts:
        part = parts.pop(0)
        if part.isdigit():  # A place in a list of tables; the list's own part has led to the table already.
            continue
        if part in BY_NAME and model is Config and parts:
            parts.pop(0)
            model = BY_NAME[part]
            continue
        annotation = model.model_fields[part].annotation
        found = [a for a in (annotation, *getattr(annotation, "__args__", ())) if isinstance(a, type)]
        model = next((a for a in found if issubclass(a, BaseModel)), model)
    return model.model_fields


def annotation_of(key: Sequence[str]) -> frozenset[Any]:
    """The types that a key's value may have; empty where there is no such key."""
    model: type[BaseModel] | None = Config
    kinds: frozenset[Any] = frozenset()
    parts = list(key)
    while parts:
        part = parts.pop(0)
        if model is None or part not in model.model_fields:
            return frozenset()
        if part in BY_NAME and model is Config:
            if not parts:
                return frozenset()
            parts.pop(0)
            model, kinds = BY_NAME[part], frozenset()
            continue
        annotation = model.model_fields[part].annotation
        kinds = frozenset((annotation, *get_args(annotation)))
        model = next((each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)), None)
    return kinds
