"""Packing: walking the ranking and taking what still fits.

A frame is charged for its whole rendered block. What does not fit is left out and the walk goes on, since a later,
smaller frame may fit. The sum of costs, each rounded up on its own, is at least the cost of the joined prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.core.composition import Reason
from broker.core.entries import Entry
from broker.core.frames import content_tokens
from broker.core.request import CompositionRequest
from broker.errors import FieldViolation, InvalidArgument


@dataclass(frozen=True, slots=True)
class Overhead:
    """Tokens that a prompt takes before any frame does.

    Attributes:
        preamble: Of the text above the evidence.
        closing: Of the text below it.
    """

    preamble: int
    closing: int

    @property
    def total(self) -> int:
        """Of both."""
        return self.preamble + self.closing


def overhead_of(preamble: str, closing: str) -> Overhead:
    """What a prompt's own texts take."""
    return Overhead(content_tokens(len(preamble.encode())), content_tokens(len(closing.encode())))


def room(max_tokens: int, overhead: Overhead) -> int:
    """Tokens that are left for frames; may be 0.

    Raises:
        InvalidArgument: ``BUDGET_TOO_SMALL``: not even the prompt's own texts fit.
    """
    if max_tokens < overhead.total:
        message = (
            f"{max_tokens} tokens are too few for the prompt's own texts, which take {overhead.total} (preamble "
            f"{overhead.preamble}, closing {overhead.closing}, the restated question among them); allow more than that"
        )
        raise InvalidArgument.of([FieldViolation("max_tokens", "BUDGET_TOO_SMALL", message)])
    return max_tokens - overhead.total


def pack(ranked: Sequence[Entry], space: int, request: CompositionRequest, max_block_bytes: int) -> list[Entry]:
    """Takes frames in ranked order and drops the others, each with its reason.

    Args:
        ranked: Rendered entries, best first.
        space: Tokens for their blocks.
        request: For ``max_frames`` and ``max_frames_per_provider``.
        max_block_bytes: UTF-8 bytes of the largest block that the operator allows.

    Returns:
        The taken entries, in ranked order; their costs sum to at most ``space``.
    """
    taken: list[Entry] = []
    remaining = space
    for entry in ranked:
        block = entry.block
        assert block is not None
        if block.size > max_block_bytes:
            entry.drop(Reason.BLOCK_TOO_LARGE, f"{block.size} bytes rendered, {max_block_bytes} allowed")
        elif request.max_frames_per_provider is not None and entry.local_rank > request.max_frames_per_provider:
            detail = f"local rank {entry.local_rank}, {request.max_frames_per_provider} allowed a provider"
            entry.drop(Reason.PROVIDER_FRAME_LIMIT, detail)
        elif request.max_frames is not None and len(taken) >= request.max_frames:
            entry.drop(Reason.FRAME_LIMIT, f"{request.max_frames} frames were taken")
        elif block.cost > remaining:
            entry.remaining = remaining
            entry.drop(Reason.OVER_BUDGET, f"costs {block.cost}, {remaining} remained")
        else:
            remaining -= block.cost
            taken.append(entry)
    return taken
