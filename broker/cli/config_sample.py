"""The daemon's configuration as a commented TOML file: every key with its default, read off the settings themselves."""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from broker.settings import Config

WIDTH = 78
"""Columns of a line, where a value does not need more."""

_REMARK = 38
"""The column that remarks start at."""


def config_sample() -> str:
    """The file. What has no default, and tables whose names the operator chooses, are commented out."""
    return "\n".join(line for name, field in Config.model_fields.items() for line in _section(name, field)).strip()


def config_file() -> str:
    """The sample as a file to begin with: every key is commented out, so that a later default is not held back."""
    lines = (_marked(line) if re.match(r"\w+ = ", line) else line for line in config_sample().splitlines())
    return "\n".join((*_HEAD, "", *lines, ""))


def _marked(line: str) -> str:
    """A line as a remark; its own remark stays in its column where there is room."""
    key, room, remark = line.partition("   # ")
    return f"# {key} # {remark}" if room else f"# {line}"


_HEAD = (
    "# The configuration of context-broker: every key with its default, or an example where it has none and its",
    "# remark says so. Take the mark off a line to set it. `context-broker config check --config FILE` checks it,",
    "# `config show --config FILE` tells what is in force and why, and `serve --config FILE` uses it.",
)


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    model = model_of(field.annotation)
    if model is None:
        raise TypeError(f"{name} is not a section")
    yield ""
    if get_origin(field.annotation) is not None:
        yield f"# [{name}.NAME]"
        yield from _keys(model, "# ")
        return
    yield f"[{name}]"
    yield from _keys(model, "")
    for key, inner in model.model_fields.items():
        entry = model_of(inner.annotation)
        if entry is not None and get_origin(inner.annotation) is tuple:
            yield f"# [[{name}.{key}]]"
            yield from _keys(entry, "# ")


def _keys(model: type[BaseModel], mark: str) -> Iterator[str]:
    remarks = _remarks(model)
    for key, field in model.model_fields.items():
        if model_of(field.annotation) is not None and get_origin(field.annotation) is tuple:
            continue
        default = field.get_default(call_default_factory=True)
        absent = default is None or default is PydanticUndefined
        value = _example(field) if absent else toml(default)
        remark = remarks.get(key, "")
        if absent and not field.is_required():
            remark = f"(not set) {remark}"
        yield from _line(f"{mark or ('# ' if absent else '')}{key} = {value}", remark)


def _line(text: str, remark: str) -> Iterator[str]:
    """A key with its remark behind it, and below where there is more of it."""
    lines = textwrap.wrap(remark, WIDTH - _REMARK - 2)
    if len(text) > _REMARK - 2:
        yield text
    elif lines:
        yield f"{text:<{_REMARK}}# {lines.pop(0)}"
    else:
        yield text
    for line in lines:
        yield f"{'#':<{_REMARK}}# {line}"


def _remarks(model: type[BaseModel]) -> dict[str, str]:
    """Of each key, the values that it may have or else the first clause that the docstring says of it."""
    _, _, text = (inspect.getdoc(model) or "").partition("Attributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", text, re.MULTILINE)
    said = {key: re.split(r"; |\.(?: |$)", re.sub(r"\s+", " ", clause.replace("``", "")))[0] for key, clause in entries}
    choices = {
        key: " or ".join(get_args(field.annotation))
        for key, field in model.model_fields.items()
        if get_origin(field.annotation) is Literal
    }
    return said | choices


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a key holds, by itself or in a table, a list or an option; None: it holds a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for each in get_args(annotation) if (model := model_of(each)) is not None), None)


def _example(field: FieldInfo) -> str:
    """What may stand where there is no default."""
    annotation = field.annotation
    if field.examples:
        return toml(field.examples[0])
    model = model_of(annotation)
    if model is not None:
        parts = (f"{name} = {toml((each.examples or [each.default])[0])}" for name, each in model.model_fields.items())
        return f"{{ {', '.join(parts)} }}"
    kinds = {annotation, *get_args(annotation)}
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), None)
    if choices:
        return toml(choices[0])
    if Path in kinds:
        return '"FILE"'
    if get_origin(annotation) is tuple:
        return '["NAME", "OTHER"]'
    if str in kinds:
        return '"NAME"'
    raise TypeError(f"{annotation} has neither a default nor an example")


def toml(value: Any) -> str:
    """A value as TOML spells it."""
    match value:
        case bool():
            return "true" if value else "false"
        case Enum():
            return json.dumps(value.value)
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case int() | float():
            return repr(value)
        case Mapping():
            return f"{{ {', '.join(f'{name} = {toml(item)}' for name, item in value.items())} }}" if value else "{}"
        case tuple() | list():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            return json.dumps(str(value))
