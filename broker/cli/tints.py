"""A colour for each provider of a composition, the same in every picture of it."""

from __future__ import annotations

from broker.core.composition import Composition

_TINTS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow")


def tints(composition: Composition) -> dict[str, str]:
    """A colour for each provider, in lane order."""
    return {lane.provider: _TINTS[i % len(_TINTS)] for i, lane in enumerate(composition.summary.lanes)}
