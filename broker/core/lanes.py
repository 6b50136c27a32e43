"""Lanes: one provider's frames in one request, as they stand once they were checked.

:class:`~broker.core.intake.LaneIntake` makes them; :func:`~broker.core.compose.compose` takes them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from broker.core.frames import Frame
from broker.core.scores import LocalScore, ScoreScale


class LaneEnd(StrEnum):
    """How a lane ended.

    Attributes:
        answered: Whether the provider said all that it had to say.
        cut_short: Whether frames that did arrive fall under the request's ``partial_lanes``.
    """

    COMPLETE = "COMPLETE"
    """With frames."""
    EMPTY = "EMPTY"
    """Without any."""
    PARTIAL = "PARTIAL"
    """Cut by the deadline with frames in hand."""
    TIMED_OUT = "TIMED_OUT"
    """Cut by the deadline without any."""
    FAILED = "FAILED"
    """The provider said that it could not answer, had no room for one more query, broke the protocol, or was not asked
    because it keeps failing."""
    LOST = "LOST"
    """The provider was lost before it ended."""
    REFUSED = "REFUSED"
    """The provider lied in this request."""
    QUARANTINED = "QUARANTINED"
    """The provider sits out, for an earlier lie or by the operator's word, and was not asked."""
    ABSENT = "ABSENT"
    """The provider is not attached and was not asked."""

    def __init__(self, name: str) -> None:
        self.answered = name in ("COMPLETE", "EMPTY")
        self.cut_short = name in ("PARTIAL", "FAILED", "LOST")


class LaneUpdate(Struct, frozen=True, gc=False):
    """A lane changed while it was collected: its first frames came, or it ended.

    Attributes:
        provider: The provider.
        end: How it ended; None: frames may still come.
        frames: Frames offered so far.
        message: Why, where it did not end ``COMPLETE`` or ``EMPTY``.
    """

    provider: str
    end: LaneEnd | None
    frames: int
    message: str = ""

    @property
    def state(self) -> str:
        """The name of its end, or ``COLLECTING``."""
        return self.end.value if self.end is not None else "COLLECTING"


class Grant(Struct, frozen=True, gc=False):
    """What one lane may hold.

    Attributes:
        max_frames: Frames.
        max_tokens: Tokens of content, :func:`~broker.core.frames.content_tokens` a frame.
    """

    max_frames: int
    max_tokens: int


class Unreadable(Struct, frozen=True, gc=False):
    """A frame whose bytes could not be read.

    Attributes:
        size: How many bytes.
        digest: ``sha256:<hex>`` of those bytes.
        reason: Why: ``FRAME_MALFORMED`` or ``FRAME_TOO_LARGE``.
        allowed: How many bytes it might have had, where it is too large; 0: that is not why.
    """

    size: int
    digest: str
    reason: str
    allowed: int = 0


class Candidate(Struct, frozen=True, gc=False):
    """A frame that passed the checks.

    Attributes:
        provider: Whose it is.
        frame: As sent.
        digest: The broker's own :func:`~broker.core.frames.content_digest`.
        score: None on an ``AS_SENT`` scale.
        sequence: Its place in the order sent, from 0. Read only where the scale is ``AS_SENT``.
        tokens: :func:`~broker.core.frames.content_tokens` of its content.
    """

    provider: str
    frame: Frame
    digest: str
    score: LocalScore | None
    sequence: int
    tokens: int


class Slip(Struct, frozen=True, gc=False):
    """A frame that was dropped alone.

    Attributes:
        frame_id: As sent; empty where it had none or could not be read.
        digest: Of its content, or of the bytes that could not be read.
        reason: Stable UPPER_SNAKE reason, such as ``TITLE_EMPTY``.
        detail: Particulars, without any text of the frame's content.
        tokens: Of its content; 0 where it could not be read.
        shown_score: The score as sent (``NaN``, ``Infinity`` and 17 digits), for audits that ask; None: it had none.
    """

    frame_id: str
    digest: str
    reason: str
    detail: str
    tokens: int
    shown_score: str | None = None


class Lie(Struct, frozen=True, gc=False):
    """Why a whole lane was dropped.

    Attributes:
        reason: Stable UPPER_SNAKE reason, such as ``COST_MISMATCH``.
        detail: What was declared or granted, and what was found.
        frame_id: The frame that showed it; empty where none did.
    """

    reason: str
    detail: str
    frame_id: str = ""

    @property
    def told(self) -> str:
        """All of it in one line: the reason, the particulars and the frame."""
        by = f" (frame {self.frame_id!r})" if self.frame_id else ""
        return f"{self.reason}: {self.detail}{by}"


class Lane(Struct, frozen=True, gc=False):
    """One provider's frames in one request.

    Attributes:
        provider: Its name.
        scale: Of its scores; None where it was not asked and none is known.
        end: How it ended.
        message: Why, where it did not end ``COMPLETE`` or ``EMPTY``; at most 256 characters.
        candidates: Frames that passed the checks, in any order.
        slips: Frames that were dropped alone.
        lie: Set exactly when ``end`` is ``REFUSED``.
        retry_after: Seconds after which the provider may be asked again, where it sits out or had no room; None: of
            that nothing is known. Read only where the request fails; no composition depends on it.
        trimmed_to: What is composed of it at most, its best first, where its provider pushed and could not know how
            much that is; None: all.
    """

    provider: str
    scale: ScoreScale | None
    end: LaneEnd
    message: str = ""
    candidates: tuple[Candidate, ...] = ()
    slips: tuple[Slip, ...] = ()
    lie: Lie | None = None
    retry_after: float | None = None
    trimmed_to: Grant | None = None

    @property
    def offered(self) -> int:
        """Frames that the provider offered, good and bad."""
        return len(self.candidates) + len(self.slips)
