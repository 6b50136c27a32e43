"""Splitting a request's budget among its lanes: what each of them may offer.

``FULL`` grants every lane :data:`BUDGETS_GRANTED` times the budget, since duplicates and floors take their part of what
comes. ``EQUAL`` and ``WEIGHTED`` grant a lane its share of the budget and no more: what a lane leaves of its share no
other may offer. Shares are rounded up, and each is at least one token. Grants are tokens of content: headers and fences
come on top, so that many small frames of one lane may still fill a prompt, as far as the ranking puts them first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from broker.core.lanes import Grant
from broker.core.request import BudgetSplit
from broker.core.weights import MAX_WEIGHT
from broker.errors import FieldViolation

BUDGETS_GRANTED = 4
"""Budgets that a lane is granted where they are not split."""


def lane_grants(
    split: BudgetSplit, max_tokens: int, lanes: Sequence[str], weights: Mapping[str, float], most: Grant
) -> dict[str, Grant]:
    """What each lane is granted.

    Args:
        split: How the budget is split.
        max_tokens: The budget.
        lanes: Providers that are asked or that push.
        weights: Theirs, where the split is ``WEIGHTED``; a lane that is not named weighs 1.
        most: What the operator grants any lane: all of these frames, and at most these tokens.
    """
    if split is BudgetSplit.FULL:
        return dict.fromkeys(lanes, _within(most, max_tokens * BUDGETS_GRANTED))
    own = {lane: Fraction(weights.get(lane, 1.0)) for lane in lanes}
    total = sum(own.values())
    return {lane: _within(most, math.ceil(max_tokens * weight / total)) for lane, weight in own.items()}


def split_violations(split: BudgetSplit, weights: Mapping[str, float], known: Collection[str]) -> list[FieldViolation]:
    """What is wrong with the weights of a split, each ``WEIGHT``; empty where all is well.

    Args:
        split: How the budget is split; weights go with ``WEIGHTED`` alone.
        weights: By provider.
        known: Providers that may be weighted: the registered ones and those that push.
    """
    if weights and split is not BudgetSplit.WEIGHTED:
        text = f"weights go with budget_split WEIGHTED, and it is {split.value}; leave one of the two out"
        return [FieldViolation("budget_weights", "WEIGHT", text)]
    violations = []
    for index, (provider, weight) in enumerate(weights.items()):
        field = f"budget_weights[{index}]"
        if provider not in known:
            text = f"{provider[:64]!a} is neither a registered provider nor one that pushes"
            violations.append(FieldViolation(f"{field}.provider_id", "WEIGHT", text))
        if not (math.isfinite(weight) and 0 < weight <= MAX_WEIGHT):
            text = f"{weight} is not a finite number above 0, up to {MAX_WEIGHT:,}"
            violations.append(FieldViolation(f"{field}.weight", "WEIGHT", text))
    return violations


def _within(most: Grant, tokens: int) -> Grant:
    return Grant(most.max_frames, max(1, min(tokens, most.max_tokens)))
