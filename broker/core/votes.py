"""Votes: what the order before says of each candidate, for a reranker that blends it in.

An order of lanes is made of places in lanes, and says less than they do: the places say who agrees. So the votes are
the lanes' places themselves, weighed as the policy weighs lanes. An order that was not made of places, such as the
caller's own, is a single voice, and every frame's place in it is its one vote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.core.handles import Handle
from broker.core.lexical import Vote
from broker.core.strategies import PerProviderQuota, ReciprocalRankFusion, RoundRobin, Strategy, TrustWeighted


def votes_of(strategy: Strategy, handles: Sequence[Handle], order: Sequence[int]) -> list[tuple[Vote, ...]]:
    """The votes of every frame.

    Args:
        strategy: The policy that gave the order.
        handles: Every frame that it ordered.
        order: Their indices, best first: a permutation.

    Returns:
        Each handle's votes, in the handles' order. Weights are parts of the heaviest lane's, which weighs 1; a lane
        that weighs nothing has no vote.
    """
    match strategy:
        case RoundRobin() | PerProviderQuota():
            return _of_lanes(handles, lambda _: 1.0)
        case TrustWeighted(weights, default) | ReciprocalRankFusion(_, weights, default):
            return _of_lanes(handles, _relative(handles, weights, default))
        case _:
            place = {index: position for position, index in enumerate(order, 1)}
            return [(Vote(place[handle.index]),) for handle in handles]


def _of_lanes(handles: Sequence[Handle], weight: Callable[[str], float]) -> list[tuple[Vote, ...]]:
    return [
        tuple(Vote(place, weight(provider)) for provider, place in handle.lane_places if weight(provider))
        for handle in handles
    ]


def _relative(handles: Sequence[Handle], weights: Mapping[str, float], default: float) -> Callable[[str], float]:
    providers = {provider for handle in handles for provider, _ in handle.lane_places}
    own = {provider: weights.get(provider, default) for provider in providers}
    heaviest = max(own.values(), default=0.0) or 1.0
    return lambda provider: own[provider] / heaviest
