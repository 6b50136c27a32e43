"""Sources: which frames come from one document, so that none of them takes every place in a prompt.

A frame's source is the ``uri`` of its first ``file`` provenance, its own before its copies', or else its own ``uri``. A
frame without either has none, and no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from broker.core.duplicates import joint_provenance
from broker.core.entries import Entry
from broker.core.frames import Frame, Provenance

_SHOWN = 80
"""Characters of a source that the audit repeats."""


def source_of(entry: Entry) -> str:
    """Where a kept frame comes from; empty where it does not say."""
    provenance, _ = joint_provenance(entry)
    return _first_file(provenance) or entry.candidate.frame.uri


def source_named(frame: Frame) -> str:
    """The source that a frame with every copy's provenance names; empty where it names none."""
    return _first_file(frame.provenance) or frame.uri


def _first_file(provenance: Iterable[Provenance]) -> str:
    for step in provenance:
        if step.type == "file":
            return step.uri
    return ""


class Sources:
    """Which frames must wait while frames are taken, since their source had its turn.

    Args:
        most: Frames of one source that are taken before any more of it; None: no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    def waits(self, entry: Entry) -> bool:
        """Whether a frame must wait."""
        if self._most is None:
            return False
        source = source_of(entry)
        return source != "" and self._taken[source] >= self._most

    def took(self, entry: Entry) -> None:
        """A frame was taken in its turn."""
        if self._most is not None:
            self._taken[source_of(entry)] += 1

    def told(self, entry: Entry) -> str:
        """Why a frame had to wait."""
        return f"{self._most} frames of {source_of(entry)[:_SHOWN]!a} were taken before it"
