"""Commits of a folder, read from ``git log`` in a form that no path and no message can break.

Fields and paths end with NUL, which neither can hold. E-mail addresses of authors and committers are read only to take
them out of messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.errors import InvalidArgument
from broker.providers.gitcommand import GitMissing, GitResult, git
from broker.providers.regions import shown_path
from broker.providers.watching import utc
from broker.providers.words import terms

MAX_COMMITS = 5_000
"""Newest commits of the folder that are read."""

MAX_MESSAGE_CHARACTERS = 16_000
"""Characters of one message that are read."""

MAX_PATHS = 1_000
"""Changed paths of one commit that are read; their number is kept whole."""

_FIELDS = ("%H", "%ct", "%ad", "%ae", "%ce", "%B")
_FORMAT = "--format=format:" + "".join(f"{field}%x00" for field in _FIELDS)
_ADDRESS = re.compile(r"<[^<>\s]*@[^<>\s]*>")
_HIDDEN = "<address left out>"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit.

    Attributes:
        hash: Its full hash.
        recorded_at: Its commit date, ``YYYY-MM-DDTHH:MM:SSZ``; empty where that is no date.
        authored: Its author date with the author's own time zone, ISO 8601.
        message: Its message without e-mail addresses, up to :data:`MAX_MESSAGE_CHARACTERS`.
        paths: Changed paths below the folder as they can be shown, up to :data:`MAX_PATHS`. A merge has none.
        path_count: How many there are.
        in_message: Terms of the message.
        in_paths: Terms of :attr:`paths`.
    """

    hash: str
    recorded_at: str
    authored: str
    message: str
    paths: tuple[str, ...]
    path_count: int
    in_message: frozenset[str]
    in_paths: frozenset[str]

    @property
    def subject(self) -> str:
        """First line of the message that holds something; empty where there is none."""
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


def head(folder: Path) -> str:
    """Hash of the commit that the folder's repository stands at; empty where it has none yet.

    Raises:
        InvalidArgument: ``GIT_MISSING``, ``NOT_A_REPOSITORY`` or ``GIT_FAILED``.
    """
    if _run(folder, "rev-parse", "--is-inside-work-tree").output.strip() != b"true":
        raise InvalidArgument(
            "NOT_A_REPOSITORY", f"{str(folder)!r} lies inside a repository's own data; name a folder of its work tree"
        )
    found = git(folder, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    return "" if found.code else found.output.decode().strip()


def is_ancestor(folder: Path, older: str, newer: str) -> bool:
    """Whether one commit leads to the other."""
    return git(folder, "merge-base", "--is-ancestor", older, newer).code == 0


def read_commits(folder: Path, newest: str, *, after: str = "", limit: int = MAX_COMMITS) -> tuple[list[Commit], bool]:
    """The commits that touch the folder, newest first.

    Args:
        folder: The folder.
        newest: Hash of the commit to begin with.
        after: Hash of a commit: it and what led to it are left out. Empty: none is.
        limit: Commits read at most.

    Returns:
        The commits, and whether older ones were left out for the output's size.

    Raises:
        InvalidArgument: ``GIT_FAILED``: git could not read its own history.
    """
    found = _run(
        folder,
        "log",
        "-z",
        "--no-color",
        "--no-renames",
        "--name-only",
        "--relative",
        # Whatever the settings of its owner or of the repository say: every commit, the first one with its paths too.
        "--root",
        "--no-follow",
        "-O/dev/null",
        "--no-show-signature",
        "--no-mailmap",
        "--no-notes",
        "--encoding=UTF-8",
        "--date=iso-strict",
        f"--max-count={limit}",
        _FORMAT,
        newest,
        *([f"^{after}"] if after else []),
        "--",
        ".",
    )
    return list(parse(found.output, whole=not found.cut)), found.cut


def parse(output: bytes, *, whole: bool = True) -> Iterator[Commit]:
    """The commits of an output in :data:`_FORMAT` with ``-z --name-only``.

    Where it is not whole, the last commit, which may have been cut, is left out.
    """
    parts = output.split(b"\0")
    at = 0
    while at + len(_FIELDS) < len(parts):
        fields = parts[at : at + len(_FIELDS)]
        at += len(_FIELDS)
        # Paths follow after a line end, and end with an empty part; a commit without paths has the empty part only.
        end = at
        while end < len(parts) and parts[end]:
            end += 1
        # What ends the last commit may be where the output was cut, and no end at all.
        if end >= len(parts) - 1 and not whole:
            return
        paths = parts[at:end]
        if paths:
            paths[0] = paths[0].removeprefix(b"\n")
        at = end + 1
        yield _commit(fields, paths)


def _commit(fields: list[bytes], paths: list[bytes]) -> Commit:
    name, committed, authored, *addresses, message = (field.decode(errors="replace") for field in fields)
    message = message[:MAX_MESSAGE_CHARACTERS].strip()
    message = _ADDRESS.sub(_HIDDEN, message)
    for address in addresses:
        message = message.replace(address, _HIDDEN) if "@" in address else message
    shown = tuple(shown_path(os.fsdecode(path)) for path in paths[:MAX_PATHS])
    return Commit(
        name,
        utc(int(committed)) if committed.lstrip("-").isdigit() else "",
        authored,
        message,
        shown,
        len(paths),
        frozenset(terms(message)),
        frozenset(terms(" ".join(shown))),
    )


def _run(folder: Path, *arguments: str) -> GitResult:
    try:
        found = git(folder, *arguments)
    except GitMissing:
        raise InvalidArgument(
            "GIT_MISSING", "the provider 'history' needs the git command; install git, or leave this provider out"
        ) from None
    if found.code == 0:
        return found
    if "not a git repository" in found.message:
        raise InvalidArgument(
            "NOT_A_REPOSITORY",
            f"{str(folder)!r} is not in a git repository; name a folder that is, or leave the provider 'history' out",
        )
    raise InvalidArgument(
        "GIT_FAILED",
        f"git cannot read {str(folder)!r} ({found.message or 'it gave no reason'}); 'git log' run there tells more",
    )
