"""The page's drawings of lanes: how they went over time, and what became of each frame that they offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.cli.markup import Markup, joined, tag, visible
from broker.cli.saved import Saved
from broker.cli.story import Story
from broker.cli.text import clip, plural
from broker.cli.timeline import LaneTime, lane_times, ms_text, ticks, whole_ms
from broker.core.audited import Reason

WIDTH = 1120
"""Units across every drawing."""

_NAME, _RIGHT = 150, 240
_LANE = 34
_CELL, _STEP = 9, 12
_BAD = frozenset({Reason.INVALID, Reason.LANE_REFUSED})


def timeline(saved: Saved, colours: Mapping[str, str]) -> Markup | None:
    """Each lane from when it was opened to when it ended; None where the document holds no times."""
    whole = whole_ms(saved)
    if not whole:
        return None
    lanes = lane_times(saved)
    span = WIDTH - _NAME - _RIGHT
    height = len(lanes) * _LANE + 46

    def x(ms: float) -> float:
        return _NAME + span * ms / whole

    floor = height - 28
    grid = [
        joined(
            tag("line", x1=x(tick), y1=18, x2=x(tick), y2=floor, class_="grid"),
            tag("text", ms_text(tick), x=x(tick), y=height - 10, class_="faint mid"),
        )
        for tick in ticks(whole, 8)
    ]
    marks = []
    if saved.completed_ms is not None:
        marks.append(tag("line", x1=x(saved.completed_ms), y1=18, x2=x(saved.completed_ms), y2=floor, class_="axis"))
        told = f"whole after {ms_text(saved.completed_ms)}"
        marks.append(tag("text", told, x=x(saved.completed_ms), y=12, class_="faint end"))
    rows = [_lane_row(lane, 18 + index * _LANE, x, colours) for index, lane in enumerate(lanes)]
    return tag("svg", *grid, *marks, *rows, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label="Lanes over time")


def _lane_row(lane: LaneTime, top: int, x: object, colours: Mapping[str, str]) -> Markup:
    assert callable(x)
    middle = top + _LANE / 2
    parts = [tag("text", clip(visible(lane.provider), 19, "…"), x=0, y=middle + 4, class_="who")]
    right = WIDTH - _RIGHT + 18
    told = f"{lane.end.value}, {plural(lane.frames, 'frame')}"
    if lane.end_ms is not None:
        start, end = x(lane.asked_ms or 0.0), x(lane.end_ms)
        first = x(lane.first_ms) if lane.first_ms is not None else end
        parts.append(tag("rect", x=start, y=middle - 3, width=max(first - start, 1.0), height=6, rx=3, class_="wait"))
        if lane.first_ms is not None:
            parts.append(
                tag("rect", x=first, y=middle - 7, width=max(end - first, 3.0), height=14, rx=4, class_="come")
            )
        parts.append(tag("circle", cx=end, cy=middle, r=5.5, class_="done" if lane.end.answered else "stop"))
        parts.append(tag("text", ms_text(lane.end_ms), x=right + 50, y=middle + 4, class_="soft end"))
    elif lane.source == "INLINE":
        parts.append(tag("circle", cx=x(0.0), cy=middle, r=5.5, class_="done"))
        parts.append(tag("text", "came with the request", x=x(0.0) + 14, y=middle + 4, class_="faint"))
    class_ = "soft" if lane.end.answered else "bad"
    parts.append(tag("text", told, x=right + 62, y=middle + 4, class_=class_))
    title = f"{lane.provider}: {told}" + (f", {lane.message}" if lane.message else "")
    return tag("g", tag("title", title), *parts, class_=colours.get(lane.provider, ""))


def fates(told: Sequence[Story], numbers: Mapping[int, str], colours: Mapping[str, str]) -> Markup:
    """A cell for every frame offered, lane by lane in its provider's own order; each leads to its story.

    Args:
        told: The stories, in any order.
        numbers: Each story's anchor, by its place in ``told``.
        colours: Each provider's class.
    """
    by_provider: dict[str, list[tuple[Story, str]]] = {provider: [] for provider in colours}
    for index, story in enumerate(told):
        by_provider.setdefault(story.row.provider, []).append((story, numbers[index]))
    across = (WIDTH - _NAME - 130) // _STEP
    top, parts = 0, []
    for provider, own in by_provider.items():
        own.sort(
            key=lambda one: (not one[0].row.lane_place, one[0].row.lane_place, one[0].row.duplicate_of is not None)
        )
        lines = max(1, -(-len(own) // across))
        cells = [
            tag(
                "a",
                tag(
                    "rect",
                    tag("title", f"{story.row.frame_id}: {story.line}"),
                    x=_NAME + index % across * _STEP,
                    y=top + 4 + index // across * _STEP,
                    width=_CELL,
                    height=_CELL,
                    rx=2,
                    class_=f"cell {_fate(story)}".rstrip(),
                ),
                href=f"#{anchor}",
            )
            for index, (story, anchor) in enumerate(own)
        ]
        placed = sum(story.placed is not None for story, _ in own)
        name = tag("text", clip(visible(provider), 19, "…"), x=0, y=top + 13, class_="who")
        count = tag("text", f"{placed:,} of {len(own):,} placed", x=WIDTH, y=top + 13, class_="soft end")
        parts.append(tag("g", name, *cells, count, class_=colours.get(provider, "")))
        top += lines * _STEP + 14
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {max(top, 1)}", role="img", aria_label="What became of every frame")


def _fate(story: Story) -> str:
    if story.placed is not None:
        return "in"
    if story.row.duplicate_of is not None:
        return "copy"
    return "bad" if story.row.reason in _BAD else ""
