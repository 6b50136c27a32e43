"""What a composition says of itself counted again: its blocks, labels, budget, audit and usage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields

from broker.core.checks import Check, checked
from broker.core.composition import INCLUDED, AuditRow, Citation, Composition, Placed, Reason, UsageFigures
from broker.core.frames import content_digest, content_tokens
from broker.core.lanes import Candidate
from broker.core.rebuilding import NOT_ADMITTED
from broker.core.rendering import SEAL_LENGTH, Block, render_block, render_closing, render_preamble, unique_labels
from broker.core.request import CompositionRequest, Fence

_OPENING = re.compile(rf'<frame(?P<seal> seal="[A-Z2-7]{{{SEAL_LENGTH}}}")? provider="')
_COUNTER = "bytes/4"


def recounts(composition: Composition, request: CompositionRequest | None) -> Iterator[Check]:
    """Every count, in the order of composition.

    Args:
        composition: As it was answered.
        request: What was asked, where that is known.
    """
    blocks = [_block(placed) for placed in composition.placed]
    told = "every placed block's bytes, from its frame; its digest, and its seal where content is equal"
    if all(_OPENING.match(placed.rendered) for placed in composition.placed):
        sealed = any(_seal(placed) for placed in composition.placed)
        limits = "the seals themselves take the broker's key" if sealed else ""
        yield checked("blocks", told, _blocks(composition, blocks), limits)
    else:
        yield checked("blocks", told, None, "these blocks are of a form that this version does not render")
    told = "preamble and closing, from the request"
    if request is None:
        yield checked("texts", told, None, "what was asked is not in the document")
    else:
        yield checked("texts", told, _texts(composition, request))
    yield checked("labels", "citation labels, and whose they are", _labels(composition, blocks))
    counted = composition.summary.budget.counter == _COUNTER
    limits = "" if counted else f"costs are counted by {composition.summary.budget.counter}, and taken as they are"
    yield checked("budget", "what the budget went to, from the prompt's bytes", _budget(composition, counted), limits)
    told = "one row for each frame offered; reasons, ranks, lanes and floors counted again"
    yield checked("audit", told, _audit(composition))
    told = "frames and tokens by provider, and their sums"
    limits = "content of frames left out is not in the document: tokens offered and admitted are summed, not counted"
    yield checked("usage", told, _usage(composition), limits)


def _block(placed: Placed) -> Block:
    # Without a seal: it takes the broker's key, and stands in two known places.
    candidate = Candidate(placed.provider, placed.frame, content_digest(placed.frame.content), None, 0, 0)
    return render_block(candidate, Fence.PLAIN, b"")


def _seal(placed: Placed) -> str:
    opening = _OPENING.match(placed.rendered)
    return (opening["seal"] or "") if opening is not None else ""


def _blocks(composition: Composition, blocks: list[Block]) -> Iterator[str]:
    seals: dict[str, str] = {}
    rows = {row.position: row for row in composition.audit if row.position}
    for placed, block in zip(composition.placed, blocks, strict=True):
        name, seal, digest = _name(placed), _seal(placed), content_digest(placed.frame.content)
        head, tail = f"<frame{seal} ", f"\n</frame{seal}>\n"
        bare = "<frame " + placed.rendered[len(head) :]
        if not placed.rendered.endswith(tail) or bare.removesuffix(tail) + "\n</frame>\n" != block.text:
            yield f"{name}: its block is not what its frame renders to"
        row = rows.get(placed.position)
        if placed.frame.content_digest != digest or row is None or row.content_digest != digest:
            yield f"{name}: its content is not what its digest says"
        elif (row.escaped_characters, row.neutralised_fences) != (block.escaped_characters, block.neutralised_fences):
            yield f"{name}: its row does not count what was escaped"
        if seal and seals.setdefault(digest, seal) != seal:
            yield f"{name}: its seal is not that of the same content elsewhere"
    if len(set(seals.values())) < len(seals):
        yield "one seal stands on two contents"


def _texts(composition: Composition, request: CompositionRequest) -> Iterator[str]:
    if composition.preamble != render_preamble(request):
        yield "the preamble is not what the request gives"
    if composition.closing != render_closing(request):
        yield "the closing is not what the request gives"


def _labels(composition: Composition, blocks: list[Block]) -> Iterator[str]:
    for placed, label in zip(composition.placed, unique_labels(blocks), strict=True):
        if placed.citation_label != label:
            yield f"{_name(placed)}: its label is {label!r}"
    expected = tuple(
        Citation(placed.citation_label, placed.vouchers[0], placed.position, placed.frame.content_digest)
        for placed in composition.placed
        if placed.vouchers
    )
    if composition.citations != expected:
        yield "the citations are not those of the placed frames"


def _budget(composition: Composition, counted: bool) -> Iterator[str]:
    budget = composition.summary.budget
    if counted:
        texts = ((budget.preamble, composition.preamble, "preamble"), (budget.closing, composition.closing, "closing"))
        for cost, text, name in texts:
            if cost != _tokens(text):
                yield f"the {name} costs {_tokens(text)}, not {cost}"
        for placed in composition.placed:
            if placed.cost != _tokens(placed.rendered):
                yield f"{_name(placed)} costs {_tokens(placed.rendered)}, not {placed.cost}"
        if _tokens(composition.prompt) > budget.max_tokens:
            yield f"the prompt takes {_tokens(composition.prompt)} of {budget.max_tokens} tokens"
    frames = sum(placed.cost for placed in composition.placed)
    if budget.frames != frames:
        yield f"the frames cost {frames}, not {budget.frames}"
    if budget.used > budget.max_tokens:
        yield f"{budget.used} of {budget.max_tokens} tokens were used"


def _audit(composition: Composition) -> Iterator[str]:
    summary, rows = composition.summary, composition.audit
    if summary.rows != len(rows):
        yield f"{len(rows)} rows, not {summary.rows}"
    if dict(Counter(INCLUDED if row.included else row.reason for row in rows)) != dict(summary.reasons):
        yield "the reasons are not counted right"
    for row in rows:
        if row.included != (row.position > 0) or row.included != (not row.reason):
            yield f"{row.provider}/{row.frame_id} is neither in nor out"
    included = sorted((row for row in rows if row.included), key=lambda row: row.position)
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
        found = (len(own), _admitted(own), sum(row.included for row in own))
        if found != (lane.offered, lane.admitted, lane.placed):
            yield f"{lane.provider}: {found[0]} offered, {found[1]} admitted, {found[2]} placed"
    for record in summary.floors:
        provider = record.floor.provider
        below = sum(row.reason == Reason.BELOW_FLOOR and row.provider == provider for row in rows)
        if below != record.dropped:
            yield f"{provider}: its floor dropped {below}, not {record.dropped}"


def _usage(composition: Composition) -> Iterator[str]:
    usage = composition.usage
    for field in fields(UsageFigures):
        total = sum(getattr(figures, field.name) for figures in usage.providers.values())
        if total != getattr(usage.total, field.name):
            yield f"{field.name} sums to {total}, not {getattr(usage.total, field.name)}"
    if set(usage.providers) != {lane.provider for lane in composition.summary.lanes}:
        yield "the providers are not those of the lanes"
    for provider, figures in usage.providers.items():
        own = [row for row in composition.audit if row.provider == provider]
        placed = [row for row in own if row.included]
        found = (len(own), _admitted(own), len(placed), sum(row.cost for row in placed))
        said = (figures.frames_offered, figures.frames_admitted, figures.frames_placed, figures.tokens_placed)
        if found != said:
            yield f"{provider}: {found[0]} offered, {found[1]} admitted, {found[2]} placed with {found[3]} tokens"


def _admitted(rows: Iterable[AuditRow]) -> int:
    return sum(row.reason not in NOT_ADMITTED for row in rows)


def _tokens(text: str) -> int:
    return content_tokens(len(text.encode()))


def _name(placed: Placed) -> str:
    return f"{placed.provider}/{placed.frame.id}"
