"""The mode ``JSON``: an array of documents, for models that take documents as data.

Each is ``{"title": …, "text": …, "citation": …}``. The array is all there is: no text says what the evidence is, and
there is no place for a question. What stands inside a string is escaped as in every mode, and then once more as JSON
asks, so that any reader of JSON gives the documents back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from broker.core.counting import TokenCounter
from broker.core.frames import content_tokens
from broker.core.lanes import Candidate
from broker.core.render.escaping import Escaped, escape_contents, visible
from broker.core.render.renderer import Block, Header, costed, headers_of
from broker.core.render.role_tokens import role_tokens_of

_quoted = json.JSONEncoder(ensure_ascii=False).encode

_AS_THEY_ARE = bytes(byte for byte in range(256) if chr(byte) not in '"\\\n\r\t')
"""Bytes that JSON does not escape, and those that an escaped text has none of."""

_SPLIT = f" {visible('(')}"
"""For what the name of a document could be taken to begin with, where it stands in an id."""


class Documents:
    """One document a frame."""

    separator = ",\n"

    def preamble(self, _question: str) -> str:
        """The array's beginning."""
        return "[\n"

    def closing(self, _question: str) -> str:
        """The array's end."""
        return "\n]\n"

    def blocks(self, candidates: Sequence[Candidate], counter: TokenCounter) -> list[Block]:
        """Documents, each on one line.

        Each is cited as ``label (provider/id)``: no two frames have one such citation, whatever their labels and ids,
        for the last `` (`` in it begins the name. So it needs no look at the other documents.
        """
        titles = escape_contents([candidate.frame.title for candidate in candidates])
        contents = escape_contents([candidate.frame.content for candidate in candidates])
        blocks = [
            self._block(header, title, content, tokens)
            for header, title, content, tokens in zip(
                headers_of(candidates, kinds=False),
                titles,
                contents,
                role_tokens_of([candidate.frame.content for candidate in candidates]),
                strict=True,
            )
        ]
        return costed(self, blocks, candidates, counter)

    def _block(self, header: Header, title: Escaped, content: Escaped, tokens: int) -> Block:
        name = f"{header.provider}/{header.frame_id.replace(' (', _SPLIT)}"
        citation = f"{header.label} ({name})"
        size = _FRAME + _quoted_size(title) + _quoted_size(content) + len(_quoted(citation).encode())
        return Block(
            size=size,
            cost=content_tokens(size + len(self.separator)),
            label=citation,
            name=name,
            escaped_characters=title.hidden + content.hidden + header.hidden,
            neutralised_fences=title.fences + content.fences + header.fences,
            role_tokens=tokens,
            header=title.text,
            content=content.text,
        )

    def texts(self, blocks: Sequence[Block], _digests: Iterable[str]) -> list[str]:
        """The documents."""
        return [_written(block.header, block.content, block.label) for block in blocks]

    def seal_in(self, _text: str) -> str:
        """None: the array's own form keeps the documents apart."""
        return ""


def _written(title: str, content: str, citation: str) -> str:
    return f'{{"title": {_quoted(title)}, "text": {_quoted(content)}, "citation": {_quoted(citation)}}}'


def _quoted_size(escaped: Escaped) -> int:
    """UTF-8 bytes of an escaped text as JSON quotes it: of the characters that it escapes no others are left."""
    return escaped.size + len('""') + len(escaped.text.encode().translate(None, _AS_THEY_ARE))


_FRAME = len(_written("", "", "").encode()) - 3 * len('""')
"""UTF-8 bytes of a document around its three strings."""
