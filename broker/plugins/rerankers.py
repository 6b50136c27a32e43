"""Rerankers of others: loaded by name and held against their protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog

from broker.errors import ConfigError
from broker.plugins.loading import RERANKERS, load
from broker.rerankers.plugin import RerankerPlugin

log = structlog.get_logger("broker.plugins")

_PARTS = ("name", "version", "description", "scores")


def allowed(names: Iterable[str]) -> dict[str, RerankerPlugin]:
    """The rerankers that the operator allows, by name.

    Args:
        names: As configured.

    Raises:
        ConfigError: One is not installed, cannot be loaded, or is no reranker.
    """
    plugins: dict[str, RerankerPlugin] = {}
    for name in names:
        loaded = load(RERANKERS, name)
        plugin: Any = loaded.plugin
        problem = _problem(plugin, name)
        if problem is None:
            plugins[name] = plugin
            log.info(
                "plugin allowed",
                plugin=name,
                version=plugin.version,
                target=loaded.target,
                distribution=loaded.distribution,
                digest=loaded.digest,
            )
            continue
        raise ConfigError(f"the plugin {name!r} ({loaded.target} of {loaded.distribution}) is no reranker: {problem}")
    return plugins


def _problem(plugin: Any, name: str) -> str | None:
    """Why an object is no reranker of this name; None: it is one."""
    missing = [part for part in _PARTS if not hasattr(plugin, part)]
    if missing:
        return f"it has no {', '.join(missing)}"
    if plugin.name != name:
        return f"its entry point is called {name!r}, and it calls itself {plugin.name!a}"
    for part, most in (("version", 64), ("description", 1024)):
        value = getattr(plugin, part)
        if not isinstance(value, str) or not 0 < len(value) <= most:
            return f"its {part} is no text of 1 to {most} characters"
    return None if callable(plugin.scores) else "its scores cannot be called"
