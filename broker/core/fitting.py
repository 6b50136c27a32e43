"""Fitting: what was packed and placed, counted once more as the one text that the model reads.

Costs are counted block by block. A tokenizer is not bound by that: it may find more tokens in a whole than in its
parts. Where the whole is over the budget, the last in rank goes until it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from broker.core.audited import Reason
from broker.core.counting import BytesPerFour
from broker.core.entries import Entry
from broker.core.limits import limits_of
from broker.core.packing import pack, usable_tokens
from broker.core.placement import place, settled
from broker.core.plan import Plan
from broker.core.request import Placement


def fitted(ranked: Sequence[Entry], plan: Plan) -> tuple[list[Entry], Placement]:
    """Takes and places what fits the plan's budget; every other frame gets its reason.

    Args:
        ranked: Rendered entries, best first.
        plan: What they are of.

    Returns:
        The taken entries from the top of the prompt to its bottom, and the placement that was applied.
    """
    request = plan.request
    taken = pack(ranked, plan.space, limits_of(request, plan.policy))
    usable = usable_tokens(request.max_tokens, request.safety_factor)
    # By its bytes a whole never has more tokens than its parts; see :mod:`broker.core.packing`.
    joined = 0 if isinstance(plan.counter, BytesPerFour) else _joined(taken, plan)
    if joined > usable:
        kept = _longest(len(taken), lambda count: _joined(taken[:count], plan) <= usable)
        remaining = plan.space - sum(map(_cost, taken[:kept]))
        for entry in taken[kept:]:
            entry.remaining = remaining
            remaining -= _cost(entry)
            entry.drop(
                Reason.OVER_BUDGET, f"costs {_cost(entry)}; joined, the prompt counts {joined} tokens of {usable}"
            )
        taken = taken[:kept]
    return _ordered(taken, plan)


def _ordered(taken: Sequence[Entry], plan: Plan) -> tuple[list[Entry], Placement]:
    request = plan.request
    tokens = plan.texts.total + sum(map(_cost, taken))
    placement = settled(request.placement, tokens, request.fold_min_tokens)
    return place(taken, placement, lambda entry: entry.ref), placement


def _joined(taken: Sequence[Entry], plan: Plan) -> int:
    ordered, _ = _ordered(taken, plan)
    return plan.counter.count(plan.joined(ordered))


def _longest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number below ``most`` that holds, where all up to one do and none above it; 0 always does.

    The prompt is counted a few times, not once for each frame that goes: steps are doubled, and then halved.
    """
    above, step = most, 1
    while (found := max(0, most - step)) and not holds(found):
        above, step = found, step * 2
    while above - found > 1:
        middle = (found + above) // 2
        found, above = (middle, above) if holds(middle) else (found, middle)
    return found


_cost: Callable[[Entry], int] = attrgetter("block.cost")
