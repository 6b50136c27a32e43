"""What of a configuration can change while the broker runs, and what needs a new start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from broker.errors import ConfigError
from broker.settings import Config

RELOADABLE: Mapping[str, frozenset[str] | None] = {
    "auth": None,
    "limits": None,
    "providers": None,
    "ranking": frozenset({"lane_order", "default_strategy", "forbidden_strategies", "shared_scales"}),
    "render": frozenset({"tokenizer"}),
    "log": frozenset({"level"}),
}
"""Keys of each section that a running broker takes anew; None: all but :data:`FIXED`."""

FIXED = frozenset(
    {
        "limits.connection_streams",
        "limits.max_collect_seconds",
        "limits.max_message_bytes",
        "limits.rerank_seconds",
    }
)
"""Keys of sections that are taken anew which are not: they were handed on when the port was opened."""


def is_reloadable(key: str) -> bool:
    """Whether a key, as ``section.key``, can change while the broker runs."""
    section, _, name = key.partition(".")
    if section not in RELOADABLE or key in FIXED:
        return False
    keys = RELOADABLE[section]
    return keys is None or name.partition(".")[0] in keys


def changed(old: Config, new: Config) -> list[str]:
    """Keys, as ``section.key``, whose values differ; of a table of names, ``section.name``."""
    return [
        key
        for section in type(new).model_fields
        for key in _changed(section, getattr(old, section), getattr(new, section))
    ]


def check_reloadable(keys: list[str]) -> None:
    """Refuses a change of what needs a new start: all of a configuration is taken, or nothing.

    Raises:
        ConfigError: Naming every such key.
    """
    fixed = [key for key in keys if not is_reloadable(key)]
    if fixed:
        raise ConfigError(f"a new start is needed to change {', '.join(fixed)}")


def _changed(section: str, old: Any, new: Any) -> Iterator[str]:
    before, after = _table(old), _table(new)
    for key in {**after, **before}:
        if before.get(key) != after.get(key):
            yield f"{section}.{key}"


def _table(section: Any) -> Mapping[str, Any]:
    return (
        {key: getattr(section, key) for key in type(section).model_fields}
        if isinstance(section, BaseModel)
        else section
    )
