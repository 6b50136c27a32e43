"""What every mode of rendering gives: a text above the evidence, a block a frame, a text below it.

Content is quoted, never instruction (CGP R3). The same frame under the same key renders to the same bytes in every
composition of a mode, whatever else is placed, so that a prompt cache hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from broker.core.counting import TokenCounter
from broker.core.lanes import Candidate
from broker.core.render.escaping import Escaped, escape_content, escape_header
from broker.core.render.role_tokens import role_tokens


@dataclass(frozen=True, slots=True)
class Block:
    """A frame as it stands in a prompt.

    Attributes:
        text: The whole block.
        size: UTF-8 bytes of it; where nothing is rendered, of the content.
        cost: Tokens of it and of the separator behind it; where nothing is rendered, of the content.
        label: What it is cited by: the frame's own citation label, or else its title, as the block shows it.
        name: Its provider and id, as the block shows them: ``provider/id``.
        escaped_characters: Hidden characters made visible.
        neutralised_fences: Fence look-alikes neutralised.
        role_tokens: Role tokens of common chat formats in the content, which stand in the block as data.
    """

    text: str
    size: int
    cost: int
    label: str
    name: str
    escaped_characters: int
    neutralised_fences: int
    role_tokens: int = 0


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

    def seal_in(self, text: str) -> str:
        """The seal that a block of this mode bears; empty: none."""


@dataclass(frozen=True, slots=True)
class Header:
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
    label = frame.citation_label if frame.citation_label.strip() else frame.title
    return Header(_again(candidate.provider), escape_header(frame.id), _again(frame.kind), escape_header(label))


@lru_cache(maxsize=1024)
def _again(text: str) -> Escaped:
    """What :func:`escape_header` gives, for what many frames have in common."""
    return escape_header(text)


def block_of(candidate: Candidate, header: Header, content: Escaped, text: str, cost: int) -> Block:
    """A block that shows every value of the header.

    Args:
        candidate: The frame.
        header: What the block says of it.
        content: Its content as the block shows it.
        text: The whole block.
        cost: Tokens of it.
    """
    parts = (header.provider, header.frame_id, header.kind, header.label, content)
    return Block(
        text=text,
        size=len(text.encode()),
        cost=cost,
        label=header.label.text,
        name=header.name,
        escaped_characters=sum([part.hidden for part in parts]),
        neutralised_fences=sum([part.fences for part in parts]),
        role_tokens=role_tokens(candidate.frame.content),
    )


def restated(question: str) -> str:
    """The caller's question as it may stand in a prompt; empty where it is blank."""
    return escape_content(question).text if question.strip() else ""
