"""The ranking policies as values: what a request names, with every default filled in.

:mod:`broker.core.ranking` is what they do. A weight is given per provider; there is no parameter that a score could be
held against, in any of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import asdict


class RoundRobin(Struct, frozen=True, gc=False):
    """Every lane's best, then every lane's second."""


class PerProviderQuota(Struct, frozen=True, gc=False):
    """Every lane's top ``k``, then every lane's next ``k``; it orders, it does not truncate.

    Attributes:
        k: Frames a turn, 1 to 10,000.
    """

    k: int = 3


class TrustWeighted(Struct, frozen=True, gc=False):
    """A lane of weight w is dealt w frames a round; weight 0 is last resort, not exclusion.

    Attributes:
        weights: By provider, finite, 0 to 1,000,000.
        default_weight: Of providers not listed.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    default_weight: float = 1.0


class ReciprocalRankFusion(Struct, frozen=True, gc=False):
    """Sum of weight / (k + rank) over the lanes that hold the evidence, in exact fractions, ranks from 1.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009.

    Attributes:
        k: Added to every rank, 0 to 1,000,000.
        weights: By provider, finite, 0 to 1,000,000.
        default_weight: Of providers not listed.
    """

    k: int = 60
    weights: Mapping[str, float] = field(default_factory=dict)
    default_weight: float = 1.0


class Precomputed(Struct, frozen=True, gc=False):
    """The caller's own order; unnamed frames follow in round-robin order, repeats and unknown frames are ignored.

    Attributes:
        ids: (provider, frame id), best first.
        name: What the order is called in the audit.
    """

    ids: tuple[tuple[str, str], ...]
    name: str = ""


class ScoreDescending(Struct, frozen=True, gc=False):
    """Raw scores over all lanes. Compares numbers that share no scale, and says so wherever it is listed."""


class PluginStrategy(Struct, frozen=True, gc=False):
    """A policy that the operator installed and allowed by name.

    Attributes:
        name: Its name.
        params: Parameters that it declares, as JSON-like values; those left out take its defaults.
    """

    name: str
    params: Mapping[str, object] = field(default_factory=dict)


Strategy = (
    RoundRobin
    | PerProviderQuota
    | TrustWeighted
    | ReciprocalRankFusion
    | Precomputed
    | ScoreDescending
    | PluginStrategy
)
"""Any ranking policy."""


class Parameter(Struct, frozen=True, gc=False):
    """One parameter of a policy, as listed.

    Attributes:
        name: Its name.
        type: Type and range, for people.
        default: The value where none is given, as text; empty: required or none.
        description: What it does.
    """

    name: str
    type: str
    default: str
    description: str


class StrategyInfo(Struct, frozen=True, gc=False):
    """One policy, as listed.

    Attributes:
        name: Its name, in lower_snake_case, as on the wire.
        description: Which comparison it makes and which it refuses.
        compares_raw_scores: Whether it orders by raw scores over several providers.
        parameters: Its parameters.
    """

    name: str
    description: str
    compares_raw_scores: bool
    parameters: tuple[Parameter, ...] = ()


_WEIGHTS = (
    Parameter("weights", "provider: number 0 to 1,000,000", "", "Weight of each named provider; 0 is last resort."),
    Parameter("default_weight", "number 0 to 1,000,000", "1", "Weight of every provider not named."),
)

CATALOGUE: Mapping[type[Strategy], StrategyInfo] = {
    RoundRobin: StrategyInfo(
        "round_robin",
        "Every lane's best, then every lane's second. Compares local ranks; sees no score.",
        False,
    ),
    PerProviderQuota: StrategyInfo(
        "per_provider_quota",
        "Every lane's top k, then every lane's next k. Compares local ranks; sees no score; truncates nothing.",
        False,
        (Parameter("k", "integer 1 to 10,000", "3", "Frames a turn."),),
    ),
    TrustWeighted: StrategyInfo(
        "trust_weighted",
        "A lane of weight w is dealt w frames a round. Compares weighted local ranks; sees no score.",
        False,
        _WEIGHTS,
    ),
    ReciprocalRankFusion: StrategyInfo(
        "reciprocal_rank_fusion",
        "Sum of weight / (k + rank) over the lanes that hold the evidence. Compares sums of ranks, in exact fractions; "
        "sees no score.",
        False,
        (Parameter("k", "integer 0 to 1,000,000", "60", "Added to every rank."), *_WEIGHTS),
    ),
    Precomputed: StrategyInfo(
        "precomputed",
        "The caller's own order, then round robin. Compares nothing.",
        False,
        (
            Parameter("ids", "list of (provider, frame id)", "", "Best first."),
            Parameter("name", "text", "", "What the order is called in the audit."),
        ),
    ),
    ScoreDescending: StrategyInfo(
        "score_descending",
        "Raw scores over all lanes, negated where lower is better. Compares numbers that share no scale: the most "
        "generous scorer wins.",
        True,
    ),
}
"""Every built-in policy."""


def info_of(strategy: Strategy) -> StrategyInfo:
    """The catalogue's entry of a built-in policy."""
    return CATALOGUE[type(strategy)]


def params_of(strategy: Strategy) -> dict[str, object]:
    """A policy's parameters as JSON-like values; a plugin's as far as they were given."""
    if isinstance(strategy, PluginStrategy):
        return dict(strategy.params)
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in asdict(strategy).items()}


def name_of(strategy: Strategy) -> str:
    """A policy's name, as it is listed."""
    return strategy.name if isinstance(strategy, PluginStrategy) else info_of(strategy).name
