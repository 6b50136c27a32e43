"""What every mode of rendering gives: a text above the evidence, a block a frame, a text below it.

A block is measured first, for every frame that is ranked, and written for those that are placed.

Content is quoted, never instruction (CGP R3). The same frame under the same key renders to the same bytes in every
composition of a mode, whatever else is placed, so that a prompt cache hits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from broker.core.counting import BytesPerFour, TokenCounter
from broker.core.frames import content_tokens
from broker.core.lanes import Candidate
from broker.core.render.escaping import Escaped, escape_content, escape_header
from broker.core.render.role_tokens import role_tokens


class Block(Struct, frozen=True, gc=False):
    """A frame as it is to stand in a prompt.

    Attributes:
        size: UTF-8 bytes of the whole block; where nothing is rendered, of the content.
        cost: Tokens of it and of the separator behind it; where nothing is rendered, of the content.
        label: What it is cited by: the frame's own citation label, or else its title, as the block shows it.
        name: Its provider and id, as the block shows them: ``provider/id``.
        escaped_characters: Hidden characters made visible.
        neutralised_fences: Fence look-alikes neutralised.
        role_tokens: Role tokens of common chat formats in the content, which stand in the block as data.
        header: What the mode writes above the content.
        content: The content as the block shows it: the frame's own string where nothing in it is escaped.
    """

    size: int
    cost: int
    label: str = ""
    name: str = ""
    escaped_characters: int = 0
    neutralised_fences: int = 0
    role_tokens: int = 0
    header: str = ""
    content: str = ""


class Renderer(Protocol):
    """One mode, under one key.

    Attributes:
        separator: What stands between two blocks.
    """

    separator: str

    def preamble(self, question: str) -> str:
        """The text above the evidence, with the question; empty: it is not restated."""

    def closing(self, question: str) -> str:
        """The text below the evidence, likewise."""

    def block(self, candidate: Candidate, counter: TokenCounter) -> Block:
        """A frame's block, and what it costs by a counter."""

    def text(self, block: Block, digest: str) -> str:
        """A block of this mode as it is written, for a frame whose content has this digest."""

    def seal_in(self, text: str) -> str:
        """The seal that a block of this mode bears; empty: none."""


class Header(Struct, frozen=True, gc=False):
    """What a block says of its frame, each value escaped to stand between quotes on one line.

    Attributes:
        provider: Whose it is.
        frame_id: The frame's id.
        kind: The frame's kind.
        label: Its own citation label, or its title where that is blank.
    """

    provider: Escaped
    frame_id: Escaped
    kind: Escaped
    label: Escaped

    @property
    def name(self) -> str:
        """``provider/id``."""
        return f"{self.provider.text}/{self.frame_id.text}"


def header_of(candidate: Candidate) -> Header:
    """What a block says of a frame."""
    frame = candidate.frame
    label = frame.citation_label
    if not label or label.isspace():
        label = frame.title
    return Header(_again(candidate.provider), escape_header(frame.id), _again(frame.kind), escape_header(label))


@lru_cache(maxsize=1024)
def _again(text: str) -> Escaped:
    """What :func:`escape_header` gives, for what many frames have in common."""
    return escape_header(text)


def block_of(
    renderer: Renderer,
    candidate: Candidate,
    header: Header,
    written: str,
    content: Escaped,
    size: int,
    counter: TokenCounter,
) -> Block:
    """A block that shows every value of its header.

    Args:
        renderer: What writes it.
        candidate: The frame.
        header: What the block says of it.
        written: The header as the mode writes it.
        content: The frame's content as the block shows it.
        size: UTF-8 bytes of the whole block.
        counter: Counts its tokens.
    """
    provider, frame_id, kind, label = header.provider, header.frame_id, header.kind, header.label
    block = Block(
        size=size,
        cost=content_tokens(size),
        label=label.text,
        name=f"{provider.text}/{frame_id.text}",
        escaped_characters=provider.hidden + frame_id.hidden + kind.hidden + label.hidden + content.hidden,
        neutralised_fences=provider.fences + frame_id.fences + kind.fences + label.fences + content.fences,
        role_tokens=role_tokens(candidate.frame.content),
        header=written,
        content=content.text,
    )
    return costed(renderer, block, counter, candidate.digest)


def costed(renderer: Renderer, block: Block, counter: TokenCounter, digest: str) -> Block:
    """A block whose cost is that of its size, with what it costs by a counter."""
    if isinstance(counter, BytesPerFour):
        return block
    return replace(block, cost=counter.count(renderer.text(block, digest) + renderer.separator))


def restated(question: str) -> str:
    """The caller's question as it may stand in a prompt; empty where it is blank."""
    return escape_content(question).text if question.strip() else ""
