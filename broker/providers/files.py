"""The provider ``files``: full-text search over the text, Markdown and source files of a folder.

Engine: SQLite's FTS5, scored by its own ``bm25()`` (k1 = 1.2, b = 0.75), which is negative and lower where a chunk fits
better. What is indexed is the terms of :mod:`broker.providers.words`: of a chunk's text, and of its path and headings.

Sources: SQLite documentation, "FTS5", The bm25() function; S. Robertson and H. Zaragoza, "The Probabilistic Relevance
Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import structlog

from broker.core.frames import Frame
from broker.core.grants import Allowance
from broker.core.scores import Direction, ScoreScale
from broker.providers.chunking import PROSE_SUFFIXES, Chunk, chunks, trimmed
from broker.providers.provider import folder_root, holds_at, log_held
from broker.providers.regions import Region, content_at, file_frame, region_of, shown_path, split_lines
from broker.providers.watching import Folder
from broker.providers.words import query_terms, terms
from broker.providers.worker import Stop, Worker

if TYPE_CHECKING:
    from broker.client.query import Query

MAX_LINE_BYTES = 8_000
"""A line of more bytes is data or minified code: it is not offered, and counted."""

MAX_CANDIDATES = 4_000
"""Chunks looked at for one answer; up to four for each frame granted."""

SCALE = ScoreScale("bm25", -math.inf, 0.0, Direction.LOWER_IS_BETTER)
"""FTS5 gives the sum, over the question's terms, of inverse document frequency × saturated term frequency, negated. The
saturation stays below 2.2; the frequency is held above zero by the engine (1e-6 for terms in half of the chunks and
more) and grows with the logarithm of the chunks' number. So a match scores below 0, and no bound below is fixed."""

# An empty name gives a database on disk that is SQLite's own and goes with the connection: memory stays bounded.
_PRIVATE_DATABASE = ""

_SCHEMA = """
CREATE TABLE chunks (id INTEGER PRIMARY KEY, path BLOB, first INTEGER, last INTEGER, title TEXT, digest TEXT);
CREATE INDEX chunks_of_a_path ON chunks (path);
CREATE VIRTUAL TABLE words USING fts5 (place, body, tokenize = "unicode61 remove_diacritics 0");
"""

_SEARCH = """
SELECT chunks.path, chunks.first, chunks.last, chunks.title, chunks.digest, found.score
FROM (SELECT rowid, bm25(words) AS score FROM words WHERE words MATCH ? ORDER BY score, rowid LIMIT ?) AS found
JOIN chunks ON chunks.id = found.rowid
ORDER BY found.score, chunks.path, chunks.first
"""

_log = structlog.get_logger(__name__)


class FilesProvider:
    """Chunks of a folder's files that fit a question. See :class:`broker.providers.provider.FolderProvider`."""

    name = "files"
    scale = SCALE
    kinds: tuple[str, ...] = ("snippet", "doc")

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self._worker = Worker(self.name)
        self._database: sqlite3.Connection | None = None

    @classmethod
    def open(cls, directory: Path) -> FilesProvider:
        """Indexes the folder; blocks until that is done.

        Raises:
            InvalidArgument: The folder is not there or cannot be read. A folder without text files is fine.
        """
        provider = cls(folder_root(directory))
        provider._worker.call(provider._build)
        return provider

    async def answer(self, query: Query) -> list[Frame]:
        """The chunks that hold a term of the question, best first, within its grants.

        Files that changed are indexed again first; each chunk is read from its file anew and left out if it is no
        longer what was found.

        Raises:
            Unavailable: The folder went away.
        """
        return await self._worker.run(lambda stop: self._answer(query, stop))

    def close(self) -> None:
        """Drops the index."""
        self._worker.close(self._drop)

    def _build(self) -> None:
        self._database = sqlite3.connect(_PRIVATE_DATABASE, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._refresh(Stop())
        (held,) = self._sql.execute("SELECT COUNT(*) FROM chunks").fetchone()
        counts = {"files": self._folder.size, "skipped": self._folder.skipped}
        log_held(_log, "files indexed", held, "no text was found; name a folder that holds text files", **counts)

    def _drop(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @property
    def _sql(self) -> sqlite3.Connection:
        assert self._database is not None
        return self._database

    def _refresh(self, stop: Stop) -> None:
        changes = self._folder.changes()
        if not changes.stale and not changes.fresh:
            return
        self._sql.execute("BEGIN")
        try:
            for path in changes.stale:
                self._forget(path)
            for path in changes.fresh:
                stop.check()
                self._index(path)
            self._sql.execute("COMMIT")
        except BaseException:
            self._sql.execute("ROLLBACK")
            for path in (*changes.stale, *changes.fresh):
                self._folder.forget(path)
            raise
        _log.debug("files indexed again", stale=len(changes.stale), fresh=len(changes.fresh))

    def _forget(self, path: str) -> None:
        key = os.fsencode(path)
        self._sql.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE path = ?)", (key,))
        self._sql.execute("DELETE FROM chunks WHERE path = ?", (key,))

    def _index(self, path: str) -> None:
        data = self._folder.text(path)
        if data is None:
            return
        place = " ".join(terms(shown_path(path)))
        for region, chunk, text in self._offered(path, data):
            title = " › ".join((shown_path(path), *chunk.headings))
            added = self._sql.execute(
                "INSERT INTO chunks (path, first, last, title, digest) VALUES (?, ?, ?, ?, ?)",
                (os.fsencode(path), region.first, region.last, title, region.digest),
            )
            headings = " ".join(terms(" ".join(chunk.headings)))
            self._sql.execute(
                "INSERT INTO words (rowid, place, body) VALUES (?, ?, ?)",
                (added.lastrowid, f"{place} {headings}", " ".join(terms(text))),
            )

    def _offered(self, path: str, data: bytes) -> Iterator[tuple[Region, Chunk, str]]:
        lines = split_lines(data)
        text = [line.decode() for line in lines]
        for whole in chunks(text, suffix=_suffix(path)):
            chunk = trimmed(text, whole)
            if chunk is None:
                continue
            if any(len(line) > MAX_LINE_BYTES for line in lines[chunk.first - 1 : chunk.last]):
                self._folder.skip(path, "line too long")
                continue
            yield region_of(path, lines, chunk.first, chunk.last), chunk, "".join(text[chunk.first - 1 : chunk.last])

    def _answer(self, query: Query, stop: Stop) -> list[Frame]:
        allowance = Allowance(query.max_frames, query.max_tokens)
        wanted = query_terms(query.text)
        if allowance.spent or not wanted or not any(query.wants(kind) for kind in self.kinds):
            return []
        self._refresh(stop)
        frames: list[Frame] = []
        read: dict[str, list[bytes]] = {}
        for region, title, score in self._search(wanted, query.max_frames, stop):
            stop.check()
            if allowance.spent:
                break
            if region.path not in read:
                read[region.path] = split_lines(self._folder.text(region.path) or b"")
            content = content_at(region, read[region.path])
            if content is None:
                self._folder.forget(region.path)
                continue
            frame = self._frame(region, content, title, score)
            if query.wants(frame.kind) and holds_at(frame.recorded_at, query.as_of) and allowance.take(frame):
                frames.append(frame)
        return frames

    def _search(self, wanted: tuple[str, ...], max_frames: int, stop: Stop) -> list[tuple[Region, str, float]]:
        # Quoted, a term is a string to FTS5, whatever it holds; terms hold letters, digits and underscores only.
        expression = " OR ".join(f'"{term}"' for term in wanted)
        self._sql.set_progress_handler(lambda: stop.wanted, 10_000)
        try:
            rows = self._sql.execute(_SEARCH, (expression, min(4 * max_frames, MAX_CANDIDATES))).fetchall()
        except sqlite3.OperationalError:
            stop.check()
            raise
        finally:
            self._sql.set_progress_handler(None, 0)
        return [
            (Region(os.fsdecode(path), first, last, digest), title, score)
            for path, first, last, title, digest, score in rows
        ]

    def _frame(self, region: Region, content: str, title: str, score: float) -> Frame:
        return file_frame(
            self._folder.root,
            region,
            content,
            score=score,
            kind="doc" if _suffix(region.path) in PROSE_SUFFIXES else "snippet",
            title=title,
            method="fts5-bm25",
            recorded_at=self._folder.recorded_at(region.path),
        )


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
