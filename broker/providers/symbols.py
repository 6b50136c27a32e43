"""The provider ``symbols``: classes, functions and other definitions in a folder's source files, found by name.

Python is read by its own parser. JavaScript, TypeScript, Go, Rust, Java and C are read where the extra ``symbols`` is
installed. How a definition is scored stands in :mod:`broker.providers.matching`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import structlog

from broker.core.frames import Frame
from broker.core.grants import Allowance
from broker.core.scores import Direction, ScoreScale
from broker.providers.definitions import Definition, Unparsable
from broker.providers.grammar_definitions import GRAMMARS, grammar_definitions, installed
from broker.providers.matching import Asked, Named, NameMatch
from broker.providers.provider import folder_root, holds_at, log_held
from broker.providers.python_definitions import python_definitions
from broker.providers.regions import Region, content_at, file_frame, region_of, shown_path, split_lines
from broker.providers.watching import Folder
from broker.providers.words import terms
from broker.providers.worker import Stop, Worker

if TYPE_CHECKING:
    from broker.client.query import Query

MAX_LINES = 80
"""Lines of a definition that are shown, from its beginning; the title says where there are more."""

MAX_BYTES = 6_000
"""UTF-8 bytes of a definition that are shown, in whole lines. One whose first line is longer is not offered."""

MAX_DEFINITIONS = 100_000
"""Definitions held of one folder; the files after that, in the order of their paths, are left out and counted."""

SCALE = ScoreScale("name-match", 0.0, 1.0, Direction.HIGHER_IS_BETTER)
"""From 0, no match and never offered, to 1, the definition asked for by its very name."""

_PYTHON = frozenset({".py", ".pyi"})

_NOTHING = (
    "no definition was found; name a folder that holds Python or, with the extra 'symbols', "
    "JavaScript, TypeScript, Go, Rust, Java or C"
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Symbol:
    region: Region
    title: str
    part: str
    named: Named


class SymbolsProvider:
    """Definitions that a question names. See :class:`broker.providers.provider.FolderProvider`."""

    name = "symbols"
    scale = SCALE
    kinds: tuple[str, ...] = ("symbol",)

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._worker = Worker(self.name)
        self._symbols: dict[str, list[_Symbol]] = {}
        self._match = NameMatch()
        self._held = 0

    @classmethod
    def open(cls, directory: Path) -> SymbolsProvider:
        """Reads the folder's source files; blocks until that is done.

        Raises:
            InvalidArgument: The folder is not there or cannot be read. A folder without source files is fine.
        """
        provider = cls(folder_root(directory))
        provider._worker.call(provider._build)
        return provider

    async def answer(self, query: Query) -> list[Frame]:
        """The definitions that match the question, best first, within its grants.

        Files that changed are read again first; each definition is read from its file anew and left out if it is no
        longer what was found.

        Raises:
            Unavailable: The folder went away.
        """
        return await self._worker.run(lambda stop: self._answer(query, stop))

    def close(self) -> None:
        """Drops what was read."""
        self._worker.close(self._symbols.clear)

    def _build(self) -> None:
        self._refresh(Stop())
        log_held(_log, "definitions read", self._held, _NOTHING, definitions=self._held, skipped=self._folder.skipped)

    def _refresh(self, stop: Stop) -> None:
        changes = self._folder.changes()
        for path in changes.stale:
            self._replace(path, [])
        for number, path in enumerate(changes.fresh):
            if stop.wanted:
                for unread in changes.fresh[number:]:
                    self._folder.forget(unread)
                stop.check()
            self._replace(path, list(self._read(path)))

    def _replace(self, path: str, symbols: list[_Symbol]) -> None:
        old = self._symbols.pop(path, [])
        self._match.remove(symbol.named for symbol in old)
        self._held -= len(old)
        if self._held + len(symbols) > MAX_DEFINITIONS:
            self._folder.skip(path, "too many definitions")
            return
        if symbols:
            self._symbols[path] = symbols
            self._match.add(symbol.named for symbol in symbols)
            self._held += len(symbols)

    def _read(self, path: str) -> Iterator[_Symbol]:
        suffix = PurePosixPath(path).suffix.lower()
        if suffix not in _PYTHON and not installed(suffix):
            known = suffix in GRAMMARS
            self._folder.skip(
                path, f"{suffix} needs the extra 'symbols'" if known else "no source of a language read here"
            )
            return
        data = self._folder.text(path)
        if data is None:
            return
        try:
            found = (
                python_definitions(data.decode(), PurePosixPath(path).stem)
                if suffix in _PYTHON
                else grammar_definitions(data, suffix)
            )
        except Unparsable:
            self._folder.skip(path, "does not parse")
            return
        lines = split_lines(data)
        seen: set[tuple[int, int, str]] = set()
        for definition in found:
            symbol = self._symbol(path, lines, definition)
            if symbol is None:
                continue
            key = (symbol.region.first, symbol.region.last, symbol.part)
            if key not in seen:
                seen.add(key)
                yield symbol

    def _symbol(self, path: str, lines: list[bytes], definition: Definition) -> _Symbol | None:
        last = _last_shown(lines, definition)
        if last < definition.first:
            self._folder.skip(path, "line too long")
            return None
        whole = definition.last - definition.first + 1
        shown = last - definition.first + 1
        note = f" (its first {shown} of {whole} lines)" if shown < whole else ""
        stem = PurePosixPath(path).stem
        name = frozenset(terms(definition.name))
        about = frozenset(terms(f"{definition.scope} {shown_path(stem)} {definition.doc}")) - name
        module = ".".join(PurePosixPath(path).with_suffix("").parts)
        qualified = definition.qualified
        dotted = module if definition.kind == "module" and path.endswith(tuple(_PYTHON)) else f"{module}.{qualified}"
        return _Symbol(
            region_of(path, lines, definition.first, last),
            f"{definition.kind} {qualified} in {shown_path(path)}{note}",
            qualified,
            Named(dotted, name, about),
        )

    def _answer(self, query: Query, stop: Stop) -> list[Frame]:
        allowance = Allowance(query.max_frames, query.max_tokens)
        asked = Asked.of(query.text)
        if allowance.spent or not asked.terms or not query.wants("symbol"):
            return []
        self._refresh(stop)
        frames: list[Frame] = []
        read: dict[str, list[bytes]] = {}
        for score, symbol in self._ranked(asked, stop):
            stop.check()
            if allowance.spent:
                break
            path = symbol.region.path
            if path not in read:
                read[path] = split_lines(self._folder.text(path) or b"")
            content = content_at(symbol.region, read[path])
            if content is None:
                self._folder.forget(path)
                continue
            frame = file_frame(
                self._folder.root,
                symbol.region,
                content,
                score=score,
                kind="symbol",
                title=symbol.title,
                method="name-match",
                recorded_at=self._folder.recorded_at(path),
                part=symbol.part,
            )
            if holds_at(frame.recorded_at, query.as_of) and allowance.take(frame):
                frames.append(frame)
        return frames

    def _ranked(self, asked: Asked, stop: Stop) -> list[tuple[float, _Symbol]]:
        found: list[tuple[float, _Symbol]] = []
        for symbols in self._symbols.values():
            stop.check()
            scored = ((self._match.score(asked, symbol.named), symbol) for symbol in symbols)
            found += [(score, symbol) for score, symbol in scored if score > 0]
        found.sort(key=lambda pair: (-pair[0], pair[1].region.path, pair[1].region.first, pair[1].part))
        return found


def _last_shown(lines: list[bytes], definition: Definition) -> int:
    used = 0
    last = min(definition.last, definition.first + MAX_LINES - 1, len(lines))
    for number in range(definition.first, last + 1):
        used += len(lines[number - 1])
        if used > MAX_BYTES:
            return number - 1
    return last
