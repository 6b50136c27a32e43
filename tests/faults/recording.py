"""What the actors of a history write down: one JSON line a thing said or heard, in a file of each actor's own.

The lines are all that :mod:`tests.faults.checker` knows. A frame is ``[id, digest of its content]``. Every line has
the ``history`` that it belongs to, its ``kind`` and ``at``, the monotonic clock in seconds, which processes share.

==============  ======================================================================================================
kind            meaning and further keys
==============  ======================================================================================================
asked           A provider heard a question: ``request``, ``provider``, ``session``, ``query``; ``deaf`` where it does
                not write down all that it is told.
sent            It is about to send a batch: ``query``, ``frames``.
ended           It is about to end its answer: ``query``, ``failed``.
told            The broker told it to stop, or that something was not taken: ``query``, ``what``.
gone            Its session is over: ``session``, ``why``.
pushed          Frames were delivered: ``request``, ``provider``, ``frames``, ``taken``.
asks            An orchestrator is about to ask: ``request``, ``seconds`` (that it collects), ``inline``.
answered        It has its answer: ``request``, ``code``, ``seconds`` (that it took), ``placed`` (``[position,
                provider, id, digest]``).
left            It did not wait for it: ``request``.
audit           The answer's audit: ``request``, ``lanes`` (``[provider, end, offered, placed]``), ``rows``
                (``[provider, id, digest, included, reason]``), ``reasons``.
==============  ======================================================================================================
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from broker.core.composition import Composition
from broker.core.frames import Frame, content_digest


class Recording:
    """A file of lines; each is on its way to the kernel before :meth:`write` returns, so that a kill loses none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, history: str, kind: str, **more: object) -> None:
        line = {"history": history, "kind": kind, "at": time.monotonic(), **more}
        self._file.write(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def shown(frames: Iterable[Frame]) -> list[list[str]]:
    """Frames as the lines hold them."""
    return [[frame.id, content_digest(frame.content)] for frame in frames]


def audit_of(composition: Composition) -> dict[str, object]:
    """The audit as its line holds it."""
    return {
        "lanes": [[lane.provider, lane.end.value, lane.offered, lane.placed] for lane in composition.summary.lanes],
        "rows": [
            [row.provider, row.frame_id, row.content_digest, row.included, row.reason] for row in composition.audit
        ],
        "reasons": dict(composition.summary.reasons),
    }


def placed_of(composition: Composition) -> list[list[object]]:
    """The placed frames as the line of an answer holds them, by the broker's own digest and not the audit's."""
    return [
        [placed.position, placed.provider, placed.frame.id, content_digest(placed.frame.content)]
        for placed in composition.placed
    ]
