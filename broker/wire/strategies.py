"""Ranking policies: messages to values and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from contextbroker.v1 import strategy_pb2 as pb

from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.json_values import read_struct, struct_message


def strategy_message(strategy: Strategy) -> pb.RankingStrategy:
    """A policy as a message, with every parameter written out.

    Raises:
        ValueError: A number or a text that the wire cannot carry.
        TypeError: A value of another type.
    """
    match strategy:
        case RoundRobin():
            return pb.RankingStrategy(round_robin=pb.RoundRobin())
        case PerProviderQuota():
            return pb.RankingStrategy(per_provider_quota=pb.PerProviderQuota(k=strategy.k))
        case TrustWeighted():
            return pb.RankingStrategy(
                trust_weighted=pb.TrustWeighted(
                    weights=weight_messages(strategy.weights), default_weight=strategy.default_weight
                )
            )
        case ReciprocalRankFusion():
            return pb.RankingStrategy(
                reciprocal_rank_fusion=pb.ReciprocalRankFusion(
                    k=strategy.k,
                    weights=weight_messages(strategy.weights),
                    default_weight=strategy.default_weight,
                )
            )
        case Precomputed():
            ids = [pb.FrameRef(provider_id=provider, frame_id=frame) for provider, frame in strategy.ids]
            return pb.RankingStrategy(precomputed=pb.Precomputed(name=strategy.name, ids=ids))
        case ScoreDescending():
            return pb.RankingStrategy(score_descending=pb.ScoreDescending())
        case PluginStrategy():
            return pb.RankingStrategy(plugin=pb.Plugin(name=strategy.name, params=struct_message(strategy.params)))
    assert_never(strategy)


def read_strategy(message: pb.RankingStrategy, path: str = "strategy") -> Strategy:
    """A policy as a value, with every default filled in.

    Args:
        message: The policy.
        path: The field that it stands in, for errors.

    Raises:
        InvalidArgument: None is named (``STRATEGY``); a provider has two weights (``WEIGHT``).
    """
    name = message.WhichOneof("strategy")
    inside = f"{path}.{name}"
    match name:
        case "round_robin":
            return RoundRobin()
        case "per_provider_quota":
            quota = message.per_provider_quota
            return PerProviderQuota(quota.k) if quota.HasField("k") else PerProviderQuota()
        case "trust_weighted":
            trust = message.trust_weighted
            weights = read_weights(trust.weights, f"{inside}.weights")
            return TrustWeighted(weights, trust.default_weight if trust.HasField("default_weight") else 1.0)
        case "reciprocal_rank_fusion":
            fusion = message.reciprocal_rank_fusion
            return ReciprocalRankFusion(
                fusion.k if fusion.HasField("k") else 60,
                read_weights(fusion.weights, f"{inside}.weights"),
                fusion.default_weight if fusion.HasField("default_weight") else 1.0,
            )
        case "precomputed":
            order = message.precomputed
            return Precomputed(tuple((ref.provider_id, ref.frame_id) for ref in order.ids), order.name)
        case "score_descending":
            return ScoreDescending()
        case "plugin":
            return PluginStrategy(message.plugin.name, read_struct(message.plugin.params))
        case None:
            text = "names no policy that this version knows; name exactly one, or leave it out for the default"
            raise InvalidArgument.of([FieldViolation(path, "STRATEGY", text)])


def weight_messages(weights: Mapping[str, float]) -> list[pb.ProviderWeight]:
    """Weights as messages."""
    return [pb.ProviderWeight(provider_id=provider, weight=weight) for provider, weight in weights.items()]


def read_weights(messages: Iterable[pb.ProviderWeight], path: str) -> dict[str, float]:
    """The inverse of :func:`weight_messages`.

    Args:
        messages: The weights.
        path: The list that they stand in, for errors.

    Raises:
        InvalidArgument: A provider has two (``WEIGHT``).
    """
    weights: dict[str, float] = {}
    for i, entry in enumerate(messages):
        if entry.provider_id in weights:
            text = f"{entry.provider_id!r} has a weight already; give each provider one"
            raise InvalidArgument.of([FieldViolation(f"{path}[{i}].provider_id", "WEIGHT", text)])
        weights[entry.provider_id] = entry.weight
    return weights
