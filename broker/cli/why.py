"""Why a frame has the rank it has, in a few words, worked out from the audit alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from broker.core.audited import AuditRow
from broker.core.composition import Composition
from broker.core.frames import FrameRef
from broker.core.ranking import dealt_in, exact_weight
from broker.core.scores import Direction


class Reasons:
    """Says of each ranked frame of one composition what put it where it is.

    Args:
        composition: Whose ranked rows will be asked about.
    """

    def __init__(self, composition: Composition) -> None:
        strategy, rerank = composition.summary.strategy, composition.summary.rerank
        self._pool = rerank.scored + rerank.unscored if rerank is not None else 0
        self._params: Mapping[str, Any] = strategy.params
        self._negated = negated(composition) if strategy.compares_raw_scores else frozenset()
        self._say = _SAYINGS.get(strategy.name, _policy)
        self._copies: dict[FrameRef, list[AuditRow]] = defaultdict(list)
        for row in composition.audit:
            if row.duplicate_of is not None and row.provider != row.duplicate_of.provider:
                self._copies[row.duplicate_of].append(row)

    def __call__(self, row: AuditRow) -> str:
        """The reason of one ranked row."""
        if row.prior_rank and row.rank <= self._pool:
            score = number(float(row.rerank_score)) if row.rerank_score else "no score"
            return f"reranked {score}, was {row.prior_rank}"
        return self.by_strategy(row)

    def by_strategy(self, row: AuditRow) -> str:
        """What gave a ranked row its rank by the strategy, whatever a reranker made of it."""
        told = self._say(row, self._params, self._copies.get(FrameRef(row.provider, row.frame_id), []))
        if row.score and row.provider in self._negated:
            return f"{row.score.scale_id} -({number(float(row.score.value))})"
        return told


def negated(composition: Composition) -> frozenset[str]:
    """Providers whose scores a policy that compares raw ones turns round first: lower is better on their scales."""
    lanes = ((lane.provider, lane.scale) for lane in composition.summary.lanes)
    return frozenset(name for name, scale in lanes if scale and scale.direction is Direction.LOWER_IS_BETTER)


def number(value: float) -> str:
    """A score for people, in at most 4 significant digits; zero has no sign."""
    return f"{value + 0.0:.4g}"


def numbers_apart(one: float, other: float) -> tuple[str, str]:
    """Two scores in as few digits as tell them apart, 4 at least."""
    for digits in range(4, 18):
        texts = f"{one + 0.0:.{digits}g}", f"{other + 0.0:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def shown_score(row: AuditRow) -> str:
    """A row's score with its scale, in 4 significant digits; empty where scores were not asked for."""
    if row.score is None:
        return ""
    try:
        value = number(float(row.score.value))
    except ValueError:
        value = row.score.value
    return f"{row.score.scale_id} {value}"


def _round_robin(row: AuditRow, _params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return f"round {row.local_rank}"


def _per_provider_quota(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    k = int(params["k"])
    return f"turn {(row.local_rank - 1) // k + 1} of {k} each"


def _trust_weighted(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    weight = exact_weight(params["weights"].get(row.provider, params["default_weight"]))
    if not weight:
        return "weight 0: after all others"
    return f"weight {float(weight):g}: round {dealt_in(row.local_rank, *weight.as_integer_ratio())}"


def _reciprocal_rank_fusion(row: AuditRow, _params: Mapping[str, Any], copies: list[AuditRow]) -> str:
    return " + ".join(f"{copy.provider} #{copy.lane_place}" for copy in (row, *copies))


def _score_descending(row: AuditRow, _params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return shown_score(row) or "raw score"


def _precomputed(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return "named" if (row.prior_rank or row.rank) <= int(params["named"]) else "not named: round robin"


def _policy(_row: AuditRow, _params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return "as the policy says"


_SAYINGS: Mapping[str, Callable[[AuditRow, Mapping[str, Any], list[AuditRow]], str]] = {
    "round_robin": _round_robin,
    "per_provider_quota": _per_provider_quota,
    "trust_weighted": _trust_weighted,
    "reciprocal_rank_fusion": _reciprocal_rank_fusion,
    "precomputed": _precomputed,
    "score_descending": _score_descending,
}
