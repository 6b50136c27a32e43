"""What an audit says: a row for every frame offered, and how lanes, policy, budget and limits did. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from broker.core.frames import FrameRef
from broker.core.lanes import LaneEnd
from broker.core.request import Floor
from broker.core.scores import ScoreScale

INCLUDED = "INCLUDED"
"""Key of placed frames in :attr:`AuditSummary.reasons`."""


class Reason:
    """Why a frame was left out: one of these for every excluded frame."""

    INVALID = "INVALID"
    """A slip; the detail starts with its own name, such as ``TITLE_EMPTY``."""
    LANE_REFUSED = "LANE_REFUSED"
    """Its lane was dropped for a lie; the detail starts with the violation."""
    LANE_PARTIAL = "LANE_PARTIAL"
    """Its lane was cut short, and the request drops those."""
    BELOW_FLOOR = "BELOW_FLOOR"
    """Its own provider's floor."""
    PUSH_TRIMMED = "PUSH_TRIMMED"
    """Its lane was pushed, by one who could not know the grant, and the better frames of it take that up."""
    OUTSIDE_VALIDITY = "OUTSIDE_VALIDITY"
    """Its validity window does not hold the request's ``as_of``."""
    DUPLICATE = "DUPLICATE"
    """Another frame stands for the same evidence."""
    BELOW_RERANK_SCORE = "BELOW_RERANK_SCORE"
    """The reranker scored it below the request's ``min_score``."""
    RERANK_TRIMMED = "RERANK_TRIMMED"
    """It is not among the ``top_n`` that the reranker was to keep."""
    PROVIDER_FRAME_LIMIT = "PROVIDER_FRAME_LIMIT"
    """Its local rank is past ``max_frames_per_provider``."""
    SOURCE_FRAME_LIMIT = "SOURCE_FRAME_LIMIT"
    """It had to wait behind ``max_frames_per_source`` others of its source, and then there was no room."""
    FRAME_LIMIT = "FRAME_LIMIT"
    """``max_frames`` were already taken."""
    OVER_BUDGET = "OVER_BUDGET"
    """Its block costs more than what remained; or it does not, and the joined prompt counts more than its parts."""
    BLOCK_TOO_LARGE = "BLOCK_TOO_LARGE"
    """Its rendered block is larger than the operator allows."""


class AuditScore(Struct, frozen=True, gc=False):
    """A score as it was sent, shown with its provider and scale; 17 significant digits.

    Attributes:
        floor: The provider's floor in this request; empty: none.
    """

    provider: str
    scale_id: str
    value: str
    floor: str = ""


class AuditRow(Struct, frozen=True, gc=False):
    """One offered frame; every one has exactly one row.

    Attributes:
        provider: Whose it is.
        frame_id: As sent; empty where it had none.
        content_digest: Of its content, or of bytes that could not be read.
        included: Whether it stands in the prompt.
        reason: One of :class:`Reason` when excluded; empty when included.
        detail: The reason's particulars.
        lane_place: Its place in its lane after floors and its provider's own repeats, from 1; 0: none.
        local_rank: Its place in its lane once duplicates are gone, from 1; 0: none.
        rank: Its place over all lanes, from 1, after the reranker where one was applied; 0: not ranked.
        position: Its place in the prompt from the top, from 1; 0: not placed.
        cost: Tokens of its block with the separator behind it, in the mode ``NONE`` of its content; 0: it did not come
            so far.
        remaining: Tokens left when packing came to it, where the reason is ``OVER_BUDGET``; at least its cost where
            the frame fitted and the prompt, counted as one text, did not.
        duplicate_of: The kept copy, where the reason is ``DUPLICATE``.
        conflicts: Frames that name the same source region with other bytes.
        score: On request only.
        escaped_characters: Invisible and direction-changing characters made visible in its block.
        neutralised_fences: Fence look-alikes neutralised in its block.
        prior_rank: Its place over all lanes before the reranker, from 1; 0: not ranked, or none was applied.
        rerank_score: The reranker's score, 17 significant digits; empty: none.
        role_tokens: Role tokens of common chat formats in its content, which stand in its block as data.
        tokens: Tokens of its content, (UTF-8 bytes + 3) // 4: what the usage counts as offered.
        admitted: Whether it passed the checks and its floor: then the usage counts those tokens as admitted.
        recorded_at: When it says that it was recorded, where it has conflicts; else empty.
    """

    provider: str
    frame_id: str
    content_digest: str
    included: bool
    reason: str = ""
    detail: str = ""
    lane_place: int = 0
    local_rank: int = 0
    rank: int = 0
    position: int = 0
    cost: int = 0
    remaining: int = 0
    duplicate_of: FrameRef | None = None
    conflicts: tuple[FrameRef, ...] = ()
    score: AuditScore | None = None
    escaped_characters: int = 0
    neutralised_fences: int = 0
    prior_rank: int = 0
    rerank_score: str = ""
    role_tokens: int = 0
    tokens: int = 0
    admitted: bool = False
    recorded_at: str = ""


class LaneSummary(Struct, frozen=True, gc=False, kw_only=True):
    """How one lane ended.

    Attributes:
        violation: Stable reason of a lie, where ``end`` is ``REFUSED``.
        offered: Frames offered; as many rows carry the provider's name.
        admitted: Frames that passed the checks and the floor.
        placed: Frames placed.
    """

    provider: str
    end: LaneEnd
    message: str = ""
    scale: ScoreScale | None = None
    offered: int = 0
    admitted: int = 0
    placed: int = 0
    violation: str = ""


class StrategyRecord(Struct, frozen=True, gc=False, kw_only=True):
    """The ranking policy as it ran; parameters are JSON-like values with every default filled in."""

    name: str
    version: str
    params: Mapping[str, object]
    compares_raw_scores: bool
    repairs: tuple[str, ...] = ()


class BudgetRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What the budget went to, in tokens; ``preamble + frames + closing <= usable <= max_tokens``.

    Attributes:
        max_tokens: What the caller allowed.
        usable: ``max_tokens`` by the safety factor, rounded down.
        preamble: Of the text above the evidence.
        closing: Of the text below it.
        frames: Of all blocks, each counted with the separator behind it.
        counter: What counted them: ``bytes/4``, or a tokenizer's name and the digest of its file.
        safety_factor: What ``max_tokens`` was divided by; 1: nothing.
        split: How the lanes' grants were cut.
    """

    max_tokens: int
    usable: int
    preamble: int
    closing: int
    frames: int
    counter: str = "bytes/4"
    safety_factor: float = 1.0
    split: str = "FULL"

    @property
    def used(self) -> int:
        """Tokens of the whole prompt."""
        return self.preamble + self.frames + self.closing


class LimitsRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What bounds the frames taken, beside tokens; None: nothing does.

    Attributes:
        max_frames: Frames in all: by the caller or by the operator, whichever allows fewer.
        max_frames_per_provider: Frames of one provider, its best by local rank.
        max_frames_per_source: Frames of one source that are taken before any more of it.
        max_block_bytes: UTF-8 bytes of one rendered block, in the mode ``NONE`` of one content.
    """

    max_frames: int | None = None
    max_frames_per_provider: int | None = None
    max_frames_per_source: int | None = None
    max_block_bytes: int | None = None


class LimitConflict(Struct, frozen=True, gc=False):
    """A limit of the request that could not do what it says, because another was tighter.

    Attributes:
        limit: Its field's name, such as ``max_frames``.
        overridden_by: The tighter one's.
        message: Both, with their figures.
    """

    limit: str
    overridden_by: str
    message: str


class RenderRecord(Struct, frozen=True, gc=False, kw_only=True):
    """How the context was written.

    Attributes:
        mode: The mode's name.
        fence: The fence's; empty where the mode has none.
        restated_question: Whether the question was restated.
    """

    mode: str = "FENCED"
    fence: str = "SEALED"
    restated_question: bool = False


class FloorRecord(Struct, frozen=True, gc=False):
    """What one floor did."""

    floor: Floor
    used: bool
    dropped: int


class RerankOutcome(StrEnum):
    """Whether a reranker's scores made the order."""

    APPLIED = "APPLIED"
    FALLBACK = "FALLBACK"
    """They did not: the order before stands, and nothing was trimmed."""


class RerankRecord(Struct, frozen=True, gc=False, kw_only=True):
    """The second ranking as it ran.

    Attributes:
        name: The reranker's.
        version: What it says of itself; empty where it said nothing.
        candidates: Frames that it was to score at most.
        scored: Frames that it gave a score.
        unscored: Frames that it was given and gave none that is a finite number: they follow the scored ones in the
            order before.
        top_n: As asked; None: all are kept.
        min_score: As asked; None: any is kept.
        outcome: Whether its scores were used.
        message: Why not, where they were not.
    """

    name: str
    version: str
    candidates: int
    scored: int
    unscored: int
    top_n: int | None
    min_score: float | None
    outcome: RerankOutcome
    message: str = ""


class AuditSummary(Struct, frozen=True, gc=False, kw_only=True):
    """The audit without its rows; with them, enough to work out the order again.

    Attributes:
        rows: Audit rows in all.
        reasons: Frames by exclusion reason, placed ones under :data:`INCLUDED`.
        rerank: The second ranking; None: the request asked for none.
        placement: The one that was applied; where ``AUTO`` was asked for, what it came to.
        placement_asked: The one that was asked for.
        fold_min_tokens: From how many tokens on ``AUTO`` folds; 0 where it was not asked for.
        render: How the context was written.
        limit_conflicts: Limits that others overrode.
        limits: What bounded the frames taken.
    """

    strategy: StrategyRecord
    placement: str
    duplicates: str
    budget: BudgetRecord
    lanes: tuple[LaneSummary, ...]
    floors: tuple[FloorRecord, ...]
    rows: int
    reasons: Mapping[str, int]
    rerank: RerankRecord | None = None
    placement_asked: str = ""
    fold_min_tokens: int = 0
    render: RenderRecord = RenderRecord()
    limit_conflicts: tuple[LimitConflict, ...] = ()
    limits: LimitsRecord = LimitsRecord()
