"""The checks that every offered frame passes: what drops one frame (a slip), and what drops the whole lane (a lie).

A slip is a mistake that harms nobody else: the frame goes, and the rest of the lane stands. A lie is a declaration that
the broker can prove wrong, or more than the lane was granted: nothing that its sender says in this request is used.
Lies are looked for first, so that a frame that is both is a lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from broker.core.frames import Frame, digests_of, tokens_of
from broker.core.lanes import Candidate, Grant, Lane, LaneEnd, Lie, Slip, Unreadable
from broker.core.scores import Direction, LocalScore, ScoreScale, local_scores
from broker.core.slips import (
    DIGEST,
    MAX_PROVENANCE,
    MAX_RELATIONS,
    SURE_ID,
    SURE_LABEL,
    SURE_TITLE,
    Problem,
    content_bytes,
    declaration_problem,
    malformed_text,
    raw_digest,
    shown_id,
    slip_of,
    text_problems,
    wrong_moment,
)

MAX_MESSAGE_CHARACTERS = 256
"""Of a lane's closing message; what is longer is cut."""

_Kept = tuple[Frame, str, float | None, int, int]
"""A frame that passed the checks, the digest of its content, its score, its place in the order sent, its tokens."""

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

    def take(self, frames: Iterable[Frame | Unreadable], *, goes_on: bool = False, decoded: bool = False) -> Lie | None:
        """Checks one batch's frames in the order sent; once a lie was found it takes no further batch.

        The frames behind a lie in its own batch are counted and have their rows in the audit like those before it. One
        frame past the granted number ends the reading, however many follow, so that a flood is never read whole.

        Args:
            frames: A batch's frames, or some of them.
            goes_on: Whether they follow others of the same batch.
            decoded: Whether all of their texts were decoded from UTF-8, which can then hold them.

        Returns:
            The lie that ended the intake, now or earlier; None while there is none.
        """
        if self.lie is not None and not goes_on:
            return self.lie
        grant, scored, least, most = self.grant, self._scored, self._least, self._most
        batch = list(islice(frames, grant.max_frames + 1 - self.offered))
        contents = [
            None if isinstance(frame, Unreadable) else frame.content.encode() if decoded else content_bytes(frame)
            for frame in batch
        ]
        measured = [content or b"" for content in contents]
        kept: list[_Kept] = []
        for frame, content, digest, tokens in zip(
            batch, contents, digests_of(measured), tokens_of(map(len, measured)), strict=True
        ):
            self.offered = offered = self.offered + 1
            problem: Problem | None = None
            lie: Lie | None = None
            if isinstance(frame, Unreadable):
                lie = self._unreadable(frame)
            elif content is None:
                lie = self._malformed(frame)
            else:
                self._tokens = sent = self._tokens + tokens
                frame_id, score, declared = frame.id, frame.score, frame.content_digest
                # Nothing is wrong with most frames, which is told here in few steps. Of the others, and of some in
                # which nothing is wrong, it is told step by step.
                if not (
                    0 < len(frame_id) <= SURE_ID
                    and 0 < len(frame.title) <= SURE_TITLE
                    and len(frame.citation_label) <= SURE_LABEL
                    and len(frame.provenance) <= MAX_PROVENANCE
                    and len(frame.relations) <= MAX_RELATIONS
                    and (not (frame.recorded_at or frame.valid_from or frame.valid_to) or wrong_moment(frame) is None)
                    and (score is not None and least <= score <= most if scored else score is None)
                    and tokens > 0
                    and (frame.token_cost == tokens or frame.token_cost is None)
                    and (declared == digest or not declared)
                    and sent <= grant.max_tokens
                    and offered <= grant.max_frames
                ):
                    problem = self._problem(frame)
                    lie = self._over_count(frame_id) or self._false(frame, digest, tokens, len(content))
                elif declared:
                    # Of two texts that are the same, one is held.
                    digest = declared
                if problem is not None:
                    self._slips.append(slip_of(frame, digest, tokens, problem))
                else:
                    kept.append((frame, digest, score, offered - 1, tokens))
                    if (known := self._digests.setdefault(frame_id, digest)) != digest:
                        lie = lie or Lie("EQUIVOCATION", f"one id for {known} and {digest}", frame_id)
            if lie is not None and self.lie is None:
                self.lie = lie
        self._keep(kept)
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

    def _malformed(self, frame: Frame) -> Lie | None:
        # Its bytes are not defined, so that nothing declared about them can be held against it.
        field = malformed_text(frame)
        self._slips.append(slip_of(frame, raw_digest(frame.content), 0, ("TEXT_MALFORMED", f"{field}: not UTF-8")))
        return self._over_count("")

    def _keep(self, kept: Sequence[_Kept]) -> None:
        provider, scale = self.provider, self.scale
        scores: Sequence[LocalScore | None] = [None] * len(kept)
        if self._scored:
            # Strictly: on a scale with scores every kept frame has one, and none is ever another's.
            scores = local_scores(provider, scale, [score for _, _, score, _, _ in kept if score is not None])
        self._candidates += [
            Candidate(provider, frame, digest, score, place, tokens)
            for (frame, digest, _, place, tokens), score in zip(kept, scores, strict=True)
        ]

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
