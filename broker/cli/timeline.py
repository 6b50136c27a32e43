"""Lanes over time: when each lane's first frames came and when it ended, as a picture for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from broker.cli.output import Style
from broker.cli.saved import Saved
from broker.cli.text import clean, clip, plural, width
from broker.cli.tints import tints
from broker.core.lanes import LaneEnd

NO_TIMES = "no times are known: query notes them, in what it saves, and a broker's record has none"
"""What stands in the place of a picture of times."""

_NAMES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTime:
    """How one lane went.

    Attributes:
        provider: Its name.
        source: ``ATTACHED``, ``PUSHED`` or ``INLINE``; empty: not known.
        end: How it ended.
        frames: Frames offered.
        message: Why, where it did not end well.
        asked_ms: When it was opened; None: not known.
        first_ms: When its first frames were heard of; None: none came, or not known.
        end_ms: When its end was heard of; None: not known, as of a lane that came with the request.
    """

    provider: str
    source: str
    end: LaneEnd
    frames: int
    message: str
    asked_ms: float | None
    first_ms: float | None
    end_ms: float | None


def lane_times(saved: Saved) -> list[LaneTime]:
    """Every lane's times, in lane order."""
    sources = {lane.provider: lane.source for lane in saved.opened}
    found = []
    for lane in saved.composition.summary.lanes:
        own = [timed for timed in saved.updates if timed.update.provider == lane.provider]
        found.append(
            LaneTime(
                provider=lane.provider,
                source=sources.get(lane.provider, ""),
                end=lane.end,
                frames=lane.offered,
                message=": ".join(part for part in (lane.violation, lane.message) if part),
                asked_ms=saved.accepted_ms if own else None,
                first_ms=next((timed.ms for timed in own if timed.update.frames), None),
                end_ms=next((timed.ms for timed in own if timed.update.end is not None), None),
            )
        )
    return found


def whole_ms(saved: Saved) -> float:
    """Milliseconds that a picture of a document's lanes spans; 0 where it holds no times."""
    heard = [timed.ms for timed in saved.updates]
    return max([*heard, saved.completed_ms or 0.0, saved.accepted_ms or 0.0])


def ticks(whole: float, most: int) -> list[float]:
    """Round moments from 0 to at most ``whole``, no more than ``most`` steps apart."""
    if whole <= 0:
        return [0.0]
    step: float = 10.0 ** math.floor(math.log10(whole / most))
    step = next(step * factor for factor in (1, 2, 5, 10) if whole / (step * factor) <= most)
    return [step * index for index in range(int(whole / step + 1e-9) + 1)]


def ms_text(ms: float) -> str:
    """A moment: ``0``, ``3 ms``, ``1.25 s``."""
    if ms == 0:
        return "0"
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"


def timeline_lines(saved: Saved, style: Style) -> Iterator[str]:
    """A line for each lane: waiting is light, frames coming in is solid, then how it ended."""
    lanes, whole = lane_times(saved), whole_ms(saved)
    if not whole:
        yield f"  {NO_TIMES}"
        return
    colours, glyphs = tints(saved.composition), style.glyphs
    names = min(_NAMES, max([len("provider"), *(len(lane.provider) for lane in lanes)]))
    columns = max(20, style.width - names - 46)

    def at(ms: float) -> int:
        return min(columns - 1, int(ms / whole * columns))

    for lane in lanes:
        drawn = " " * columns
        told = f"{lane.end.value}, {plural(lane.frames, 'frame')}"
        if lane.end_ms is not None:
            start, end = at(lane.asked_ms or 0.0), at(lane.end_ms)
            first = at(lane.first_ms) if lane.first_ms is not None else end + 1
            bar = "".join(glyphs.rule if place < first else glyphs.bar for place in range(start, end + 1))
            drawn = f"{'':{start}}{bar}".ljust(columns)
            told = f"{ms_text(lane.end_ms):>7}  {told}"
        elif lane.source == "INLINE":
            told = f"{'':7}  came with the request, {plural(lane.frames, 'frame')}"
        else:
            told = f"{'':7}  {told}"
        tint = "" if lane.end.answered else "red"
        name = clip(clean(lane.provider), names, glyphs.ellipsis)
        painted = style.paint(f"{name:<{names}}", colours.get(lane.provider, ""))
        yield f"  {painted} {glyphs.side}{style.paint(drawn, colours.get(lane.provider, ''))}{glyphs.side} " + (
            style.paint(told, tint, bold=bool(tint))
        )
        if lane.message:
            yield f"  {'':{names}}   {clip(clean(lane.message), style.width - names - 5, glyphs.ellipsis)}"
    axis = [" "] * (columns + 12)
    taken = -1
    for tick in ticks(whole, max(2, columns // 12)):
        label = ms_text(tick)
        place = at(tick)
        if place > taken:
            axis[place : place + width(label)] = label
            taken = place + width(label)
    yield f"  {'':{names}}  {''.join(axis).rstrip()}"
