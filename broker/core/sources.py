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
    (source,) = _named([(provenance, entry.candidate.frame.uri)])
    return source


def sources_named(frames: Iterable[Frame]) -> list[str]:
    """The source that each frame names by itself; empty where it names none."""
    return _named([(frame.provenance, frame.uri) for frame in frames])


def _named(frames: Iterable[tuple[Iterable[Provenance], str]]) -> list[str]:
    """The sources of frames, each told by its provenance and its own ``uri``."""
    sources = []
    for provenance, source in frames:
        for step in provenance:
            if step.type == "file":
                sources.append(step.uri or source)
                break
        else:
            sources.append(source)
    return sources


class Sources:
    """Which frames must wait while frames are taken, since their source had its turn.

    Args:
        most: Frames of one source that are taken before any more of it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    def waits(self, entry: Entry) -> bool:
        """Whether a frame must wait."""
        source = source_of(entry)
        return source != "" and self._taken[source] >= self._most

    def took(self, entry: Entry) -> None:
        """A frame was taken in its turn."""
        self._taken[source_of(entry)] += 1

    def told(self, entry: Entry) -> str:
        """Why a frame had to wait."""
        return f"{self._most} frames of {source_of(entry)[:_SHOWN]!a} were taken before it"
