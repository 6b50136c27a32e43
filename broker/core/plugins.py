"""Ranking policies that an operator installed: what one is, and how it runs without being able to do harm.

A plugin is given what every policy of our own is given, :class:`~broker.core.handles.Handle` and no score, and returns
an order. Whatever it returns becomes a permutation, and what it raises becomes round robin: it can neither lose a frame
nor fail a composition, and what had to be repaired stands in the audit.

How plugins are found and allowed is :mod:`broker.plugins`; what one must prove before it may serve is
:mod:`broker.gate`.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

from msgspec.structs import astuple

from broker.core.handles import Handle, RankingPlugin
from broker.core.ranking import round_robin
from broker.core.strategies import CATALOGUE, Parameter
from broker.errors import FieldViolation

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_PARTS = ("name", "version", "description", "parameters", "order")
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a text"),
    (Mapping, "an object"),
    (Sequence, "a list"),
)


def plugin_problem(plugin: Any, name: str) -> str | None:
    """Why an object is no ranking policy of this name; None: it is one."""
    if _NAME.fullmatch(name) is None:
        return f"{name[:64]!a} is no name for a strategy: a lower-case letter, then letters, digits, '_', '.' and '-'"
    if name in {info.name for info in CATALOGUE.values()}:
        return f"{name!r} is the name of a built-in strategy"
    try:
        missing = [part for part in _PARTS if not hasattr(plugin, part)]
    except Exception as error:  # noqa: BLE001 - an attribute may be a property, which raises what it likes
        return f"its attributes cannot be read: {type(error).__name__}: {error}"
    if missing:
        return f"it has no {', '.join(missing)}"
    if plugin.name != name:
        return f"its entry point is called {name!r}, and it calls itself {plugin.name!a}"
    for part, most in (("version", 64), ("description", 1024)):
        value = getattr(plugin, part)
        if not isinstance(value, str) or not 0 < len(value) <= most:
            return f"its {part} is no text of 1 to {most} characters"
    parameters = plugin.parameters
    if not isinstance(parameters, tuple) or not all(isinstance(one, Parameter) for one in parameters):
        return "its parameters are no tuple of broker.plugins.Parameter"
    if not all(isinstance(text, str) for parameter in parameters for text in astuple(parameter)):
        return "a parameter's name, type, default and description are texts, and one of them is none"
    if len({parameter.name for parameter in parameters}) < len(parameters):
        return "two of its parameters have one name"
    return None if callable(plugin.order) else "its order cannot be called"


def param_violations(plugin: RankingPlugin, params: Mapping[str, object], path: str) -> list[FieldViolation]:
    """What is wrong with the parameters that a request gives to a plugin.

    Args:
        plugin: The plugin.
        params: As given.
        path: Field path of the parameters.

    Returns:
        Violations of reason ``STRATEGY_PARAMS``: of a name that the plugin did not declare, a value that is of another
        kind than the declared default, a number that is not finite.
    """
    declared = {parameter.name: parameter for parameter in plugin.parameters}
    violations = []
    for name, value in params.items():
        if name not in declared:
            takes = f"it takes {', '.join(declared)}" if declared else "it takes none"
            problem = f"{plugin.name} declares no parameter {name[:64]!a}; {takes}"
        elif not _finite(value):
            problem = "holds a number that is not finite"
        elif declared[name].default and _kind(value) != (kind := _kind(_value_of(declared[name].default))):
            problem = f"expected {kind} ({declared[name].type})"
        else:
            continue
        violations.append(FieldViolation(f"{path}.{name[:64]}", "STRATEGY_PARAMS", problem))
    return violations


def filled(plugin: RankingPlugin, params: Mapping[str, object]) -> dict[str, object]:
    """Parameters with every declared default filled in, by name."""
    defaults = {one.name: _value_of(one.default) for one in plugin.parameters if one.default}
    return dict(sorted({**defaults, **params}.items()))


def plugin_order(
    plugin: RankingPlugin, handles: Sequence[Handle], params: Mapping[str, object]
) -> tuple[Sequence[object], tuple[str, ...]]:
    """What a plugin answers, good or bad; round robin where it fails.

    Args:
        plugin: The plugin.
        handles: Its own: nothing else may go by them afterwards, for code of others may write to anything.
        params: As the request gives them.

    Returns:
        The order, still to be repaired; and what is to be said of it beforehand.
    """
    # Worked out before anyone else has had the handles in hand.
    stand_in = round_robin([handle.local_rank for handle in handles])
    try:
        # Parameters may be the operator's own, which serve the next request too: a plugin that writes to them writes to
        # a copy.
        answer = plugin.order(tuple(handles), deepcopy(filled(plugin, params)))
        # An answer without end would never be read to it.
        return [_plain(index) for index in islice(iter(answer), 2 * len(handles) + 1)], ()
    except KeyboardInterrupt:
        raise  # Not the plugin's: someone ends the program.
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises, SystemExit too, the composition goes on
        # The type alone: a message could say anything.
        return stand_in, (f"round robin stands in: the plugin failed with {type(error).__name__}",)


def _plain(index: object) -> object:
    """A whole number of any type, such as numpy's, as Python's own; anything else as it is."""
    if isinstance(index, bool):
        return index
    try:
        return operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        return index


def _value_of(text: str) -> Any:
    """A declared default as a value: what it says as JSON, else the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if _finite(value) else text


def _kind(value: object) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "nothing")


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, Iterable) and not isinstance(value, str) else True
