"""What a composition rendered, rendered again: its blocks, its own texts and its labels.

A seal takes the broker's key. It is read from the block and put into the one that is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.checks import Check, checked
from broker.core.composition import Citation, Composition, Placed
from broker.core.counting import BYTES_PER_4
from broker.core.frames import content_digest
from broker.core.lanes import Candidate
from broker.core.render.labels import unique_labels
from broker.core.render.modes import render_record, renderer_of
from broker.core.render.renderer import Block, Renderer
from broker.core.render.seals import Sealer
from broker.core.request import CompositionRequest, Fence, RenderMode

NO_CONTENT = "no content was kept"
"""Why what takes content is not worked out again."""


def rendered_again(
    composition: Composition, request: CompositionRequest | None, *, content: bool = True
) -> Iterator[Check]:
    """Blocks, the texts around them, and labels.

    Args:
        composition: As it was answered.
        request: What was asked, where that is known.
        content: Whether the composition holds any of these.
    """
    told = "every placed block's bytes, from its frame; its digest, and its seal where content is equal"
    labels = "citation labels, and whose they are"
    mode = RenderMode.__members__.get(composition.summary.render.mode)
    if mode is None or not content:
        unknown = "these blocks are of a form that this version does not render" if content else NO_CONTENT
        yield checked("blocks", told, None, unknown)
        yield checked("texts", _TEXTS, None, unknown)
        yield checked("labels", labels, None, unknown)
        return
    sealed = composition.summary.render.fence == Fence.SEALED.value
    seals = [_renderer(mode, sealed).seal_in(placed.rendered) for placed in composition.placed]
    renderers = [_renderer(mode, sealed, seal) for seal in seals]
    blocks = [_block(placed, renderer) for placed, renderer in zip(composition.placed, renderers, strict=True)]
    texts = [renderer.texts([block], [""])[0] for renderer, block in zip(renderers, blocks, strict=True)]
    limits = "the seals themselves take the broker's key" if any(seals) else ""
    yield checked("blocks", told, _blocks(composition, blocks, texts, seals), limits)
    if request is None:
        yield checked("texts", _TEXTS, None, "what was asked is not in the document")
    else:
        yield checked("texts", _TEXTS, _texts(composition, request, _renderer(mode, sealed)))
    yield checked("labels", labels, _labels(composition, blocks))


_TEXTS = "preamble, separator and closing, from the request"


def _renderer(mode: RenderMode, sealed: bool, seal: str = "") -> Renderer:
    sealer: Sealer | None = (lambda _: seal) if sealed else None
    return renderer_of(mode, sealer)


def _block(placed: Placed, renderer: Renderer) -> Block:
    candidate = Candidate(placed.provider, placed.frame, content_digest(placed.frame.content), None, 0, 0)
    return renderer.blocks([candidate], BYTES_PER_4)[0]


def _blocks(composition: Composition, blocks: list[Block], texts: list[str], seals: list[str]) -> Iterator[str]:
    seal_of: dict[str, str] = {}
    rows = {row.position: row for row in composition.audit if row.position}
    for placed, block, text, seal in zip(composition.placed, blocks, texts, seals, strict=True):
        name, digest = _name(placed), content_digest(placed.frame.content)
        if placed.rendered != text:
            yield f"{name}: its block is not what its frame renders to"
        row = rows.get(placed.position)
        if placed.frame.content_digest != digest or row is None or row.content_digest != digest:
            yield f"{name}: its content is not what its digest says"
            continue
        found = (row.escaped_characters, row.neutralised_fences, row.role_tokens)
        if found != (block.escaped_characters, block.neutralised_fences, block.role_tokens):
            yield f"{name}: its row does not count what was escaped"
        if seal and seal_of.setdefault(digest, seal) != seal:
            yield f"{name}: its seal is not that of the same content elsewhere"
    if len(set(seal_of.values())) < len(seal_of):
        yield "one seal stands on two contents"


def _texts(composition: Composition, request: CompositionRequest, renderer: Renderer) -> Iterator[str]:
    if composition.preamble != renderer.preamble(request.question):
        yield "the preamble is not what the request gives"
    if composition.closing != renderer.closing(request.question):
        yield "the closing is not what the request gives"
    if composition.separator != renderer.separator:
        yield "the separator is not that of the mode"
    if composition.summary.render != render_record(request):
        yield "the mode is not what the request gives"


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


def _name(placed: Placed) -> str:
    return f"{placed.provider}/{placed.frame.id}"
