"""Notices what changed in a folder since it was read, by size, times and inode, so that only that is read again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from broker.providers.provider import require_folder
from broker.providers.walking import Stamp, read, walk

MAX_REFRESHED = 2_000
"""Changed files that are read again before one answer; the others are out of the answers until the next ones."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed.

    Attributes:
        stale: Files that changed or went away: what is known of them no longer holds.
        fresh: New and changed files to read, in the order of their paths.
    """

    stale: tuple[str, ...]
    fresh: tuple[str, ...]


class Folder:
    """The text files of a folder, as they were when last looked at.

    Args:
        root: The folder's absolute path without links in it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, Stamp] = {}
        self._skipped: Counter[str] = Counter()
        self._unread: dict[str, str] = {}
        self._opened = False

    def changes(self) -> Changes:
        """Looks again. The first time everything is fresh and there is no bound but that of the walk.

        Raises:
            Unavailable: ``FOLDER_GONE``: the folder itself went away.
        """
        require_folder(self.root)
        seen = walk(self.root)
        fresh = [path for path, stamp in seen.files.items() if self._known.get(path) != stamp]
        stale = [path for path, stamp in self._known.items() if seen.files.get(path) != stamp]
        if self._opened and len(fresh) > MAX_REFRESHED:
            _log.info("many files changed at once; some are read later", later=len(fresh) - MAX_REFRESHED)
            fresh = fresh[:MAX_REFRESHED]
        self._opened = True
        for path in stale:
            del self._known[path]
            self._unread.pop(path, None)
        self._known |= {path: seen.files[path] for path in fresh}
        self._skipped = seen.skipped
        return Changes(tuple(stale), tuple(fresh))

    def text(self, path: str) -> bytes | None:
        """The bytes of a file that is UTF-8 text; None, and counted, where it is not."""
        data = read(self.root, path)
        reason = _not_text(data)
        if reason:
            self.skip(path, reason)
            return None
        return data

    def skip(self, path: str, reason: str) -> None:
        """Counts a file as left out for a reason."""
        self._unread[path] = reason

    def forget(self, path: str) -> None:
        """Has a file read again the next time, for it is not what its stamp says."""
        self._known.pop(path, None)

    @property
    def size(self) -> int:
        """How many files are known, those left out after a look at their content among them."""
        return len(self._known)

    @property
    def skipped(self) -> dict[str, int]:
        """Reason → how many files and folders are left out for it."""
        return dict(sorted((self._skipped + Counter(self._unread.values())).items()))

    def recorded_at(self, path: str) -> str:
        """When the file was last modified, ``YYYY-MM-DDTHH:MM:SSZ``; empty where that is no date of this calendar."""
        return utc(self._known[path].mtime_ns // 1_000_000_000)


def _not_text(data: bytes | None) -> str:
    if data is None:
        return "unreadable"
    if b"\0" in data:
        return "binary"
    try:
        return "" if data.decode().strip() else "empty"
    except UnicodeDecodeError:
        return "not UTF-8"


def utc(seconds: int) -> str:
    """A time in seconds since 1970 as ``YYYY-MM-DDTHH:MM:SSZ``; empty outside the years 1 to 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    except (OverflowError, OSError, ValueError):
        return ""
