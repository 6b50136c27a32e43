"""Regions of files: whole lines, their digest, the names by which a person and a machine can find them again.

A region ``L10-40`` is the lines 10 to 40 with their line ends, lines being counted as ``sed`` and git count them: its
digest is what ``sed -n 10,40p FILE | sha256sum`` says.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from broker.core.frames import Frame, Provenance

MAX_ID_BYTES = 480
"""UTF-8 bytes of a frame id or citation label that is made here; the broker takes up to 512."""

MAX_TITLE_BYTES = 480
"""UTF-8 bytes of a title that is made here; the broker takes up to 1024."""


@dataclass(frozen=True, slots=True)
class Region:
    """Whole lines of a file.

    Attributes:
        path: The file's path below the folder.
        first: First line, from 1.
        last: Last line, inclusive.
        digest: SHA-256 of the lines' bytes, 64 lower-case hex digits.
    """

    path: str
    first: int
    last: int
    digest: str

    @property
    def range(self) -> str:
        """The lines as provenance writes them, ``L10-40``."""
        return f"L{self.first}-{self.last}"


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a file, each with its line end; joined they are the file."""
    lines = data.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def cut(lines: list[bytes], first: int, last: int) -> bytes:
    """The bytes of the lines first to last, both counted from 1 and inclusive."""
    return b"".join(lines[first - 1 : last])


def region_of(path: str, lines: list[bytes], first: int, last: int) -> Region:
    """The region of these lines, with its digest."""
    return Region(path, first, last, hashlib.sha256(cut(lines, first, last)).hexdigest())


def content_at(region: Region, lines: list[bytes]) -> str | None:
    """The region's text, or None where the lines of the file are no longer those of the region's digest."""
    data = cut(lines, region.first, region.last)
    return data.decode() if hashlib.sha256(data).hexdigest() == region.digest else None


def shown_path(path: str) -> str:
    """A path as text that can be shown: control, format and undecodable characters percent-encoded, ``%`` too.

    No two paths are shown alike.
    """
    return "".join(_shown(character) for character in path)


def file_frame(
    root: Path,
    region: Region,
    content: str,
    *,
    score: float,
    kind: str,
    title: str,
    method: str,
    recorded_at: str,
    part: str = "",
) -> Frame:
    """The frame of a region: its content, and provenance from which anyone can check it.

    Args:
        root: The folder.
        region: The region shown.
        content: The text of exactly the region's bytes.
        score: The provider's score.
        kind: The frame's kind.
        title: What it is, cut to :data:`MAX_TITLE_BYTES`.
        method: How it was found.
        recorded_at: When the file was last modified.
        part: Tells frames of one region apart; it ends the id.
    """
    shown = shown_path(region.path)
    uri = (root / region.path).as_uri()
    digest = f"sha256:{region.digest}"
    return Frame(
        id=_bounded_id(f"{shown}#{region.range}" + (f":{part}" if part else "")),
        title=cut_text(title, MAX_TITLE_BYTES),
        content=content,
        score=score,
        kind=kind,
        citation_label=f"{cut_text(shown, MAX_ID_BYTES - 24, keep_end=True)} {region.range}",
        uri=uri,
        provenance=(Provenance(type="file", uri=uri, range=region.range, digest=digest, method=method),),
        recorded_at=recorded_at,
        content_digest=digest,
    )


def cut_text(text: str, max_bytes: int, *, keep_end: bool = False) -> str:
    """The text, or as much of its beginning (or end) as fits so many UTF-8 bytes with a mark that it was cut."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    room = max_bytes - len("…".encode())
    if keep_end:
        return "…" + data[-room:].decode(errors="ignore")
    return data[:room].decode(errors="ignore") + "…"


def _shown(character: str) -> str:
    if character != "%" and (character.isprintable() or unicodedata.category(character) == "Zs"):
        return character
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))


def _bounded_id(frame_id: str) -> str:
    if len(frame_id.encode()) <= MAX_ID_BYTES:
        return frame_id
    # The digest keeps what is cut unique, and the end is what tells regions apart.
    mark = hashlib.sha256(frame_id.encode()).hexdigest()[:32]
    return mark + cut_text(frame_id, MAX_ID_BYTES - len(mark), keep_end=True)
