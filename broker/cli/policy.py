"""The ranking policy that command-line options name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from broker.cli.frames_file import read_order
from broker.core.frames import FrameRef
from broker.core.strategies import (
    CATALOGUE,
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)

STRATEGIES: Mapping[str, type[Strategy]] = {info.name: kind for kind, info in CATALOGUE.items()}
"""Every built-in policy by its name."""

_TAKEN_BY: Mapping[str, tuple[type[Strategy], ...]] = {
    "--k": (PerProviderQuota, ReciprocalRankFusion),
    "--weight": (TrustWeighted, ReciprocalRankFusion),
    "--default-weight": (TrustWeighted, ReciprocalRankFusion),
    "--order": (Precomputed,),
    "--ids": (Precomputed,),
    "--order-name": (Precomputed,),
}


def strategy_of(
    name: str | None,
    *,
    k: int | None,
    weights: Sequence[tuple[str, float]],
    default_weight: float | None,
    order: Path | None,
    ids: Sequence[FrameRef],
    order_name: str,
) -> Strategy | None:
    """The policy as a value; None where no name was given, which leaves it to the operator's default.

    Raises:
        click.UsageError: An option that the policy does not take, a weight given twice, no order for ``precomputed``.
        Failure: A line of the order's file is wrong.
    """
    given: dict[str, object] = {"--k": k, "--weight": weights, "--default-weight": default_weight}
    given |= {"--order": order, "--ids": ids, "--order-name": order_name}
    kind = STRATEGIES[name] if name else None
    for option, value in given.items():
        if value not in (None, (), "") and (kind is None or kind not in _TAKEN_BY[option]):
            takers = " or ".join(f"--strategy {CATALOGUE[taker].name}" for taker in _TAKEN_BY[option])
            raise click.UsageError(f"{option} goes with {takers}" + (f", not with {name}" if name else ""))
    table = weights_of(weights, "--weight")
    default = 1.0 if default_weight is None else default_weight
    if kind is None:
        return None
    if kind is PerProviderQuota:
        return PerProviderQuota() if k is None else PerProviderQuota(k)
    if kind is TrustWeighted:
        return TrustWeighted(table, default)
    if kind is ReciprocalRankFusion:
        return ReciprocalRankFusion(60 if k is None else k, table, default)
    if kind is Precomputed:
        refs = [*(read_order(order) if order else ()), *ids]
        if not refs:
            raise click.UsageError("--strategy precomputed needs an order: --order FILE or --ids PROVIDER:FRAME_ID")
        return Precomputed(tuple((ref.provider, ref.frame_id) for ref in refs), order_name)
    if kind is ScoreDescending:
        return ScoreDescending()
    assert kind is RoundRobin
    return RoundRobin()


def weights_of(weights: Sequence[tuple[str, float]], option: str) -> dict[str, float]:
    """Weights by provider.

    Raises:
        click.UsageError: One is given twice.
    """
    table = dict(weights)
    if len(table) < len(weights):
        raise click.UsageError(f"{option} names a provider twice")
    return table


def plugin_of(name: str | None, params: Sequence[tuple[str, object]], strategy: str | None) -> PluginStrategy | None:
    """The plugin that options name; None where they name none.

    Raises:
        click.UsageError: A built-in policy is named besides, a parameter is given twice or without a plugin.
    """
    if name is None:
        if params:
            raise click.UsageError("--param goes with --plugin")
        return None
    if strategy is not None:
        raise click.UsageError("--plugin and --strategy each name a policy; give one of them")
    table = dict(params)
    if len(table) < len(params):
        raise click.UsageError("--param gives a value twice")
    return PluginStrategy(name, table)
