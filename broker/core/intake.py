"""The checks that every offered frame passes: what drops one frame (a slip), and what drops the whole lane (a lie).

A slip is a mistake that harms nobody else: the frame goes, and the rest of the lane stands. A lie is a declaration that
the broker can prove wrong, or more than the lane was granted: nothing that its sender says in this request is used.
Lies are looked for first, so that a frame that is both is a lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from broker.core.frames import Frame, content_tokens, digest_of
from broker.core.lanes import Candidate, Grant, Lane, LaneEnd, Lie, Slip, Unreadable
from broker.core.scores import Direction, LocalScore, ScoreScale
from broker.core.validity import moment

# What a frame may hold, texts in UTF-8 bytes; beyond it is a slip. A lane's closing message is cut instead.
MAX_ID_BYTES = 512
MAX_TITLE_BYTES = 1024
MAX_LABEL_BYTES = 512
MAX_PROVENANCE = 64
MAX_RELATIONS = 64
MAX_MESSAGE_CHARACTERS = 256

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_Problem = tuple[str, str]


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
        self._tokens = 0
        self._candidates: list[Candidate] = []
        self._slips: list[Slip] = []
        self._digests: dict[str, str] = {}

    def take(self, frames: Iterable[Frame | Unreadable]) -> Lie | None:
        """Checks one batch's frames in the order sent; once a lie was found it takes no further batch.

        The frames behind a lie in its own batch are counted and have their rows in the audit like those before it. One
        frame past the granted number ends the reading, however many follow, so that a flood is never read whole.

        Returns:
            The lie that ended the intake, now or earlier; None while there is none.
        """
        for frame in frames if self.lie is None else ():
            self.offered += 1
            lie = self._unreadable(frame) if isinstance(frame, Unreadable) else self._frame(frame)
            self.lie = self.lie or lie
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
        field = _malformed_text(frame)
        if field is not None:
            # Its bytes are not defined, so that nothing declared about them can be held against it.
            self._slips.append(_slip(frame, _raw_digest(frame.content), 0, ("TEXT_MALFORMED", f"{field}: not UTF-8")))
            return self._over_count("")
        content = frame.content.encode()
        size = len(content)
        tokens = content_tokens(size)
        digest = digest_of(content)
        self._tokens += tokens
        problem = self._problem(frame)
        if problem is None:
            score = None if frame.score is None else LocalScore(self.provider, self.scale, frame.score)
            self._candidates.append(Candidate(self.provider, frame, digest, score, self.offered - 1, tokens))
        else:
            self._slips.append(_slip(frame, digest, tokens, problem))
        lie = self._over_count(frame.id) or self._false(frame, digest, tokens, size)
        if lie is None and problem is None:
            lie = self._equivocation(frame.id, digest)
        return lie

    def _over_count(self, frame_id: str) -> Lie | None:
        if self.offered <= self.grant.max_frames:
            return None
        detail = f"sent {self.offered} frames so far, granted {self.grant.max_frames}"
        return Lie("COUNT_EXCEEDED", detail, _shown_id(frame_id))

    def _false(self, frame: Frame, digest: str, tokens: int, size: int) -> Lie | None:
        if frame.token_cost is not None and frame.token_cost != tokens:
            detail = f"declared {frame.token_cost}, computed {tokens} from {size} bytes"
            return Lie("COST_MISMATCH", detail, _shown_id(frame.id))
        declared = frame.content_digest
        if declared != digest and _DIGEST.fullmatch(declared):
            return Lie("DIGEST_MISMATCH", f"declared {declared}, computed {digest}", _shown_id(frame.id))
        if self._tokens > self.grant.max_tokens:
            detail = f"sent {self._tokens} tokens so far, granted {self.grant.max_tokens}"
            return Lie("TOKENS_EXCEEDED", detail, _shown_id(frame.id))
        return None

    def _equivocation(self, frame_id: str, digest: str) -> Lie | None:
        known = self._digests.setdefault(frame_id, digest)
        if known == digest:
            return None
        return Lie("EQUIVOCATION", f"one id for {known} and {digest}", frame_id)

    def _problem(self, frame: Frame) -> _Problem | None:
        return next(_text_problems(frame), None) or self._score_problem(frame.score) or _declaration_problem(frame)

    def _score_problem(self, score: float | None) -> _Problem | None:
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


def _text_problems(frame: Frame) -> Iterator[_Problem]:
    if not frame.id:
        yield "ID_EMPTY", "a frame needs an id"
    if _longer(frame.id, MAX_ID_BYTES):
        yield "ID_TOO_LONG", f"{len(frame.id.encode())} bytes, {MAX_ID_BYTES} allowed; shown cut"
    if not frame.title:
        yield "TITLE_EMPTY", "a frame needs a title"
    if _longer(frame.title, MAX_TITLE_BYTES):
        yield "TITLE_TOO_LONG", f"{len(frame.title.encode())} bytes, {MAX_TITLE_BYTES} allowed"
    if not frame.content:
        yield "CONTENT_EMPTY", "a frame needs content"
    if _longer(frame.citation_label, MAX_LABEL_BYTES):
        yield "LABEL_TOO_LONG", f"{len(frame.citation_label.encode())} bytes, {MAX_LABEL_BYTES} allowed"
    if len(frame.provenance) > MAX_PROVENANCE:
        yield "PROVENANCE_TOO_MANY", f"more than {MAX_PROVENANCE} entries"
    if len(frame.relations) > MAX_RELATIONS:
        yield "RELATIONS_TOO_MANY", f"more than {MAX_RELATIONS} entries"


def _declaration_problem(frame: Frame) -> _Problem | None:
    if frame.content_digest and not _DIGEST.fullmatch(frame.content_digest):
        return "DIGEST_MALFORMED", "content_digest: not 'sha256:' and 64 lower-case hex digits"
    for field in ("valid_from", "valid_to", "recorded_at"):
        text: str = getattr(frame, field)
        if text and moment(text) is None:
            return "TIMESTAMP_MALFORMED", f"{field}: not a moment written YYYY-MM-DDTHH:MM:SS[.f]Z"
    return None


def _longer(text: str, limit: int) -> bool:
    return len(text) > limit or (not text.isascii() and len(text.encode()) > limit)


def _is_ascii(frame: Frame) -> bool:
    """Whether every text of a frame is ASCII, as most frames are: told without a look at each."""
    texts = [
        frame.content, frame.id, frame.title, frame.citation_label, frame.kind, frame.uri, frame.content_digest,
        frame.valid_from, frame.valid_to, frame.recorded_at,
    ]  # fmt: skip
    for step in frame.provenance:
        texts += (step.type, step.uri, step.range, step.digest, step.method, step.by)
    for tie in frame.relations:
        texts += (tie.rel, tie.target_uri, tie.display_name)
    return "".join(texts).isascii()


def _malformed_text(frame: Frame) -> str | None:
    """Name of the first field that UTF-8 cannot hold (lone surrogates); None: all can be encoded."""
    steps, relations = frame.provenance, frame.relations
    if _is_ascii(frame):
        return None
    texts = [
        ("content", frame.content),
        ("id", frame.id),
        ("title", frame.title),
        ("citation_label", frame.citation_label),
        ("kind", frame.kind),
        ("uri", frame.uri),
        ("content_digest", frame.content_digest),
        ("valid_from", frame.valid_from),
        ("valid_to", frame.valid_to),
        ("recorded_at", frame.recorded_at),
        *(("provenance", text) for s in steps for text in (s.type, s.uri, s.range, s.digest, s.method, s.by)),
        *(("relations", text) for r in relations for text in (r.rel, r.target_uri, r.display_name)),
    ]
    for field, text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                return field
    return None


def _slip(frame: Frame, digest: str, tokens: int, problem: _Problem) -> Slip:
    reason, detail = problem
    return Slip(_shown_id(frame.id), digest, reason, detail, tokens, _shown_score(frame.score))


def _shown_id(frame_id: str) -> str:
    """An id that any audit can carry: valid UTF-8, within the limit."""
    return frame_id.encode(errors="backslashreplace")[:MAX_ID_BYTES].decode(errors="ignore")


def _shown_score(score: float | None) -> str | None:
    if score is None:
        return None
    if math.isnan(score):
        return "NaN"
    if math.isinf(score):
        return "Infinity" if score > 0 else "-Infinity"
    return format(score, ".17g")


def _raw_digest(text: str) -> str:
    return digest_of(text.encode(errors="surrogatepass"))
