"""The page's stories: every frame's, one below the other, and the conflicts between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.cli.conflicts import conflicts
from broker.cli.markup import Markup, block, isolated, tag
from broker.cli.story import NO_CONTENT, Story, shown
from broker.cli.text import plural
from broker.core.frames import FrameRef
from broker.core.render.escaping import unescape


def section(title: str, lead: str, *children: str | None) -> Markup:
    """A card of the page."""
    return tag("section", tag("h2", title), tag("p", lead, class_="lead"), *children)


def stories_section(told: Sequence[Story], numbers: Mapping[int, str], colours: Mapping[str, str]) -> Markup:
    """Every frame with its one line, and folded behind it its whole story and its block."""
    placed = [_story(story, numbers[i], colours) for i, story in enumerate(told) if story.placed is not None]
    others = [_story(story, numbers[i], colours) for i, story in enumerate(told) if story.placed is None]
    rest = (
        tag("details", tag("summary", f"{plural(len(others), 'frame')} left out"), *others, class_="all")
        if others
        else None
    )
    return section("Every frame's story", "By rank. Open one for the whole of it and its block.", *placed, rest)


def _story(story: Story, anchor: str, colours: Mapping[str, str]) -> Markup:
    row, placed = story.row, story.placed
    name = unescape(placed.citation_label) if placed is not None else row.frame_id or "(no id)"
    place = f"{placed.position} of {placed.total}, {plural(row.cost, 'token')}" if placed is not None else row.reason
    summary = tag(
        "summary",
        tag("span", str(row.rank or "–"), class_="rank"),
        tag("span", isolated(f"{row.provider} #{row.local_rank or row.lane_place or '?'}"), class_="who"),
        tag("span", isolated(name, class_="mono"), tag("small", isolated(story.brief)), class_="name"),
        tag("span", place, class_="fate" if placed is not None else "fate out"),
    )
    steps = [tag("li", tag("b", step.name), " ", isolated(step.text)) for step in story.steps]
    body: list[Markup] = [tag("ol", *steps)]
    if placed is not None:
        body += [tag("p", isolated(text)) for text in _sources(story)]
        body.append(block(placed.rendered or placed.frame.content or NO_CONTENT))
    return tag(
        "details",
        summary,
        tag("div", *body, class_="story", id=anchor),
        class_=f"frame {colours.get(row.provider, '')}",
    )


def _sources(story: Story) -> list[str]:
    assert story.placed is not None
    frame = story.placed.frame
    found = [
        "from " + " ".join(filter(None, (step.type, step.uri, step.range, step.method, step.by)))
        for step in frame.provenance
    ]
    if frame.recorded_at:
        found.append(f"recorded {frame.recorded_at}")
    if frame.valid_from or frame.valid_to:
        found.append(f"valid from {frame.valid_from or 'ever'} to {frame.valid_to or 'ever'}")
    return found


def conflicts_section(told: Sequence[Story], numbers: Mapping[int, str]) -> Markup | None:
    """The conflicts, each frame with a way to its story; None where there are none."""
    groups = conflicts(told)
    if not groups:
        return None
    anchors = {story.ref: (numbers[index], story) for index, story in enumerate(told) if story.row.local_rank}
    lists = [tag("ul", *(_conflict(ref, anchors) for ref in group), class_="conflict") for group in groups]
    lead = "Frames that name one region of one source with different bytes: all are kept."
    return section("Conflicts", lead, *lists)


def _conflict(ref: FrameRef, anchors: Mapping[FrameRef, tuple[str, Story]]) -> Markup:
    if ref not in anchors:
        return tag("li", isolated(shown(ref)))
    anchor, story = anchors[ref]
    placed = story.placed
    told = f"placed {placed.position}" if placed is not None else f"left out, {story.row.reason}"
    recorded = f", recorded {story.row.recorded_at}" if story.row.recorded_at else ""
    return tag("li", tag("a", isolated(shown(ref)), href=f"#{anchor}"), f" {told}{recorded}")
