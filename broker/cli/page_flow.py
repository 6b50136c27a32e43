"""The page's main drawing: each placed frame from its lane through the ranking to its place in the prompt.

Three columns, and a line through them for every frame. In the prompt each block is as high as it is long in tokens,
and stands the further right the worse its rank: under ``FOLD`` the blocks make a bow, the best at both edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from broker.cli.markup import Markup, joined, tag, visible
from broker.cli.page_lanes import WIDTH
from broker.cli.story import Story
from broker.cli.text import clip
from broker.core.composition import Composition, Placed
from broker.core.render.escaping import unescape

_ROW = 24
_GAP_ROW = 17
_HEAD = 30
_LANE_GAP = 16
_LANE_X = 168
_RANK_X, _RANK_END = 330, 590
_PROMPT_X = 706
_BOW = 120
_LEAST, _MOST = 20.0, 120.0
_TEXT = 24.0
_COLUMN = 7.55
"""Units across of one column of a monospaced text of 12.5 units."""


def flow(
    composition: Composition, told: Sequence[Story], numbers: Mapping[int, str], colours: Mapping[str, str]
) -> Markup:
    """The drawing.

    Args:
        composition: What to draw.
        told: Its stories, by rank.
        numbers: Each story's anchor, by its place in ``told``.
        colours: Each provider's class.
    """
    anchors = {story.placed.position: numbers[index] for index, story in enumerate(told) if story.placed is not None}
    lanes, lane_parts, lane_end = _lanes(composition, colours)
    ranks, rank_parts, rank_end = _ranks(told)
    blocks, block_parts, block_end = _blocks(composition, max(lane_end, rank_end))
    parts = [_heading("lanes", 0), _heading("ranking", _RANK_X), _heading("prompt, top to bottom", _PROMPT_X)]
    parts += [*lane_parts, *rank_parts, *block_parts]
    by_position = {story.placed.position: story for story in told if story.placed is not None}
    for placed in sorted(composition.placed, key=lambda one: one.rank, reverse=True):
        story = by_position[placed.position]
        at = (lanes[placed.position], ranks[placed.position], blocks[placed.position])
        drawn = _frame(placed, story, at, composition)
        parts.append(
            tag(
                "a",
                tag("title", f"{unescape(placed.citation_label)}: {story.line}"),
                *drawn,
                href=f"#{anchors[placed.position]}",
                class_=f"block {colours.get(placed.provider, '')}",
                data_position=placed.position,
            )
        )
    height = max(lane_end, rank_end, block_end) + 6
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {height:.0f}", role="img", aria_label="From lanes to prompt")


def _heading(title: str, x: int) -> Markup:
    return tag("text", title, x=x, y=12, class_="head")


def _lanes(composition: Composition, colours: Mapping[str, str]) -> tuple[dict[int, float], list[Markup], float]:
    """Where each placed frame leaves its lane, by position."""
    at: dict[int, float] = {}
    parts = []
    top = float(_HEAD)
    for lane in composition.summary.lanes:
        own = sorted(
            (one for one in composition.placed if one.provider == lane.provider), key=lambda one: one.local_rank
        )
        if not own:
            continue
        parts.append(
            tag("text", clip(visible(lane.provider), 14, "…"), x=0, y=top + 16, class_=f"who {colours[lane.provider]}")
        )
        for one in own:
            at[one.position] = top + _ROW / 2
            top += _ROW
        top += _LANE_GAP
    return at, parts, top


def _ranks(told: Sequence[Story]) -> tuple[dict[int, float], list[Markup], float]:
    """Where each placed frame stands in the ranking, by position; frames left out between them take a thin row."""
    at: dict[int, float] = {}
    parts = []
    top = float(_HEAD)
    for included, run in groupby(
        (story for story in told if story.row.rank), key=lambda story: story.placed is not None
    ):
        members = list(run)
        if included:
            for story in members:
                at[story.row.position] = top + _ROW / 2
                top += _ROW
            continue
        first, last = members[0].row.rank, members[-1].row.rank
        ranks = f"rank {first}" if first == last else f"ranks {first}–{last}"
        reasons = ", ".join(sorted({story.row.reason for story in members}))
        told_text = clip(visible(f"{ranks} out: {reasons}"), 38, "…")
        parts.append(tag("text", told_text, x=_RANK_X + 12, y=top + 12, class_="faint"))
        top += _GAP_ROW
    return at, parts, top


def _blocks(
    composition: Composition, least_height: float
) -> tuple[dict[int, tuple[float, float, float]], list[Markup], float]:
    """Each block's left edge, top and height, by position; and the preamble and closing around them."""
    budget = composition.summary.budget
    tokens = sum(one.cost for one in composition.placed)
    count = len(composition.placed)
    room = max(least_height - _HEAD - 2 * (_TEXT + 4), _LEAST * count)
    each = room / tokens if tokens else 0.0
    order = {one.position: index for index, one in enumerate(sorted(composition.placed, key=lambda one: one.rank))}
    top = _HEAD + _TEXT + 4
    parts = [_outer("preamble", budget.preamble, float(_HEAD))]
    found: dict[int, tuple[float, float, float]] = {}
    for one in composition.placed:
        height = min(_MOST, max(_LEAST, one.cost * each))
        left = _PROMPT_X + (_BOW * order[one.position] / (count - 1) if count > 1 else 0.0)
        found[one.position] = (left, top, height)
        top += height + 3
    parts.append(_outer("closing", budget.closing, top + 1))
    return found, parts, top + _TEXT + 1


def _outer(name: str, tokens: int, top: float) -> Markup:
    width = WIDTH - _PROMPT_X
    return joined(
        tag("rect", x=_PROMPT_X, y=top, width=width, height=_TEXT - 2, rx=5, class_="text"),
        tag("text", name, x=_PROMPT_X + 10, y=top + 15, class_="soft"),
        tag("text", f"{tokens:,}", x=WIDTH - 10, y=top + 15, class_="soft end"),
    )


def _frame(
    placed: Placed,
    story: Story,
    at: tuple[float, float, tuple[float, float, float]],
    composition: Composition,
) -> list[Markup]:
    lane, rank, (left, top, height) = at
    middle = top + height / 2
    why = next((step.brief for step in story.steps if step.name == "reranked"), "") or next(
        (step.brief for step in story.steps if step.name == "ranked"), ""
    )
    cost = f"{placed.cost:,}"
    room = int((WIDTH - left - 46 - len(cost) * _COLUMN - 18) / _COLUMN)
    label = clip(visible(unescape(placed.citation_label)), max(room, 4), "…")
    wide = len(str(len(composition.audit))) * 8 + 12
    return [
        tag("path", d=_curve(_LANE_X + 6, lane, _RANK_X - 2, rank), class_="link"),
        tag("path", d=_curve(_RANK_END, rank, left - 2, middle), class_="link"),
        tag("text", f"#{placed.local_rank}", x=_LANE_X - 8, y=lane + 4, class_="soft end"),
        tag("circle", cx=_LANE_X + 3, cy=lane, r=4, class_="dot"),
        tag("rect", x=_RANK_X, y=rank - 10, width=_RANK_END - _RANK_X, height=20, rx=6, class_="chip"),
        tag("text", str(placed.rank), x=_RANK_X + wide / 2 + 2, y=rank + 4, class_="num"),
        tag("text", clip(visible(why), 31, "…"), x=_RANK_X + wide + 10, y=rank + 4, class_="soft"),
        tag("rect", x=left, y=top, width=WIDTH - left, height=height, rx=6, class_="box"),
        tag("rect", x=left, y=top, width=4, height=height, rx=2, class_="edge"),
        tag("text", str(placed.rank), x=left + 23, y=middle + 4, class_="num"),
        tag("text", label, x=left + 42, y=middle + 4, class_="mono"),
        tag("text", cost, x=WIDTH - 10, y=middle + 4, class_="soft end"),
    ]


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
