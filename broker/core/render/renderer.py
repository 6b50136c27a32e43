"""What every mode of rendering gives: a text above the evidence, a block a frame, a text below it.

A block is measured first, for every frame that is ranked, and written for those that are placed.

Content is quoted, never instruction (CGP R3). The same frame under the same key renders to the same bytes in every
composition of a mode, whatever else is placed, so that a prompt cache hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from broker.core.counting import BytesPerFour, TokenCounter
from broker.core.frames import tokens_of
from broker.core.lanes import Candidate
from broker.core.render.escaping import Escaped, escape_content, escaped_headers
from broker.core.render.role_tokens import role_tokens_of


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

    def blocks(self, candidates: Sequence[Candidate], counter: TokenCounter) -> list[Block]:
        """Each frame's block, and what it costs by a counter. No block depends on the frames beside it."""

    def texts(self, blocks: Sequence[Block], digests: Iterable[str]) -> list[str]:
        """Blocks of this mode as they are written, for frames whose contents have these digests."""

    def seal_in(self, text: str) -> str:
        """The seal that a block of this mode bears; empty: none."""


class Header(Struct, frozen=True, gc=False):
    """What a block says of its frame, each value escaped to stand between quotes on one line.

    Attributes:
        provider: Whose it is.
        frame_id: The frame's id.
        label: Its own citation label, or its title where that is blank.
        kind: The frame's kind; empty where the block does not say it.
        hidden: Hidden characters made visible in all of them.
        fences: Fence look-alikes neutralised in all of them.
    """

    provider: str
    frame_id: str
    label: str
    kind: str = ""
    hidden: int = 0
    fences: int = 0

    @property
    def name(self) -> str:
        """``provider/id``."""
        return f"{self.provider}/{self.frame_id}"


def headers_of(candidates: Sequence[Candidate], *, kinds: bool) -> list[Header]:
    """What blocks say of their frames, with or without their kinds."""
    frames = [candidate.frame for candidate in candidates]
    providers, ids = [candidate.provider for candidate in candidates], [frame.id for frame in frames]
    labels = [label if (label := one.citation_label) and not label.isspace() else one.title for one in frames]
    shown = [frame.kind if kinds else "" for frame in frames]
    # Many frames have a provider and a kind in common.
    changed = escaped_headers([*ids, *labels, *set(providers), *set(shown)])
    if not changed:
        return list(map(Header, providers, ids, labels, shown))
    return [_changed(row, changed) for row in zip(providers, ids, labels, shown, strict=True)]


def _changed(row: tuple[str, str, str, str], changed: Mapping[str, Escaped]) -> Header:
    escaped = [changed.get(value) or Escaped(value, 0) for value in row]
    provider, frame_id, label, kind = [one.text for one in escaped]
    hidden, fences = sum([one.hidden for one in escaped]), sum([one.fences for one in escaped])
    return Header(provider, frame_id, label, kind, hidden, fences)


def blocks_of(
    renderer: Renderer,
    candidates: Sequence[Candidate],
    headers: Sequence[Header],
    written: Sequence[str],
    contents: Sequence[Escaped],
    around: Sequence[int],
    counter: TokenCounter,
) -> list[Block]:
    """Blocks that show every value of their headers.

    Args:
        renderer: What writes them.
        candidates: The frames.
        headers: What the blocks say of them.
        written: The headers as the mode writes them.
        contents: The frames' contents as the blocks show them.
        around: UTF-8 bytes of each block beside its header and content.
        counter: Counts their tokens.
    """
    sizes = [
        content.size + more + (len(line) if line.isascii() else len(line.encode()))
        for content, more, line in zip(contents, around, written, strict=True)
    ]
    blocks = [
        Block(
            size,
            cost,
            header.label,
            f"{header.provider}/{header.frame_id}",
            header.hidden + content.hidden,
            header.fences + content.fences,
            tokens,
            line,
            content.text,
        )
        for size, cost, header, content, tokens, line in zip(
            sizes,
            tokens_of(sizes),
            headers,
            contents,
            role_tokens_of([candidate.frame.content for candidate in candidates]),
            written,
            strict=True,
        )
    ]
    return costed(renderer, blocks, candidates, counter)


def costed(
    renderer: Renderer, blocks: list[Block], candidates: Sequence[Candidate], counter: TokenCounter
) -> list[Block]:
    """Blocks whose costs are those of their sizes, with what they cost by a counter."""
    if isinstance(counter, BytesPerFour):
        return blocks
    texts = renderer.texts(blocks, [candidate.digest for candidate in candidates])
    return [
        replace(block, cost=counter.count(text + renderer.separator)) for block, text in zip(blocks, texts, strict=True)
    ]


def restated(question: str) -> str:
    """The caller's question as it may stand in a prompt; empty where it is blank."""
    return escape_content(question).text if question.strip() else ""
