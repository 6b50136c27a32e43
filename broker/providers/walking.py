"""Which files of a folder are read: what git would show of it, or every plain file but hidden and dependency folders.

Symbolic links are never followed, files and folders alike, so that nothing outside the folder is read and no loop is
walked. The order is that of the paths' bytes. Everything left out is counted by reason.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from broker.providers.gitcommand import GitMissing, git

MAX_FILES = 20_000
"""Files taken from one folder."""

MAX_FILE_BYTES = 1024 * 1024
"""Size up to which a file is read."""

MAX_TOTAL_BYTES = 32 * 1024 * 1024
"""Bytes taken from one folder, all files together."""

DEPENDENCY_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "bower_components"})
"""Folders of other people's or of generated files, left out where git does not track them. Hidden ones are, too."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells cheaply whether a file is still the same."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The files of a folder.

    Attributes:
        files: Path below the folder (``/`` between parts, undecodable bytes as ``os.fsdecode`` has them) → stamp.
        skipped: Reason → how many entries were left out for it. A folder left out counts once, whatever it holds.
    """

    files: dict[str, Stamp] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)


def walk(root: Path) -> Walk:
    """Lists the folder's files by :data:`MAX_FILES`, :data:`MAX_FILE_BYTES` and :data:`MAX_TOTAL_BYTES`."""
    found = Walk()
    listed = _git_paths(root, found.skipped)
    paths = list(_plain_paths(root, found.skipped)) if listed is None else listed
    inside: dict[str, bool] = {}
    total = 0
    for path in sorted(paths, key=os.fsencode):
        try:
            status = os.lstat(root / path)
        except FileNotFoundError:
            continue  # git still lists a file that was deleted: there is nothing to leave out
        except OSError:
            found.skipped["unreadable"] += 1
            continue
        reason = _unfit(root, path, status, inside)
        if not reason and len(found.files) >= MAX_FILES:
            reason = "too many files"
        if not reason and total + status.st_size > MAX_TOTAL_BYTES:
            reason = "folder too large"
        if reason:
            found.skipped[reason] += 1
            continue
        total += status.st_size
        found.files[path] = _stamp(status)
    return found


def read(root: Path, path: str) -> bytes | None:
    """The bytes of a file of the folder; None where it cannot be read, is no plain file inside it, or is too large."""
    full = root / path
    try:
        if not _is_inside(root, full.parent):
            return None
        # Without NONBLOCK a pipe that took the file's place would hold the thread for ever.
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_FILE_BYTES else None


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_inside(root: Path, parent: Path) -> bool:
    return os.path.realpath(parent) == str(parent) and parent.is_relative_to(root)


def _unfit(root: Path, path: str, status: os.stat_result, inside: dict[str, bool]) -> str:
    if stat.S_ISLNK(status.st_mode):
        return "symbolic link"
    if stat.S_ISDIR(status.st_mode):
        return "nested repository"  # the one kind of folder that git lists as if it were a file
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file"
    parent = os.path.dirname(path)  # noqa: PTH120 - a path with undecodable bytes, kept as git gave it
    if parent not in inside:
        inside[parent] = _is_inside(root, root / parent)
    if not inside[parent]:
        return "symbolic link"
    if status.st_size > MAX_FILE_BYTES:
        return "file too large"
    return "empty" if status.st_size == 0 else ""


def _git_paths(root: Path, skipped: Counter[str]) -> list[str] | None:
    """What git shows of the folder, or None where it is not in a repository, or is ignored by the one it is in."""
    try:
        ignored = git(root, "check-ignore", "--quiet", "--", ".")
        if ignored.code != 1:
            return None  # 0: a folder that is ignored as a whole was asked for by name; 128: no repository
        tracked = git(root, "ls-files", "-z", "--cached")
        untracked = git(root, "ls-files", "-z", "--others", "--exclude-standard")
    except GitMissing:
        return None
    if tracked.code or untracked.code:
        _log.warning("git could not list the folder, which is walked without it", reason=tracked.message)
        return None
    if tracked.cut or untracked.cut:
        skipped["too many files"] += 1
    paths = _split(tracked.output)
    for path in _split(untracked.output):
        reason = next((reason for part in path.split("/") if (reason := _left_out(part))), "")
        if reason:
            skipped[reason] += 1
        else:
            paths.append(path)
    # A path in conflict is listed once for each side.
    return list(dict.fromkeys(paths))


def _split(output: bytes) -> list[str]:
    # What follows the last NUL is nothing, or a path that was cut.
    return [os.fsdecode(path) for path in output.split(b"\0")[:-1]]


def _left_out(name: str) -> str:
    if name in DEPENDENCY_FOLDERS:
        return "dependency folder"
    return "hidden" if name.startswith(".") else ""


def _plain_paths(root: Path, skipped: Counter[str]) -> Iterator[str]:
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(root / below) as entries:
                listed = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            skipped["unreadable"] += 1
            continue
        for entry in listed:
            path = f"{below}/{entry.name}" if below else entry.name
            reason = _left_out(entry.name)
            if reason:
                skipped[reason] += 1
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            else:
                yield path
