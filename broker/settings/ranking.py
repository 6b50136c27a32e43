"""What can be configured of ranking: which policies there are, which is the default, what lanes share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from broker.core.strategies import (
    CATALOGUE,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    Strategy,
    TrustWeighted,
)
from broker.core.weights import weight_violations
from broker.settings.base import SCALE_ID, Section, Texts, check_provider_name

_BUILT_IN: Mapping[str, type[Strategy]] = {info.name: kind for kind, info in CATALOGUE.items()}


def _table(value: Any) -> Any:
    """A policy as a table: its name alone is one too, and so is JSON, as an environment variable spells it."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        raise ValueError("expected a name, or a table of name and parameters")  # noqa: TRY004 - pydantic reports these
    return json.loads(value) if value.lstrip().startswith("{") else {"name": value}


StrategyTable = Annotated[Mapping[str, Any], NoDecode, BeforeValidator(_table)]


class SharedScale(Section):
    """A scale that several providers truly share, such as replicas of one index under several names.

    Attributes:
        id: The scale's name, which each of them declares.
        providers: Two or more. They may attach with equal scales only.
    """

    id: str = Field(pattern=SCALE_ID)
    providers: Texts

    @field_validator("providers")
    @classmethod
    def _several(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            check_provider_name(value)
        if len(set(values)) != len(values) or len(values) < 2:
            raise ValueError("names two or more providers, each once")
        return values


class Ranking(Section):
    """How lanes are ordered among equals, and which policies may be named.

    Attributes:
        lane_order: Providers in the order that decides between equals; all others follow by name.
        plugins: Installed ranking policies that may serve; each passes the gate first, or the daemon does not start.
        rerankers: Installed rerankers that may serve.
        default_strategy: What serves requests that name no policy: a name, or a table of ``name`` and parameters.
        forbidden_strategies: Policies that no request may name.
        shared_scales: Scales that several providers share. Between all others, equal numbers mean nothing.
    """

    lane_order: Texts = ()
    plugins: Texts = ()
    rerankers: Texts = ()
    default_strategy: StrategyTable = Field(default_factory=lambda: {"name": CATALOGUE[RoundRobin].name})
    forbidden_strategies: Texts = ()
    shared_scales: tuple[SharedScale, ...] = ()

    @property
    def strategy(self) -> Strategy:
        """The default policy as the core knows it."""
        return _strategy(self.default_strategy, self.plugins)

    @field_validator("lane_order")
    @classmethod
    def _providers(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            check_provider_name(value)
        if len(set(values)) != len(values):
            raise ValueError("names one provider twice")
        return values

    @field_validator("plugins", "rerankers")
    @classmethod
    def _once(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) != len(values):
            raise ValueError("names one plugin twice")
        return values

    @field_validator("default_strategy")
    @classmethod
    def _default(cls, value: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        _strategy(value, info.data.get("plugins", ()))
        return value

    @field_validator("forbidden_strategies")
    @classmethod
    def _policies(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for value in values:
            if value in info.data.get("plugins", ()):
                raise ValueError(f"{value} is a plugin; leave it out of plugins instead")
            if value not in _BUILT_IN:
                raise ValueError(f"no strategy is called {value!r}; there are {', '.join(sorted(_BUILT_IN))}")
            if value == info.data.get("default_strategy", {}).get("name"):
                raise ValueError(f"{value} serves the requests that name no strategy and cannot be forbidden")
        return values

    @field_validator("shared_scales")
    @classmethod
    def _apart(cls, values: tuple[SharedScale, ...]) -> tuple[SharedScale, ...]:
        names = [name for shared in values for name in shared.providers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: a provider has one scale, and shares it in one entry")
        return values


def weighed_providers(strategy: Strategy) -> frozenset[str]:
    """Providers that a policy gives weights to by name."""
    return frozenset(strategy.weights if isinstance(strategy, TrustWeighted | ReciprocalRankFusion) else ())


def _strategy(table: Mapping[str, Any], plugins: tuple[str, ...]) -> Strategy:
    """A policy as a value.

    Raises:
        ValueError: No strategy has that name, or it does not take these parameters.
    """
    params = dict(table)
    name = params.pop("name", None)
    if name in plugins:
        return PluginStrategy(str(name), params)
    kind = _BUILT_IN.get(str(name))
    if kind is None:
        known = ", ".join(sorted({*_BUILT_IN, *plugins}))
        raise ValueError(f"no strategy is called {name!r}; there are {known}; a plugin must stand in ranking.plugins")
    if kind is Precomputed:
        raise ValueError(f"{name} is the order of one request and cannot be the default")
    taken = {parameter.name: parameter.type for parameter in CATALOGUE[kind].parameters}
    for key, value in params.items():
        if key not in taken:
            raise ValueError(f"{name} takes no {key!r}; it takes {', '.join(taken) or 'nothing'}")
        if not _of_type(key, value):
            raise ValueError(f"{name}: {key} is {value!r}; expected {taken[key]}")
    strategy = kind(**params)
    problems = weight_violations(strategy, weighed_providers(strategy), "default_strategy")
    if problems:
        raise ValueError("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
    return strategy


def _of_type(key: str, value: object) -> bool:
    if key == "weights":
        return isinstance(value, Mapping) and all(_of_type("default_weight", weight) for weight in value.values())
    return not isinstance(value, bool) and isinstance(value, int if key == "k" else (int, float))
