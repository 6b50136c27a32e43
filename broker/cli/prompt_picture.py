"""The prompt as a picture: every placed frame from top to bottom, so that a person sees what the placement did."""

from __future__ import annotations

from collections.abc import Iterator

from broker.cli.output import Style
from broker.cli.text import clip, plainly, width
from broker.cli.tints import tints
from broker.core.composition import Composition, Placed

_BAR, _NARROW_BAR, _NARROW = 10, 5, 90
"""Columns of a bar of tokens: fewer on a page of fewer than so many, so that labels keep theirs."""


def prompt_lines(composition: Composition, style: Style) -> Iterator[str]:
    """The prompt from top to bottom: each frame's rank is drawn the further right the worse it is.

    Under ``FOLD`` the ranks then form a bow: the best at both edges to the left, the weakest in the middle far right.
    """
    placed, budget, glyphs = composition.placed, composition.summary.budget, style.glyphs
    colours = tints(composition)
    shift = _shifts(placed)
    wide = max([*shift.values(), 0]) + width(str(max([item.rank for item in placed], default=0)))
    wide = max(wide, len("rank: best > worst"))
    most = max([item.cost for item in placed], default=0)
    names = min(20, max([len("provider"), *(len(item.provider) for item in placed)]))
    locals_wide = max([len(f"#{item.local_rank}") for item in placed], default=0)
    bars = _BAR if style.width >= _NARROW else _NARROW_BAR
    edge = glyphs.rule * (style.width - 5)
    scale = f"best {glyphs.rule * (wide - len('rank: best > worst'))}> worst"
    if placed:
        right = f"{'provider':<{names}} {'':{locals_wide}} label"
        yield f"   {'pos':>4} {'rank: ' + scale:<{wide}}  {'tokens':>6} {'':{bars}}  {right}"
    yield f"  {glyphs.top}{edge}"
    yield f"  {glyphs.side}{'':5}{'preamble':<{wide}}  {budget.preamble:>6,}"
    for item in placed:
        rank = " " * shift[item.position] + str(item.rank)
        bar = style.bar(item.cost, most, bars)
        room = max(10, style.width - (3 + 4 + 1 + wide + 2 + 6 + 1 + bars + 2 + names + 1 + locals_wide + 1))
        label = clip(plainly(item.citation_label), room, glyphs.ellipsis)
        tint = colours.get(item.provider, "")
        provider = clip(item.provider, names, glyphs.ellipsis)
        pad = " " * (wide - width(rank))
        local = f"{f'#{item.local_rank}':<{locals_wide}}"
        yield (
            f"  {glyphs.side}{item.position:>4} {style.paint(rank, tint, bold=True)}{pad}  {item.cost:>6,} "
            f"{style.paint(bar, tint)}  {style.paint(f'{provider:<{names}}', tint)} {local} {label}".rstrip()
        )
    yield f"  {glyphs.side}{'':5}{'closing':<{wide}}  {budget.closing:>6,}"
    yield f"  {glyphs.bottom}{edge}"


def _shifts(placed: tuple[Placed, ...]) -> dict[int, int]:
    """How far right each position's rank is drawn: by its order among the placed ones, over at most 16 columns."""
    order = sorted(placed, key=lambda item: item.rank)
    step = min(2.0, 16 / max(1, len(order)))
    return {item.position: int(index * step) for index, item in enumerate(order)}
