"""Every key of the configuration as a page of Markdown: its type and range, its default, and all that is said of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from broker.cli.config_sample import model_of, toml
from broker.config.changes import is_reloadable
from broker.settings import Config

HEAD = """\
# Configuration

Written by `context-broker config docs`; what it says is read off the settings themselves.

A value is taken from the first of these that has one:

1. a flag of `context-broker serve`;
2. an environment variable `CONTEXT_BROKER_SECTION__KEY`, such as `CONTEXT_BROKER_LIMITS__MAX_TOKENS=4000`; lists are
   JSON or parted by commas;
3. a file `section__key` in the directory of secrets (`--secrets`, `CONTEXT_BROKER_SECRETS`); of a key that names a
   file, such as `store.dsn_file`, the file *is* what the key names;
4. the TOML file (`--config`, `CONTEXT_BROKER_CONFIG`);
5. the default.

`context-broker config show` tells what is in force and where it came from, `config check` whether a broker would start
with it, and `config init` writes a file to begin with. A key that there is none of is an error.

After SIGHUP a running broker reads all of it again. It takes keys marked ↻: all of them or, where anything is wrong or
a key without the mark has changed, none, and the log says why. Certificates, tokens, principals and signing keys are
read again by themselves whenever their files change. Running requests go on under what they began with.
"""

UNBOUNDED = 2**31 - 1
"""A bound that says no more than that a number has its size."""


def config_page() -> str:
    """The page."""
    return "\n".join(
        (HEAD, *(line for name, field in Config.model_fields.items() for line in _section(name, field)), "")
    )


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    model = model_of(field.annotation)
    assert model is not None, "the configuration is made of sections"
    named = get_origin(field.annotation) is not None
    yield from _table(f"{name}.NAME" if named else name, model, name)


def _table(title: str, model: type[BaseModel], path: str) -> Iterator[str]:
    said = _entries(model)
    text = inspect.getdoc(model) or ""
    about, _, _ = text.partition("Attributes:")
    yield f"## `[{title}]`\n\n{_flowing(about)}\n"
    yield "| key | | type | default | |\n|---|---|---|---|---|"
    deeper: list[tuple[str, type[BaseModel]]] = []
    for key, field in model.model_fields.items():
        inner = model_of(field.annotation)
        if inner is not None:
            deeper.append((key, inner))
        mark = "↻" if is_reloadable(f"{path}.{key}") else ""
        default = field.get_default(call_default_factory=True)
        shown = "" if default is None or default is PydanticUndefined else f"`{toml(default)}`"
        if default is PydanticUndefined:
            shown = "required"
        yield f"| `{key}` | {mark} | {_kind(field)} | {shown} | {_cell(said.get(key, ''))} |"
    yield ""
    for key, inner in deeper:
        yield from _table(f"{title}.{key}", inner, path)


def _entries(model: type[BaseModel]) -> Mapping[str, str]:
    """All that the docstring says of each key."""
    _, _, text = (inspect.getdoc(model) or "").partition("Attributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", text, re.MULTILINE)
    return {key: _flowing(clause) for key, clause in entries}


def _flowing(text: str) -> str:
    paragraphs = (re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n"))
    return "\n\n".join(paragraphs).replace("``", "`").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kind(field: FieldInfo) -> str:
    """A key's type and range, for people."""
    if model_of(field.annotation) is not None:
        return "tables" if get_origin(field.annotation) is tuple else "table"
    kinds, bounds = _taken(field.annotation)
    choices = [f"`{each}`" for kind in kinds for each in _choices(kind)]
    if choices:
        return ", ".join(choices)
    names = {tuple: "list of texts", bool: "true or false", int: "integer", float: "number", Path: "file", str: "text"}
    told = next((name for kind, name in names.items() if kind in kinds), "table or text")
    return ", ".join((told, *_range([*field.metadata, *bounds])))


def _taken(annotation: Any) -> tuple[list[Any], list[Any]]:
    """The types that an annotation allows, and what it says of their range."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kinds, bounds = _taken(arguments[0])
        inner = [each for one in arguments[1:] for each in (one.metadata if isinstance(one, FieldInfo) else [one])]
        return kinds, [*bounds, *inner]
    if origin in (Union, UnionType):
        parts = [_taken(each) for each in arguments]
        return [kind for kinds, _ in parts for kind in kinds], [each for _, bounds in parts for each in bounds]
    return [tuple if origin is tuple else annotation], []


def _choices(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(each.value for each in kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()


def _range(bounds: list[Any]) -> Iterator[str]:
    """The narrowest of what is said."""
    least: list[Any] = [each.ge for each in bounds if isinstance(each, Ge)]
    above: list[Any] = [each.gt for each in bounds if isinstance(each, Gt)]
    most: list[Any] = [each.le for each in bounds if isinstance(each, Le) and each.le != UNBOUNDED]
    if least:
        yield f"≥ {_number(max(least))}"
    elif above:
        yield f"> {_number(max(above))}"
    if most:
        yield f"≤ {_number(min(most))}"


def _number(value: Any) -> str:
    return f"{value:,}".replace(",", " ")
