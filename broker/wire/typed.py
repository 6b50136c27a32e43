"""Values held against type annotations: one of another type is named by its path and never reaches protobuf.

Protobuf's own complaints name no path, and speak of what it tried to do. A check is built once for each annotation.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from broker.core.given import given, with_article
from broker.errors import FieldViolation, InvalidArgument

Problem: TypeAlias = tuple[str, str]
"""Where in a value, as the end of a path; and what is wrong there."""

Check: TypeAlias = Callable[[Any], Problem | None]

_WORDS = {str: "text", bool: "True or False", int: "a whole number", float: "a number", types.NoneType: "None"}

_LISTS = {str: "texts", int: "whole numbers", float: "numbers"}


def require(*checked: tuple[str, object, Any]) -> None:
    """Holds values against annotations.

    Args:
        checked: Path, value and annotation of each. An annotation is built of plain types, enums, structs, unions,
            tuples, iterables, mappings and callables.

    Raises:
        InvalidArgument: One or more are of another type (``FIELD_INVALID``), each with its path, what was expected and
            what was given.
    """
    violations = [
        FieldViolation(f"{path}{problem[0]}".removeprefix("."), "FIELD_INVALID", problem[1])
        for path, value, hint in checked
        if (problem := check_of(hint)(value)) is not None
    ]
    if violations:
        raise InvalidArgument.of(violations)


def held(values: Any) -> Any:
    """What can be gone through only once, such as a generator's values, as a tuple; all else as it is."""
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, Collection) else values


@cache
def check_of(hint: Any) -> Check:
    """What finds the first thing in a value that is not as an annotation says."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in (Any, object) or isinstance(hint, TypeVar):
        return lambda _: None
    if origin in (Union, types.UnionType):
        return _union(hint, inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return _row(hint, inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(hint, *inner)
    if origin is Callable:
        return lambda value: None if callable(value) else _unexpected(hint, value)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _collection(hint, inner[0])
    if issubclass(hint, Struct):
        return _struct(hint)
    return _plain(hint)


def _plain(hint: type) -> Check:
    if hint in (int, float):
        # Numbers of other libraries are numbers; True and False are not.
        wanted = Integral if hint is int else Real
        return lambda value: (
            None
            if type(value) is hint or (isinstance(value, wanted) and not isinstance(value, bool))
            else _unexpected(hint, value)
        )
    return lambda value: None if isinstance(value, hint) else _unexpected(hint, value)


def _struct(hint: type[Struct]) -> Check:
    hints = get_type_hints(hint)
    parts = [(name, check_of(hints[name])) for name in hint.__struct_fields__]

    def check(value: Any) -> Problem | None:
        if not isinstance(value, hint):
            return _unexpected(hint, value)
        for name, part in parts:
            if (problem := part(getattr(value, name))) is not None:
                return f".{name}{problem[0]}", problem[1]
        return None

    return check


def _union(hint: Any, inner: tuple[Any, ...]) -> Check:
    checks = [check_of(one) for one in inner]

    def check(value: Any) -> Problem | None:
        problems = []
        for one in checks:
            if (problem := one(value)) is None:
                return None
            problems.append(problem)
        # One of them may be what was meant, with a mistake inside.
        return next((problem for problem in problems if problem[0]), _unexpected(hint, value))

    return check


def _collection(hint: Any, item: Any) -> Check:
    each = check_of(item)

    def check(value: Any) -> Problem | None:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            text = _unexpected(hint, value)[1]
            single = not isinstance(value, type) and each(value) is None
            return "", f"{text}; put it into a list" if single else text
        for i, one in enumerate(value):
            if (problem := each(one)) is not None:
                return f"[{i}]{problem[0]}", problem[1]
        return None

    return check


def _row(hint: Any, inner: tuple[Any, ...]) -> Check:
    checks = [check_of(one) for one in inner]

    def check(value: Any) -> Problem | None:
        if not isinstance(value, tuple | list) or len(value) != len(checks):
            return _unexpected(hint, value)
        for i, (one, part) in enumerate(zip(value, checks, strict=True)):
            if (problem := part(one)) is not None:
                return f"[{i}]{problem[0]}", problem[1]
        return None

    return check


def _mapping(hint: Any, key: Any, item: Any) -> Check:
    names, each = check_of(key), check_of(item)

    def check(value: Any) -> Problem | None:
        if not isinstance(value, Mapping):
            return _unexpected(hint, value)
        for name, one in value.items():
            if (problem := names(name)) is not None:
                return "", f"a key is not as expected: {problem[1]}"
            if (problem := each(one)) is not None:
                return f"[{name!a}]{problem[0]}", problem[1]
        return None

    return check


def _unexpected(hint: Any, value: object) -> Problem:
    inner = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    advice = f"; write {value.__name__}(…)" if isinstance(value, type) and value in inner else ""
    return "", f"expected {_words(hint)}, got {given(value)}{advice}"


def _words(hint: Any) -> str:
    """What an annotation asks for, for people."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either([_words(one) for one in inner])
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"a tuple of {', '.join(map(_words, inner))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_words(inner[0])} to {_words(inner[1])}"
    if origin is Callable:
        return "a function"
    if origin is not None:
        item = inner[0]
        return f"a list of {_LISTS.get(item) or _words(item).removeprefix('an ').removeprefix('a ')}"
    if hint in _WORDS:
        return _WORDS[hint]
    if issubclass(hint, Enum):
        return _either([f"{hint.__name__}.{one.name}" for one in hint])
    return with_article(hint.__name__)


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
