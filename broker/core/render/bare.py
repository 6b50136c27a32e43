"""The mode ``NONE``: nothing is rendered. Whoever asked writes the prompt from the frames, and escapes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.core.counting import TokenCounter
from broker.core.lanes import Candidate
from broker.core.render.renderer import Block, headers_of
from broker.core.render.role_tokens import role_tokens_of


class Bare:
    """Frames only."""

    separator = ""

    def preamble(self, _question: str) -> str:
        """Nothing."""
        return ""

    def closing(self, _question: str) -> str:
        """Nothing."""
        return ""

    def blocks(self, candidates: Sequence[Candidate], counter: TokenCounter) -> list[Block]:
        """No text; a frame costs the tokens of its content."""
        contents = [candidate.frame.content for candidate in candidates]
        return [
            Block(
                size=len(content.encode()),
                cost=counter.count(content),
                label=header.label,
                name=header.name,
                role_tokens=tokens,
            )
            for header, content, tokens in zip(
                headers_of(candidates, kinds=False), contents, role_tokens_of(contents), strict=True
            )
        ]

    def texts(self, blocks: Sequence[Block], _digests: Iterable[str]) -> list[str]:
        """Nothing."""
        return [""] * len(blocks)

    def seal_in(self, _text: str) -> str:
        """None: there is no text that could bear one."""
        return ""
