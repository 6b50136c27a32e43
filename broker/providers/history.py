"""The provider ``history``: commits that touched a folder, found by what their messages and changed paths say.

A commit's score is the number of the question's distinct terms that its message holds, plus the number of those that
its changed paths hold. It has no upper bound but the question's length.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.core.frames import Frame, Provenance, content_digest
from broker.core.grants import Allowance
from broker.core.scores import Direction, ScoreScale
from broker.errors import InvalidArgument
from broker.providers.commits import MAX_COMMITS, Commit, head, is_ancestor, read_commits
from broker.providers.provider import folder_root, holds_at, log_held, require_folder
from broker.providers.regions import cut_text
from broker.providers.words import query_terms
from broker.providers.worker import Stop, Worker

if TYPE_CHECKING:
    from broker.client.query import Query

MAX_SHOWN_PATHS = 30
"""Changed paths that a frame names; it says how many more there are."""

MAX_SHOWN_BYTES = 3_000
"""UTF-8 bytes of a message that a frame shows; a mark stands where it was cut."""

SCALE = ScoreScale("matched-terms", 0.0, math.inf, Direction.HIGHER_IS_BETTER)
"""A count. 0 is no match, and never offered."""

_log = structlog.get_logger(__name__)


class HistoryProvider:
    """Commits that a question speaks of. See :class:`broker.providers.provider.FolderProvider`."""

    name = "history"
    scale = SCALE
    kinds: tuple[str, ...] = ("episode",)

    def __init__(self, root: Path) -> None:
        self._root = root
        self._worker = Worker(self.name)
        self._head = ""
        self._commits: list[Commit] = []

    @classmethod
    def open(cls, directory: Path) -> HistoryProvider:
        """Reads the newest commits of the folder; blocks until that is done.

        Raises:
            InvalidArgument: The folder is not there or not in a git repository, or there is no git command. A
                repository without commits is fine.
        """
        provider = cls(folder_root(directory))
        try:
            provider._worker.call(provider._refresh)
        except InvalidArgument:
            provider.close()
            raise
        held = len(provider._commits)
        log_held(_log, "commits read", held, "the repository has no commit yet; make one", commits=held)
        return provider

    async def answer(self, query: Query) -> list[Frame]:
        """The commits that match the question, best first and newest first among equals, within its grants.

        New commits are read first. With ``as_of``, commits made after it are left out.

        Raises:
            Unavailable: The folder went away.
            InvalidArgument: It is no longer in a git repository.
        """
        return await self._worker.run(lambda stop: self._answer(query, stop))

    def close(self) -> None:
        """Drops what was read."""
        self._worker.close(self._commits.clear)

    def _refresh(self) -> None:
        require_folder(self._root)
        newest = head(self._root)
        if newest == self._head:
            return
        if not newest:
            self._commits = []
        elif self._head and is_ancestor(self._root, self._head, newest):
            added, cut = read_commits(self._root, newest, after=self._head)
            self._commits = added if cut else [*added, *self._commits][:MAX_COMMITS]
        else:
            self._commits, cut = read_commits(self._root, newest)
            if cut:
                _log.info("older commits are left out: git's output grew too large", commits=len(self._commits))
        self._head = newest
        if len(self._commits) == MAX_COMMITS:
            _log.info("older commits are left out", commits=MAX_COMMITS)

    def _answer(self, query: Query, stop: Stop) -> list[Frame]:
        allowance = Allowance(query.max_frames, query.max_tokens)
        asked = frozenset(query_terms(query.text))
        if allowance.spent or not asked or not query.wants("episode"):
            return []
        self._refresh()
        stop.check()
        scored = [(len(asked & commit.in_message) + len(asked & commit.in_paths), commit) for commit in self._commits]
        # The sort is stable and the commits stand newest first.
        scored.sort(key=lambda pair: -pair[0])
        frames: list[Frame] = []
        for score, commit in scored:
            stop.check()
            if not score or allowance.spent:
                break
            if not holds_at(commit.recorded_at, query.as_of):
                continue
            frame = _frame(self._root, commit, float(score))
            if allowance.take(frame):
                frames.append(frame)
        return frames


def _frame(root: Path, commit: Commit, score: float) -> Frame:
    content = _content(commit)
    uri = f"git+{root.as_uri()}@{commit.hash}"
    subject = commit.subject or "(no message)"
    return Frame(
        id=commit.hash,
        title=cut_text(subject, 400),
        content=content,
        score=score,
        kind="episode",
        citation_label=f'git {commit.hash[:7]} "{cut_text(subject, 120)}"',
        uri=uri,
        provenance=(Provenance(type="commit", uri=uri, method="git-log"),),
        recorded_at=commit.recorded_at,
        content_digest=content_digest(content),
    )


def _content(commit: Commit) -> str:
    lines = [f"commit {commit.hash}", f"date: {commit.authored}", ""]
    lines += [cut_text(commit.message, MAX_SHOWN_BYTES) or "(no message)"]
    if commit.paths:
        lines += ["", "changed:", *(f"  {path}" for path in commit.paths[:MAX_SHOWN_PATHS])]
        more = commit.path_count - MAX_SHOWN_PATHS
        lines += [f"  and {more} more"] if more > 0 else []
    return "\n".join(lines) + "\n"
