"""What may be wrong with a ranking policy's numbers."""

from __future__ import annotations

import math
from collections.abc import Collection

from broker.core.strategies import PerProviderQuota, ReciprocalRankFusion, Strategy, TrustWeighted, name_of
from broker.errors import FieldViolation

MAX_WEIGHT = 1_000_000
MAX_QUOTA = 10_000
MAX_RRF_K = 1_000_000


def weight_violations(strategy: Strategy, known: Collection[str], path: str = "strategy") -> list[FieldViolation]:
    """What is wrong with the numbers that a policy was given.

    Args:
        strategy: The policy.
        known: Providers that may be weighted: the registered ones and the lanes of the request.
        path: Field path of the policy.

    Returns:
        Violations, empty where all is well: reason ``WEIGHT`` for a weight that is not finite, negative, above
        1,000,000 or for an unknown provider, ``STRATEGY_PARAMS`` for a ``k`` out of its range.
    """
    match strategy:
        case PerProviderQuota(k):
            return _range_violations(k, 1, MAX_QUOTA, f"{path}.{name_of(strategy)}.k")
        case ReciprocalRankFusion(k):
            path = f"{path}.{name_of(strategy)}"
            return [*_range_violations(k, 0, MAX_RRF_K, f"{path}.k"), *_weights(strategy, known, path)]
        case TrustWeighted():
            return _weights(strategy, known, f"{path}.{name_of(strategy)}")
        case _:
            return []


def _range_violations(k: int, low: int, high: int, field: str) -> list[FieldViolation]:
    if low <= k <= high:
        return []
    return [FieldViolation(field, "STRATEGY_PARAMS", f"{k} is not an integer from {low:,} to {high:,}")]


def _weights(strategy: TrustWeighted | ReciprocalRankFusion, known: Collection[str], path: str) -> list[FieldViolation]:
    violations = []
    for index, (provider, weight) in enumerate(strategy.weights.items()):
        field = f"{path}.weights[{index}]"
        if provider not in known:
            message = f"{provider[:64]!a} is not a registered provider nor a lane of this request"
            violations.append(FieldViolation(f"{field}.provider_id", "WEIGHT", message))
        violations += _weight(weight, f"{field}.weight")
    return violations + _weight(strategy.default_weight, f"{path}.default_weight")


def _weight(weight: float, field: str) -> list[FieldViolation]:
    if math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT:
        return []
    return [FieldViolation(field, "WEIGHT", f"{weight} is not a finite number from 0 to {MAX_WEIGHT:,}")]
