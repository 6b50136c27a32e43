"""Every value of a configuration, key by key, as TOML spells it, and nothing that is secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from broker.cli.config_sample import toml
from broker.config import Read
from broker.config.changes import is_reloadable

HIDDEN = "(secret)"
"""What stands where a value is not to be shown."""

_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Value:
    """One key's value.

    Attributes:
        section: The table that it stands in, such as ``providers.docs.scale``.
        name: Its name there.
        value: The value, as JSON has it; None: not set.
        origin: Where it came from, for people.
        reloadable: Whether SIGHUP takes a new one.
    """

    section: str
    name: str
    value: Any
    origin: str
    reloadable: bool

    @property
    def key(self) -> str:
        """``section.name``."""
        return f"{self.section}.{self.name}"

    @property
    def line(self) -> str:
        """The key as TOML; a remark where it is not set, which TOML cannot say."""
        return f"# {self.name} is not set" if self.value is None else f"{self.name} = {toml(self.value)}"


def values(found: Read) -> Iterator[Value]:
    """All values of a configuration, in the order of the settings."""
    for section in type(found.config).model_fields:
        yield from _within((section,), getattr(found.config, section), found)


def _within(path: tuple[str, ...], value: Any, found: Read) -> Iterator[Value]:
    tables: list[tuple[tuple[str, ...], Any]] = []
    items = _items(value)
    for name, each in items:
        key = (*path, name)
        if isinstance(each, BaseModel) or (len(path) == 1 and path[0] in _NAMED and isinstance(each, Mapping)):
            tables.append((key, each))
            continue
        yield Value(
            ".".join(path),
            name,
            HIDDEN if found.is_secret(key) else _plain(each),
            found.origin(key),
            is_reloadable(".".join(key)),
        )
    for key, each in tables:
        yield from _within(key, each, found)


_NAMED = ("providers", "rerankers", "tokenizers")


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        return [(name, getattr(value, name)) for name in type(value).model_fields]
    return list(value.items())


def _plain(value: Any) -> Any:
    match value:
        case BaseModel():
            return {name: _plain(each) for name, each in _items(value) if each is not None}
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case Enum():
            return value.value
        case float() if value in (float("inf"), float("-inf")):
            return str(value)
        case Path() | str():
            return _PASSWORD.sub(f"{HIDDEN}@", str(value))
        case _:
            return value
