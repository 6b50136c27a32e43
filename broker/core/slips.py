"""What is wrong with one frame by itself, whatever its lane: mistakes that drop it alone.

:mod:`broker.core.intake` adds what depends on the lane: the scale of its scores, its grant, and what else it sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from broker.core.frames import Frame, digest_of
from broker.core.lanes import Slip
from broker.core.validity import moment

# What a frame may hold, texts in UTF-8 bytes.
MAX_ID_BYTES = 512
MAX_TITLE_BYTES = 1024
MAX_LABEL_BYTES = 512
MAX_PROVENANCE = 64
MAX_RELATIONS = 64

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""What a declared digest looks like."""

Problem = tuple[str, str]
"""The reason and the detail of a :class:`~broker.core.lanes.Slip`."""

SURE_ID = MAX_ID_BYTES // 4
SURE_TITLE = MAX_TITLE_BYTES // 4
SURE_LABEL = MAX_LABEL_BYTES // 4
"""Characters that are within the limits above whatever they are: one takes at most four bytes."""


def content_bytes(frame: Frame) -> bytes | None:
    """The content in UTF-8; None where that cannot hold one of the frame's texts (lone surrogates)."""
    # As one text: most are ASCII, which is then told without a look at each.
    beside = (
        f"{frame.id}{frame.title}{frame.citation_label}{frame.kind}{frame.uri}{frame.content_digest}"
        f"{frame.valid_from}{frame.valid_to}{frame.recorded_at}"
    )
    for step in frame.provenance:
        beside += f"{step.type}{step.uri}{step.range}{step.digest}{step.method}{step.by}"
    for tie in frame.relations:
        beside += f"{tie.rel}{tie.target_uri}{tie.display_name}"
    try:
        if not beside.isascii():
            beside.encode()
        return frame.content.encode()
    except UnicodeEncodeError:
        return None


def malformed_text(frame: Frame) -> str:
    """Name of the first field that UTF-8 cannot hold, where there is one."""
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
        *(
            ("provenance", text)
            for step in frame.provenance
            for text in (step.type, step.uri, step.range, step.digest, step.method, step.by)
        ),
        *(("relations", text) for tie in frame.relations for text in (tie.rel, tie.target_uri, tie.display_name)),
    ]
    return next(field for field, text in texts if not _is_encodable(text))


def text_problems(frame: Frame) -> Iterator[Problem]:
    """What its texts and lists are missing, or have too much of."""
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


def declaration_problem(frame: Frame) -> Problem | None:
    """A declaration that has not the form of one."""
    if frame.content_digest and not DIGEST.fullmatch(frame.content_digest):
        return "DIGEST_MALFORMED", "content_digest: not 'sha256:' and 64 lower-case hex digits"
    field = wrong_moment(frame)
    if field is not None:
        return "TIMESTAMP_MALFORMED", f"{field}: not a moment written YYYY-MM-DDTHH:MM:SS[.f]Z"
    return None


def wrong_moment(frame: Frame) -> str | None:
    """Name of the first field that is to name a moment and does not."""
    if frame.valid_from and moment(frame.valid_from) is None:
        return "valid_from"
    if frame.valid_to and moment(frame.valid_to) is None:
        return "valid_to"
    if frame.recorded_at and moment(frame.recorded_at) is None:
        return "recorded_at"
    return None


def slip_of(frame: Frame, digest: str, tokens: int, problem: Problem) -> Slip:
    """The slip of a frame; ``digest`` and ``tokens`` are its content's."""
    reason, detail = problem
    return Slip(shown_id(frame.id), digest, reason, detail, tokens, _shown_score(frame.score))


def shown_id(frame_id: str) -> str:
    """An id that any audit can carry: valid UTF-8, within the limit."""
    return frame_id.encode(errors="backslashreplace")[:MAX_ID_BYTES].decode(errors="ignore")


def raw_digest(text: str) -> str:
    """Of a text that need be no UTF-8."""
    return digest_of(text.encode(errors="surrogatepass"))


def _longer(text: str, limit: int) -> bool:
    return len(text) > limit or (not text.isascii() and len(text.encode()) > limit)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown_score(score: float | None) -> str | None:
    if score is None:
        return None
    if math.isnan(score):
        return "NaN"
    if math.isinf(score):
        return "Infinity" if score > 0 else "-Infinity"
    return format(score, ".17g")
