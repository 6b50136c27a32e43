"""The mode ``JSON``: an array of documents, for models that take documents as data.

Each is ``{"title": …, "text": …, "citation": …}``. The array is all there is: no text says what the evidence is, and
there is no place for a question. What stands inside a string is escaped as in every mode, and then once more as JSON
asks, so that any reader of JSON gives the documents back.
"""

from __future__ import annotations

import json
import re

from broker.core.counting import TokenCounter
from broker.core.lanes import Candidate
from broker.core.render.escaping import escape_content, visible
from broker.core.render.renderer import Block, header_of
from broker.core.render.role_tokens import role_tokens

_SPLIT = re.compile(r"(?<= )\(")
"""In an id, what the name of a document could be taken to begin with."""


class Documents:
    """One document a frame."""

    separator = ",\n"

    def preamble(self, _question: str) -> str:
        """The array's beginning."""
        return "[\n"

    def closing(self, _question: str) -> str:
        """The array's end."""
        return "\n]\n"

    def block(self, candidate: Candidate, counter: TokenCounter) -> Block:
        """A document, on one line.

        It is cited as ``label (provider/id)``: no two frames have one such citation, whatever their labels and ids, for
        the last `` (`` in it begins the name. So it needs no look at the other documents.
        """
        header = header_of(candidate)
        title, content = escape_content(candidate.frame.title), escape_content(candidate.frame.content)
        name = f"{header.provider.text}/{_SPLIT.sub(visible('('), header.frame_id.text)}"
        citation = f"{header.label.text} ({name})"
        document = {"title": title.text, "text": content.text, "citation": citation}
        text = json.dumps(document, ensure_ascii=False)
        parts = (title, content, header.label, header.provider, header.frame_id)
        return Block(
            text=text,
            size=len(text.encode()),
            cost=counter.count(text + self.separator),
            label=citation,
            name=name,
            escaped_characters=sum(part.hidden for part in parts),
            neutralised_fences=sum(part.fences for part in parts),
            role_tokens=role_tokens(candidate.frame.content),
        )

    def seal_in(self, _text: str) -> str:
        """None: the array's own form keeps the documents apart."""
        return ""
