"""Two compositions of one question side by side: which provider a policy serves, and which it starves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.cli.output import Style
from broker.cli.text import clip, listed, plural
from broker.cli.tints import tints
from broker.cli.why import negated, shown_score
from broker.core.composition import Composition

_NAMES = 20


@dataclass(frozen=True, slots=True)
class Share:
    """What one provider got under both policies.

    Attributes:
        provider: Its name.
        offered: Frames that it offered in the first composition.
        frames: Frames placed, in the first and in the second.
        tokens: Tokens of their blocks, in the first and in the second.
    """

    provider: str
    offered: int
    frames: tuple[int, int]
    tokens: tuple[int, int]

    @property
    def starved(self) -> bool:
        """Whether the first policy places nothing where the second places something."""
        return self.frames[0] == 0 < self.frames[1]

    @property
    def squeezed(self) -> bool:
        """Whether the first policy places something, and less than half the tokens that the second does."""
        return self.frames[0] > 0 and 2 * self.tokens[0] < self.tokens[1]


def shares(first: Composition, second: Composition) -> list[Share]:
    """Every provider's share under both, in lane order."""
    names = dict.fromkeys(lane.provider for one in (first, second) for lane in one.summary.lanes)
    return [_share(name, first, second) for name in names]


def _share(provider: str, first: Composition, second: Composition) -> Share:
    one, two = (composition.usage.providers.get(provider) for composition in (first, second))
    return Share(
        provider,
        one.frames_offered if one else 0,
        (one.frames_placed if one else 0, two.frames_placed if two else 0),
        (one.tokens_placed if one else 0, two.tokens_placed if two else 0),
    )


def comparison_lines(first: Composition, second: Composition, style: Style) -> Iterator[str]:
    """A table of every provider's frames and tokens under both, with bars of its share of the placed tokens."""
    both = shares(first, second)
    colours = tints(first)
    names = min(_NAMES, max([len("provider"), *(len(share.provider) for share in both)]))
    totals = [sum(share.tokens[i] for share in both) for i in (0, 1)]
    bars = max(6, min(20, (style.width - names - 52) // 2))
    wide = 6 + 2 + 6 + 2 + bars
    titles = "   ".join(
        f"{clip(one.summary.strategy.name, wide, style.glyphs.ellipsis):<{wide}}" for one in (first, second)
    )
    left = " " * (2 + names + 2 + 7 + 3)
    yield style.paint(f"{left}{titles}".rstrip(), bold=True)
    part = f"{'frames':>6}  {'tokens':>6}  {'share':<{bars}}"
    yield f"  {'provider':<{names}}  {'offered':>7}   {part}   {part}".rstrip()
    for share in both:
        tint = colours.get(share.provider, "")
        drawn = [style.paint(style.bar(share.tokens[i], totals[i], bars), tint) for i in (0, 1)]
        sides = "   ".join(f"{share.frames[i]:>6,}  {share.tokens[i]:>6,}  {drawn[i]}" for i in (0, 1))
        name = style.paint(f"{clip(share.provider, names, style.glyphs.ellipsis):<{names}}", tint)
        yield f"  {name}  {share.offered:>7,}   {sides}".rstrip()
    frames = [sum(share.frames[i] for share in both) for i in (0, 1)]
    sides = "   ".join(f"{frames[i]:>6,}  {totals[i]:>6,}  {'':{bars}}" for i in (0, 1))
    yield f"  {'in all':<{names}}  {sum(share.offered for share in both):>7,}   {sides}".rstrip()


def verdict_lines(first: Composition, second: Composition) -> Iterator[str]:
    """What the table says, in plain words: who is starved or squeezed under the first policy, or that no one is.

    Args:
        first: The composition whose policy is judged, such as ``score_descending``.
        second: The one that it is held against.
    """
    both = shares(first, second)
    one, two = first.summary.strategy.name, second.summary.strategy.name
    served = [share.provider for share in both if any(share.frames)]
    if len(served) < 2:
        found = f"only {served[0]} had anything to place" if served else "no provider had anything to place"
        yield f"Nothing to compare: {found}. Ask a question that more of them can answer."
        return
    starved = [share for share in both if share.starved]
    squeezed = [share for share in both if share.squeezed]
    for share in starved:
        yield (
            f"{one} STARVES {share.provider}: of {plural(share.offered, 'frame')} offered it places none; "
            f"{two} places {share.frames[1]:,}."
        )
    winners = [share for share in both if share.tokens[0] > share.tokens[1]]
    yield from _why_starved(first, starved, winners)
    for share in squeezed:
        yield (
            f"{one} squeezes {share.provider}: {plural(share.tokens[0], 'token')} in "
            f"{plural(share.frames[0], 'frame')}, where {two} gives it {share.tokens[1]:,} in {share.frames[1]:,}."
        )
    if starved or squeezed:
        if winners:
            yield f"The room goes to {listed([share.provider for share in winners])}."
    else:
        yield (
            f"{one} starves no provider here: each one gets at least half of the tokens that {two} gives it. "
            "That is luck of this question: nothing keeps their scales comparable for the next."
        )


def _why_starved(first: Composition, starved: list[Share], winners: list[Share]) -> Iterator[str]:
    """Each starved provider's best score beside that of a winner, where the audit was asked for scores."""
    best = {row.provider: shown_score(row) for row in first.audit if row.lane_place == 1}
    turned = negated(first)
    told = {name: f"{score}{' (lower is better, so it is negated)' * (name in turned)}" for name, score in best.items()}
    winner = next((share.provider for share in winners if best.get(share.provider)), "")
    for share in starved:
        if winner and best.get(share.provider):
            yield (
                f"The best of {share.provider} has {told[share.provider]}, the best of {winner} {told[winner]}: two "
                "scales, and which number is larger says nothing of which frame is better."
            )


def comparison_record(first: Composition, second: Composition) -> dict[str, Any]:
    """The comparison as one JSON record: ``event: comparison``."""
    names = (first.summary.strategy.name, second.summary.strategy.name)
    both = shares(first, second)
    return {
        "event": "comparison",
        "strategies": list(names),
        "providers": [
            {
                "provider": share.provider,
                "offered": share.offered,
                "placed": [
                    {"strategy": names[i], "frames": share.frames[i], "tokens": share.tokens[i]} for i in (0, 1)
                ],
                "starved": share.starved,
                "squeezed": share.squeezed,
            }
            for share in both
        ],
        "starved": [share.provider for share in both if share.starved],
    }
