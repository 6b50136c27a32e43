"""A question as a provider sees it: plain values, nothing of the wire."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question, and what its answer may take.

    Attributes:
        goal: What the agent is trying to do.
        query_text: The question as retrieval should read it; empty: use the goal. :attr:`text` is the one of the two.
        kinds: Kinds wanted, of :data:`broker.core.frames.KINDS` or ``kind-<number>``; empty: any.
        anchors: Resources that the agent has at hand, as URIs.
        max_frames: Frames granted. A broker takes one more for a lie and drops the whole lane; :class:`Provider
            <broker.client.provider.Provider>` sends none beyond it.
        max_tokens: Tokens of content granted, ``(UTF-8 bytes + 3) // 4`` a frame; likewise.
        as_of: Moment that the evidence should hold for, ``YYYY-MM-DDTHH:MM:SS[.f]Z``; empty: now.
        traceparent: W3C trace context of the request; empty: none.
        deadline: When the broker stops listening, on the clock of :func:`time.monotonic`; infinite: never.
    """

    goal: str
    query_text: str = ""
    kinds: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    max_frames: int = 256
    max_tokens: int = 200_000
    as_of: str = ""
    traceparent: str = ""
    deadline: float = field(default=float("inf"), compare=False)

    @property
    def text(self) -> str:
        """What to search for: ``query_text``, or the goal where it is empty."""
        return self.query_text or self.goal

    @property
    def remaining(self) -> float:
        """Seconds left to answer in, never below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def wants(self, kind: str) -> bool:
        """Whether frames of this kind are wanted."""
        return not self.kinds or kind in self.kinds
