"""Why a frame has the rank it has, in a few words, worked out from the audit alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from broker.core.composition import AuditRow, Composition
from broker.core.frames import FrameRef


class Reasons:
    """Says of each ranked frame of one composition what put it where it is.

    Args:
        composition: Whose ranked rows will be asked about.
    """

    def __init__(self, composition: Composition) -> None:
        strategy = composition.summary.strategy
        self._params: Mapping[str, Any] = strategy.params
        self._say = _SAYINGS.get(strategy.name, _policy)
        self._copies: dict[FrameRef, list[AuditRow]] = defaultdict(list)
        for row in composition.audit:
            if row.duplicate_of is not None and row.provider != row.duplicate_of.provider:
                self._copies[row.duplicate_of].append(row)

    def __call__(self, row: AuditRow) -> str:
        """The reason of one ranked row."""
        return self._say(row, self._params, self._copies.get(FrameRef(row.provider, row.frame_id), []))


def shown_score(row: AuditRow) -> str:
    """A row's score with its scale, in 4 significant digits; empty where scores were not asked for."""
    if row.score is None:
        return ""
    try:
        value = f"{float(row.score.value):.4g}"
    except ValueError:
        value = row.score.value
    return f"{row.score.scale_id} {value}"


def _round_robin(row: AuditRow, _params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return f"round {row.local_rank}"


def _per_provider_quota(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    k = int(params["k"])
    return f"turn {(row.local_rank - 1) // k + 1} of {k} each"


def _trust_weighted(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    weight = Fraction(params["weights"].get(row.provider, params["default_weight"]))
    if not weight:
        return "weight 0: after all others"
    return f"weight {float(weight):g}: round {math.ceil(row.local_rank / weight)}"


def _reciprocal_rank_fusion(row: AuditRow, _params: Mapping[str, Any], copies: list[AuditRow]) -> str:
    return " + ".join(f"{copy.provider} #{copy.lane_place}" for copy in (row, *copies))


def _score_descending(row: AuditRow, _params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return shown_score(row) or "raw score"


def _precomputed(row: AuditRow, params: Mapping[str, Any], _copies: list[AuditRow]) -> str:
    return "named" if row.rank <= int(params["named"]) else "not named: round robin"


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
