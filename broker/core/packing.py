"""Packing: walking the ranking and taking what still fits.

A frame is charged for its whole rendered block. What does not fit is left out and the walk goes on, since a later,
smaller frame may fit. By ``bytes/4`` the sum of costs, each rounded up on its own, is at least the cost of the joined
prompt; a tokenizer may count more across a joint, so that what was packed is counted once more as one text
(:mod:`broker.core.fitting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, inf

from msgspec import Struct

from broker.core.audited import LimitsRecord, Reason
from broker.core.counting import TokenCounter
from broker.core.entries import Entry
from broker.core.request import CompositionRequest
from broker.core.sources import Sources
from broker.errors import FieldViolation, InvalidArgument


class Overhead(Struct, frozen=True, gc=False):
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


def overhead_of(preamble: str, closing: str, counter: TokenCounter) -> Overhead:
    """What a prompt's own texts take, as two texts or as one, whichever is more."""
    above = counter.count(preamble)
    return Overhead(above, max(counter.count(closing), counter.count(preamble + closing) - above))


def usable_tokens(max_tokens: int, safety_factor: float) -> int:
    """Tokens that there are to fill: ``max_tokens`` by ``safety_factor`` (above 0) as it is written, rounded down."""
    if safety_factor == 1:
        return max_tokens
    # The double nearest to 1.1 is a little more than 1.1: by its own value 1,100 tokens would leave 999.
    return floor(max_tokens / Fraction(repr(safety_factor)))


def room(request: CompositionRequest, overhead: Overhead) -> int:
    """Tokens that are left for frames; may be 0.

    Raises:
        InvalidArgument: ``BUDGET_TOO_SMALL``: not even the prompt's own texts fit.
    """
    usable = usable_tokens(request.max_tokens, request.safety_factor)
    if usable < overhead.total:
        divided = request.safety_factor != 1
        by = f" by the safety factor {request.safety_factor:.15g} leave {usable}, which" if divided else ""
        message = (
            f"{request.max_tokens} tokens{by} are too few for the prompt's own texts, which take {overhead.total} "
            f"(preamble {overhead.preamble}, closing {overhead.closing}, a restated question among them); allow more "
            f"than {'that times the factor' if divided else 'that'}"
        )
        raise InvalidArgument.of([FieldViolation("max_tokens", "BUDGET_TOO_SMALL", message)])
    return usable - overhead.total


def pack(ranked: Sequence[Entry], space: int, limits: LimitsRecord) -> list[Entry]:
    """Takes frames in ranked order and drops the others, each with its reason.

    A frame whose source has as many taken as it may waits until all others had their turn; then those that waited have
    theirs, in ranked order, where room remains.

    Args:
        ranked: Rendered entries, best first.
        space: Tokens for their blocks.
        limits: What else bounds them.

    Returns:
        The taken entries, in ranked order; their costs sum to at most ``space``.
    """
    sources = None if limits.max_frames_per_source is None else Sources(limits.max_frames_per_source)
    left = _Left(space, inf if limits.max_frames is None else limits.max_frames)
    waiting = _take(ranked, left, limits, sources)
    if sources is not None:
        _take(waiting, left, limits, None)
        for entry in waiting:
            if entry.reason:
                entry.drop(Reason.SOURCE_FRAME_LIMIT, f"{sources.told(entry)}; afterwards: {entry.detail}")
                entry.remaining = 0
    return [entry for entry in ranked if not entry.reason]


class _Left(Struct, gc=False):
    """What there is still room for."""

    tokens: int
    frames: float


def _take(entries: Sequence[Entry], left: _Left, limits: LimitsRecord, sources: Sources | None) -> list[Entry]:
    """Takes what fits and drops what does not, but for what has to wait for its source, which it gives back."""
    most_bytes = inf if limits.max_block_bytes is None else limits.max_block_bytes
    most_of_provider = inf if limits.max_frames_per_provider is None else limits.max_frames_per_provider
    tokens, frames = left.tokens, left.frames
    waiting = []
    for entry in entries:
        block = entry.block
        assert block is not None
        # First what no room could help.
        if block.size > most_bytes:
            entry.drop(Reason.BLOCK_TOO_LARGE, f"{block.size} bytes rendered, {most_bytes} allowed")
        elif entry.local_rank > most_of_provider:
            detail = f"local rank {entry.local_rank}, {most_of_provider} allowed a provider"
            entry.drop(Reason.PROVIDER_FRAME_LIMIT, detail)
        elif frames <= 0:
            entry.drop(Reason.FRAME_LIMIT, f"{limits.max_frames} frames were taken")
        elif sources is not None and sources.waits(entry):
            waiting.append(entry)
        elif block.cost > tokens:
            entry.remaining = tokens
            entry.drop(Reason.OVER_BUDGET, f"costs {block.cost}, {tokens} remained")
        else:
            tokens -= block.cost
            frames -= 1
            if sources is not None:
                sources.took(entry)
    left.tokens, left.frames = tokens, frames
    return waiting
