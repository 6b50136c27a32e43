"""The checks that every offered frame passes: what drops one frame (a slip), and what drops the whole lane (a lie).

A slip is a mistake that harms nobody else: the frame goes, and the rest of the lane stands. A lie is a declaration that
the broker can prove wrong, or more than the lane was granted: nothing that its sender says in this request is used.
Lies are looked for first, so that a frame that is both is a lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from broker.core.frames import Frame, content_tokens, digest_of
from broker.core.lanes import Candidate, Grant, Lane, LaneEnd, Lie, Slip, Unreadable
from broker.core.scores import Direction, LocalScore, ScoreScale
from broker.core.slips import (
    DIGEST,
    Problem,
    content_bytes,
    declaration_problem,
    is_plain,
    malformed_text,
    raw_digest,
    shown_id,
    slip_of,
    text_problems,
)

MAX_MESSAGE_CHARACTERS = 256
"""Of a lane's closing message; what is longer is cut."""

_LARGEST = math.nextafter(math.inf, 0.0)


class LaneIntake:
    """Takes one provider's frames of one request, batch by batch.

    Attributes:
        provider: The provider.
        scale: Of its scores.
        grant: What the lane may hold.
        offered: Frames taken so far, good and bad.
        lie: What ended the intake; None: nothing did.
    """

    def __init__(self, provider: str, scale: ScoreScale, grant: Grant) -> None:
        self.provider = provider
        self.scale = scale
        self.grant = grant
        self.offered = 0
        self.lie: Lie | None = None
        self._scored = scale.direction is not Direction.AS_SENT
        self._least, self._most = max(scale.min, -_LARGEST), min(scale.max, _LARGEST)
        self._tokens = 0
        self._candidates: list[Candidate] = []
        self._slips: list[Slip] = []
        self._digests: dict[str, str] = {}

    def take(self, frames: Iterable[Frame | Unreadable], *, goes_on: bool = False) -> Lie | None:
        """Checks one batch's frames in the order sent; once a lie was found it takes no further batch.

        The frames behind a lie in its own batch are counted and have their rows in the audit like those before it. One
        frame past the granted number ends the reading, however many follow, so that a flood is never read whole.

        Args:
            frames: A batch's frames, or some of them.
            goes_on: Whether they follow others of the same batch.

        Returns:
            The lie that ended the intake, now or earlier; None while there is none.
        """
        for frame in frames if goes_on or self.lie is None else ():
            self.offered += 1
            lie = self._unreadable(frame) if isinstance(frame, Unreadable) else self._frame(frame)
            if lie is not None and self.lie is None:
                self.lie = lie
            if self.offered > self.grant.max_frames:
                break
        return self.lie

    def close(self, end: LaneEnd, message: str = "") -> Lane:
        """The lane as it stands.

        Args:
            end: How it ended. A lie makes it ``REFUSED``; otherwise ``COMPLETE`` and ``EMPTY``, and ``PARTIAL`` and
                ``TIMED_OUT``, are told apart by whether anything was offered.
            message: Why, for people; cut to 256 characters.
        """
        if self.lie is not None:
            end, message = LaneEnd.REFUSED, self.lie.told
        elif end.answered:
            end = LaneEnd.COMPLETE if self.offered else LaneEnd.EMPTY
        elif end in (LaneEnd.PARTIAL, LaneEnd.TIMED_OUT):
            end = LaneEnd.PARTIAL if self.offered else LaneEnd.TIMED_OUT
        return Lane(
            self.provider,
            self.scale,
            end,
            message[:MAX_MESSAGE_CHARACTERS],
            tuple(self._candidates),
            tuple(self._slips),
            self.lie,
        )

    def _unreadable(self, frame: Unreadable) -> Lie | None:
        detail = f"{frame.size} bytes" + (f", {frame.allowed} allowed" if frame.allowed else "")
        self._slips.append(Slip("", frame.digest, frame.reason, detail, 0))
        return self._over_count("")

    def _frame(self, frame: Frame) -> Lie | None:
        content = content_bytes(frame)
        if content is None:
            # Its bytes are not defined, so that nothing declared about them can be held against it.
            field = malformed_text(frame)
            self._slips.append(slip_of(frame, raw_digest(frame.content), 0, ("TEXT_MALFORMED", f"{field}: not UTF-8")))
            return self._over_count("")
        size = len(content)
        tokens = content_tokens(size)
        digest = digest_of(content)
        self._tokens += tokens
        problem: Problem | None = None
        lie: Lie | None = None
        if self._is_ordinary(frame, digest, tokens):
            # Of two texts that are the same, one is held.
            digest = frame.content_digest or digest
        else:
            problem = self._problem(frame)
            lie = self._over_count(frame.id) or self._false(frame, digest, tokens, size)
        if problem is not None:
            self._slips.append(slip_of(frame, digest, tokens, problem))
            return lie
        score = None if frame.score is None else LocalScore(self.provider, self.scale, frame.score)
        self._candidates.append(Candidate(self.provider, frame, digest, score, self.offered - 1, tokens))
        return lie or self._equivocation(frame.id, digest)

    def _is_ordinary(self, frame: Frame, digest: str, tokens: int) -> bool:
        """Whether it surely neither slips nor lies, equivocation aside; where not, the other checks tell what is wrong.

        Most frames are ordinary, so that this is all that is looked at in them.
        """
        score = frame.score
        return (
            is_plain(frame)
            and tokens > 0
            and (score is not None and self._least <= score <= self._most if self._scored else score is None)
            and (frame.content_digest == digest or not frame.content_digest)
            and (frame.token_cost == tokens or frame.token_cost is None)
            and self._tokens <= self.grant.max_tokens
            and self.offered <= self.grant.max_frames
        )

    def _over_count(self, frame_id: str) -> Lie | None:
        if self.offered <= self.grant.max_frames:
            return None
        detail = f"sent {self.offered} frames so far, granted {self.grant.max_frames}"
        return Lie("COUNT_EXCEEDED", detail, shown_id(frame_id))

    def _false(self, frame: Frame, digest: str, tokens: int, size: int) -> Lie | None:
        if frame.token_cost is not None and frame.token_cost != tokens:
            detail = f"declared {frame.token_cost}, computed {tokens} from {size} bytes"
            return Lie("COST_MISMATCH", detail, shown_id(frame.id))
        declared = frame.content_digest
        if declared and declared != digest and DIGEST.fullmatch(declared):
            return Lie("DIGEST_MISMATCH", f"declared {declared}, computed {digest}", shown_id(frame.id))
        if self._tokens > self.grant.max_tokens:
            detail = f"sent {self._tokens} tokens so far, granted {self.grant.max_tokens}"
            return Lie("TOKENS_EXCEEDED", detail, shown_id(frame.id))
        return None

    def _equivocation(self, frame_id: str, digest: str) -> Lie | None:
        known = self._digests.setdefault(frame_id, digest)
        if known == digest:
            return None
        return Lie("EQUIVOCATION", f"one id for {known} and {digest}", frame_id)

    def _problem(self, frame: Frame) -> Problem | None:
        return next(text_problems(frame), None) or self._score_problem(frame.score) or declaration_problem(frame)

    def _score_problem(self, score: float | None) -> Problem | None:
        # The details name the scale and never the score: an audit shows scores on request only.
        scale = self.scale
        if scale.direction is Direction.AS_SENT:
            return None if score is None else ("SCORE_UNEXPECTED", f"scale {scale.id!r} sends no scores")
        if score is None:
            return "SCORE_MISSING", f"scale {scale.id!r} needs one"
        if not math.isfinite(score):
            return "SCORE_NOT_FINITE", f"scale {scale.id!r}"
        if not scale.holds(score):
            return "SCORE_RANGE", f"scale {scale.id!r} goes from {scale.min:.17g} to {scale.max:.17g}"
        return None
