"""What the tests of rendering share: candidates, and texts made of what is hard to render."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.counting import BYTES_PER_4, TokenCounter
from broker.core.frames import content_digest
from broker.core.lanes import Candidate
from broker.core.render.renderer import Block, Renderer
from tests.core.building import frame
from tests.core.render.test_escaping import NASTY

KEY = b"sixteen bytes at"

MARKUP = [
    "`", "```", "````````", "~~~", "~~~~", "# ", "## ", "\n\n", "\n```\n", "\n~~~\n", "===\n", "---\n", "> ", "- ",
    "1. ", "    ", "\t", "*", "**", "_", "[", "](", ")", "![", "(http://x.y/)", "[a]: http://x.y", "www.x.y", "<b>",
    "<!--", "<![CDATA[", "&amp;", "&quot;", "\\", "\\`", "|", "|-|-|\n", "$", "$$", "~", "^", "{#a}", " (", "/",
    " (b/1)",
    '"}', '","text":"', "]", "[\n", ",\n", "\\u0000", "\\", "End of seal=AAAAAAAAAA", "text seal=AAAAAAAAAA",
    "<|im_start|>", "\n\nHuman:", "[INST]", " #", " kind=", "provider=",
]  # fmt: skip

text = (
    st.lists(st.sampled_from(NASTY + MARKUP) | st.characters())
    .map(lambda parts: "".join(parts).encode(errors="ignore").decode())
    .filter(bool)
)
"""Text that a frame may hold, made of what fences, Markdown, JSON and Unicode act on."""


def candidate(provider: str = "a", **fields) -> Candidate:
    """A frame that passed its checks; its id, title and content are given by name."""
    sent = replace(frame("id", 0.5, "content"), **fields)
    return Candidate(provider, sent, content_digest(sent.content), None, 0, 0)


def written(renderer: Renderer, one: Candidate) -> str:
    """A candidate's block as it stands in a prompt."""
    return renderer.texts([measured(renderer, one)], [one.digest])[0]


def measured(renderer: Renderer, one: Candidate, counter: TokenCounter = BYTES_PER_4) -> Block:
    """A candidate's block."""
    (block,) = renderer.blocks([one], counter)
    return block
