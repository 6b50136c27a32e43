"""What a composition says of itself counted again: its blocks, texts and labels, budget, audit and usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.core.audited import INCLUDED, Reason
from broker.core.checks import Check, checked
from broker.core.composition import Composition, Placed, UsageFigures
from broker.core.counting import BYTES_PER_4
from broker.core.frames import content_tokens
from broker.core.packing import usable_tokens
from broker.core.rebuilding import NOT_ADMITTED
from broker.core.request import CompositionRequest, RenderMode
from broker.core.rerendering import NO_CONTENT, rendered_again


def recounts(composition: Composition, request: CompositionRequest | None, *, content: bool = True) -> Iterator[Check]:
    """Every count, in the order of composition.

    Args:
        composition: As it was answered.
        request: What was asked, where that is known.
        content: Whether the composition holds content to be counted.
    """
    yield from rendered_again(composition, request, content=content)
    counted = composition.summary.budget.counter == BYTES_PER_4.name
    limits = "" if counted else f"costs are counted by {composition.summary.budget.counter}, and taken as they are"
    limits = limits if content else f"{NO_CONTENT}: costs are taken as they are"
    told = "what the budget went to, from the prompt's bytes"
    yield checked("budget", told, _budget(composition, counted and content), limits)
    told = "one row for each frame offered; reasons, ranks, lanes and floors counted again"
    limits = "" if content else f"{NO_CONTENT}: the tokens of frames are taken as they are"
    yield checked("audit", told, _audit(composition, content), limits)
    told = "frames and tokens by provider, and their sums"
    limits = "content of frames left out is not in the document: their tokens are summed, not counted"
    yield checked("usage", told, _usage(composition), limits)


def _budget(composition: Composition, counted: bool) -> Iterator[str]:
    budget = composition.summary.budget
    bare = composition.summary.render.mode == RenderMode.NONE.value
    if counted:
        texts = ((budget.preamble, composition.preamble, "preamble"), (budget.closing, composition.closing, "closing"))
        for cost, text, name in texts:
            if cost != _tokens(text):
                yield f"the {name} costs {_tokens(text)}, not {cost}"
        for placed in composition.placed:
            cost = _tokens(placed.frame.content if bare else placed.rendered + composition.separator)
            if placed.cost != cost:
                yield f"{_name(placed)} costs {cost}, not {placed.cost}"
        if _tokens(composition.prompt) > budget.usable:
            yield f"the prompt takes {_tokens(composition.prompt)} of {budget.usable} tokens"
    frames = sum(placed.cost for placed in composition.placed)
    if budget.frames != frames:
        yield f"the frames cost {frames}, not {budget.frames}"
    if budget.used > budget.usable:
        yield f"{budget.used} of {budget.usable} tokens were used"
    if budget.safety_factor < 1 or budget.usable != usable_tokens(budget.max_tokens, budget.safety_factor):
        yield f"{budget.max_tokens} tokens by {budget.safety_factor:.15g} do not leave {budget.usable}"


def _audit(composition: Composition, content: bool) -> Iterator[str]:
    summary, rows = composition.summary, composition.audit
    if summary.rows != len(rows):
        yield f"{len(rows)} rows, not {summary.rows}"
    if dict(Counter(INCLUDED if row.included else row.reason for row in rows)) != dict(summary.reasons):
        yield "the reasons are not counted right"
    for row in rows:
        if row.included != (row.position > 0) or row.included != (not row.reason):
            yield f"{row.provider}/{row.frame_id} is neither in nor out"
        if row.admitted != (row.reason not in NOT_ADMITTED):
            yield f"{row.provider}/{row.frame_id} is not admitted where its reason says so, or the other way round"
    included = sorted((row for row in rows if row.included), key=lambda row: row.position)
    for row, placed in zip(included, composition.placed, strict=False):
        if content and row.tokens != _tokens(placed.frame.content):
            yield f"{_name(placed)}: its content has {_tokens(placed.frame.content)} tokens, not {row.tokens}"
    taken = [(row.position, row.provider, row.frame_id, row.local_rank, row.rank, row.cost) for row in included]
    total = len(composition.placed)
    if taken != [(p.position, p.provider, p.frame.id, p.local_rank, p.rank, p.cost) for p in composition.placed]:
        yield "the rows of placed frames are not the placed frames"
    if any(p.position != place or p.total != total for place, p in enumerate(composition.placed, 1)):
        yield "the placed frames are not numbered from 1"
    ranks = sorted(row.rank for row in rows if row.rank)
    if ranks != list(range(1, len(ranks) + 1)):
        yield "the ranks are not 1 to their number"
    for lane in summary.lanes:
        own = [row for row in rows if row.provider == lane.provider]
        found = (len(own), sum(row.admitted for row in own), sum(row.included for row in own))
        if found != (lane.offered, lane.admitted, lane.placed):
            yield f"{lane.provider}: {found[0]} offered, {found[1]} admitted, {found[2]} placed"
    for record in summary.floors:
        provider = record.floor.provider
        below = sum(row.reason == Reason.BELOW_FLOOR and row.provider == provider for row in rows)
        if below != record.dropped:
            yield f"{provider}: its floor dropped {below}, not {record.dropped}"


def _usage(composition: Composition) -> Iterator[str]:
    usage = composition.usage
    for name in UsageFigures.__struct_fields__:
        total = sum(getattr(figures, name) for figures in usage.providers.values())
        if total != getattr(usage.total, name):
            yield f"{name} sums to {total}, not {getattr(usage.total, name)}"
    if set(usage.providers) != {lane.provider for lane in composition.summary.lanes}:
        yield "the providers are not those of the lanes"
    for provider, figures in usage.providers.items():
        own = [row for row in composition.audit if row.provider == provider]
        placed = [row for row in own if row.included]
        admitted = [row for row in own if row.admitted]
        found = UsageFigures(
            frames_offered=len(own),
            frames_admitted=len(admitted),
            frames_placed=len(placed),
            tokens_offered=sum(row.tokens for row in own),
            tokens_admitted=sum(row.tokens for row in admitted),
            tokens_placed=sum(row.cost for row in placed),
        )
        if found != figures:
            yield (
                f"{provider}: {found.frames_offered} offered with {found.tokens_offered} tokens, "
                f"{found.frames_admitted} admitted with {found.tokens_admitted}, {found.frames_placed} placed with "
                f"{found.tokens_placed}"
            )


def _tokens(text: str) -> int:
    return content_tokens(len(text.encode()))


def _name(placed: Placed) -> str:
    return f"{placed.provider}/{placed.frame.id}"
