"""Placement: where the taken frames stand in the prompt. It reads the order that it is given and nothing else.

Source of the fold: models read both ends of a long prompt best and its middle worst (Liu et al., TACL 2024,
arXiv:2307.03172).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.core.frames import FrameRef
from broker.core.request import Placement

T = TypeVar("T")


def place(ranked: Sequence[T], placement: Placement, name: Callable[[T], FrameRef]) -> list[T]:
    """Frames from the top of the prompt to its bottom.

    Args:
        ranked: Best first.
        placement: ``FOLD``: the best at both edges, see :func:`fold`; ``RANK_ORDER``; ``REVERSE_RANK``: best last;
            ``CANONICAL``: by provider and frame id, so that equal sets give equal prompts.
        name: A frame's name, for ``CANONICAL``.

    Raises:
        ValueError: It is ``AUTO``, which :func:`settled` turns into one of the others.
    """
    match placement:
        case Placement.FOLD:
            return fold(ranked)
        case Placement.RANK_ORDER:
            return list(ranked)
        case Placement.REVERSE_RANK:
            return list(reversed(ranked))
        case Placement.CANONICAL:
            return sorted(ranked, key=name)
        case Placement.AUTO:
            raise ValueError("AUTO is settled by the length of the prompt before anything is placed")


def settled(asked: Placement, tokens: int, fold_min_tokens: int) -> Placement:
    """The placement that is applied.

    The dip in the middle shows at length only, so that a short prompt has nothing to gain from a fold.

    Args:
        asked: ``AUTO`` gives ``FOLD`` or ``RANK_ORDER``; every other one is itself.
        tokens: Of the whole prompt, as its budget counts them.
        fold_min_tokens: From how many on ``AUTO`` folds.
    """
    if asked is not Placement.AUTO:
        return asked
    return Placement.FOLD if tokens >= fold_min_tokens else Placement.RANK_ORDER


def fold(ranked: Sequence[T]) -> list[T]:
    """Rank 1 at the top, 2 at the bottom, 3 below the top, 4 above the bottom: seven give 1 3 5 7 6 4 2.

    The best is first for every length.
    """
    return [*ranked[0::2], *reversed(ranked[1::2])]
