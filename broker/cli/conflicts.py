"""Frames that name one source region with different bytes, gathered into groups."""

from __future__ import annotations

from collections.abc import Sequence

from broker.cli.story import Story
from broker.core.frames import FrameRef


def conflicts(told: Sequence[Story]) -> list[tuple[FrameRef, ...]]:
    """Groups of frames that name one source region with different bytes, in rank order, each frame in one group."""
    links = {story.ref: story.row.conflicts for story in told if story.row.conflicts}
    groups: list[tuple[FrameRef, ...]] = []
    seen: set[FrameRef] = set()
    for start in links:
        if start in seen:
            continue
        group: dict[FrameRef, None] = {}
        waiting = [start]
        while waiting:
            ref = waiting.pop()
            if ref not in group:
                group[ref] = None
                waiting += reversed(links.get(ref, ()))
        seen.update(group)
        groups.append(tuple(group))
    return groups
