"""The mode ``NONE``: nothing is rendered. Whoever asked writes the prompt from the frames, and escapes them."""

from __future__ import annotations

from broker.core.counting import TokenCounter
from broker.core.lanes import Candidate
from broker.core.render.renderer import Block, header_of
from broker.core.render.role_tokens import role_tokens


class Bare:
    """Frames only."""

    separator = ""

    def preamble(self, _question: str) -> str:
        """Nothing."""
        return ""

    def closing(self, _question: str) -> str:
        """Nothing."""
        return ""

    def block(self, candidate: Candidate, counter: TokenCounter) -> Block:
        """No text; a frame costs the tokens of its content."""
        header, content = header_of(candidate), candidate.frame.content
        return Block(
            size=len(content.encode()),
            cost=counter.count(content),
            label=header.label.text,
            name=header.name,
            role_tokens=role_tokens(content),
        )

    def text(self, _block: Block, _digest: str) -> str:
        """Nothing."""
        return ""

    def seal_in(self, _text: str) -> str:
        """None: there is no text that could bear one."""
        return ""
