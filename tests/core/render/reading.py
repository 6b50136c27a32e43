"""Readers of rendered prompts that know a mode's format and nothing of its renderer: a model's or a program's view."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from broker.core.composition import Composition
from broker.core.request import Fence, RenderMode
from tests.core.building import read_blocks, turned_back


@dataclass(frozen=True)
class Piece:
    """A frame as a reader of the prompt finds it; None: the mode does not show it."""

    label: str
    provider: str
    frame_id: str
    kind: str | None
    title: str | None
    content: str
    seal: str | None = None


_HEADING = re.compile(r'"([^"]*)" provider="([^"]*)" id="([^"]*)" kind="([^"]*)"')
_INFO = re.compile(r"text(?: seal=([A-Z2-7]{10}))?")


def read_prompt(composition: Composition) -> list[Piece]:
    """The pieces of a composition's prompt, whatever its mode.

    Raises:
        ValueError: The prompt is not of the form that the mode promises.
    """
    mode = RenderMode(composition.summary.render.mode)
    match mode:
        case RenderMode.FENCED:
            return read_fenced(composition)
        case RenderMode.MARKDOWN:
            return read_markdown(composition)
        case RenderMode.JSON:
            return read_documents(composition.prompt)
        case RenderMode.NONE:
            if composition.prompt:
                raise ValueError("something was rendered")
            return []


def read_fenced(composition: Composition) -> list[Piece]:
    """The blocks between preamble and closing."""
    evidence = composition.prompt.removeprefix(composition.preamble).removesuffix(composition.closing)
    return [
        Piece(one.label, one.provider, one.frame_id, one.kind, None, one.content, one.seal)
        for one in read_blocks(evidence)
    ]


def read_markdown(composition: Composition) -> list[Piece]:
    """The sections of a whole prompt, as a CommonMark parser finds them; line ends come as it gives them."""
    tokens = MarkdownIt("commonmark").enable(["strikethrough", "table"]).parse(composition.prompt)
    kinds = Counter(token.type for token in tokens)
    if set(kinds) - {"heading_open", "heading_close", "inline", "fence", "paragraph_open", "paragraph_close"}:
        raise ValueError(f"other things than headings, code blocks and paragraphs: {kinds}")
    render = composition.summary.render
    if kinds["fence"] != kinds["heading_open"] + 2 * render.restated_question:
        raise ValueError(f"not one code block a heading: {kinds}")
    return [
        _section(*tokens[index + 1 : index + 6], sealed=render.fence == Fence.SEALED.value)
        for index, token in enumerate(tokens)
        if token.type == "heading_open"
    ]


def _section(heading: Token, _close: Token, code: Token, _open: Token, end: Token, *, sealed: bool) -> Piece:
    children = heading.children or []
    # A backslash makes a token of its own out of the character behind it.
    if {child.type for child in children} - {"text", "text_special"}:
        raise ValueError(f"a heading with more than text: {heading.content!r}")
    said = _HEADING.fullmatch("".join(child.content for child in children))
    info = _INFO.fullmatch(code.info)
    if code.type != "fence" or said is None or info is None or sealed != (info[1] is not None):
        raise ValueError(f"no section: {heading.content!r}, {code.info!r}")
    if sealed and end.content != f"End of seal={info[1]}":
        raise ValueError(f"a section ends otherwise: {end.content!r}")
    label, provider, frame_id, kind = map(turned_back, said.groups())
    return Piece(label, provider, frame_id, kind, None, turned_back(code.content.removesuffix("\n")), info[1])


def read_documents(prompt: str) -> list[Piece]:
    """The documents of a JSON array; the last `` (`` of a citation begins its name."""
    documents = json.loads(prompt)
    if any(list(one) != ["title", "text", "citation"] for one in documents):
        raise ValueError("a document has other members")
    pieces = []
    for one in documents:
        label, _, name = one["citation"].rpartition(" (")
        provider, _, frame_id = name.removesuffix(")").partition("/")
        pieces.append(
            Piece(
                turned_back(label),
                provider,
                turned_back(frame_id),
                None,
                turned_back(one["title"]),
                turned_back(one["text"]),
            )
        )
    return pieces
