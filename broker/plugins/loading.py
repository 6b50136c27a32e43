"""Finding and loading what the operator allows, and nothing else."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from broker.errors import ConfigError
from broker.gate.subjects import instance_of

STRATEGIES = "context_broker.strategies"
"""Entry point group of ranking policies."""

RERANKERS = "context_broker.rerankers"
"""Entry point group of rerankers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A plugin that was loaded.

    Attributes:
        name: Its entry point's name.
        plugin: The object; whoever uses it holds it against its protocol.
        target: ``module:attribute``.
        distribution: Name and version of the distribution that offers it.
        digest: ``sha256:<hex>`` of the file of its module; empty where it has none.
    """

    name: str
    plugin: Any
    target: str
    distribution: str
    digest: str


def installed(group: str) -> list[str]:
    """Names of the plugins that are installed; none of them is loaded."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: str, name: str) -> Loaded:
    """Loads one installed plugin.

    Raises:
        ConfigError: None of this name is installed, or several are, or it cannot be loaded.
    """
    # One distribution may be found twice, by two entries of the path that lead to it.
    points = {(point.value, _distribution(point)): point for point in entry_points(group=group, name=name)}
    if not points:
        there = installed(group)
        known = f"there are {', '.join(there)}" if there else "none is installed"
        raise ConfigError(f"no plugin called {name[:64]!a} is installed ({group}); {known}")
    if len(points) > 1:
        both = ", ".join(f"{value} of {distribution}" for value, distribution in sorted(points))
        raise ConfigError(f"several plugins are called {name!r} ({group}): {both}; remove all but one")
    ((target, distribution), _) = points.popitem()
    try:
        plugin = instance_of(target)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything while it is imported
        raise ConfigError(
            f"the plugin {name!r} ({target} of {distribution}) cannot be loaded: {type(error).__name__}: {error}"
        ) from None
    return Loaded(name=name, plugin=plugin, target=target, distribution=distribution, digest=_digest(target))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def _digest(target: str) -> str:
    file = getattr(sys.modules.get(target.partition(":")[0].strip()), "__file__", None)
    return f"sha256:{hashlib.sha256(Path(file).read_bytes()).hexdigest()}" if file else ""
