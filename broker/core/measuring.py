"""Measuring: the block of every frame that is ranked, and what it costs.

Blocks are measured many at once, since most of what has to be looked at can be looked at for many frames together. How
many that are goes by their tokens: an escape takes up to sixteen times the memory of what came, and no room could help
a block that grew like that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from broker.core.counting import TokenCounter
from broker.core.entries import Entry
from broker.core.render.renderer import Renderer

_AT_ONCE = 16_384
"""Tokens of content that are measured at once, and one frame more."""


def measure(kept: Sequence[Entry], renderer: Renderer, counter: TokenCounter, most_bytes: int, space: int) -> None:
    """Gives every entry its block; one that no room could help is counted and not held.

    Args:
        kept: The entries.
        renderer: What writes blocks.
        counter: Counts their tokens.
        most_bytes: UTF-8 bytes that one block may have.
        space: Tokens that there are for all.
    """
    tokens = list(accumulate([entry.candidate.tokens for entry in kept], initial=0))
    start = 0
    while start < len(kept):
        end = bisect_right(tokens, tokens[start] + _AT_ONCE, start + 1)
        some = kept[start:end]
        for entry, block in zip(some, renderer.blocks([entry.candidate for entry in some], counter), strict=True):
            hopeless = block.size > most_bytes or block.cost > space
            entry.block = replace(block, header="", content="") if hopeless else block
        start = end
