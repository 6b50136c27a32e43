"""Definitions in source files, whatever the language, and which languages can be read."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DOC_CHARACTERS = 2_000
"""Characters of a docstring or doc comment that are kept, from its beginning."""


class Unparsable(Exception):
    """A file that is no source its language's parser takes."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition.

    Attributes:
        name: Its name, without what encloses it.
        scope: The names that enclose it, joined by dots; empty at the top of a file.
        kind: What it is in its language, such as ``class`` or ``function``.
        first: First line, from 1: decorators and doc comments before it belong to it.
        last: Last line, inclusive.
        doc: Its docstring or doc comment, up to :data:`MAX_DOC_CHARACTERS`.
    """

    name: str
    scope: str
    kind: str
    first: int
    last: int
    doc: str

    @property
    def qualified(self) -> str:
        """The name with what encloses it."""
        return f"{self.scope}.{self.name}" if self.scope else self.name
