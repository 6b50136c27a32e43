"""What a caller asks of a composition, and what the operator allows, as plain immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from broker.core.counting import BYTES_PER_4, TokenCounter
from broker.core.handles import RankingPlugin
from broker.core.strategies import RoundRobin, Strategy

DEFAULT_CANDIDATES = 50
"""Frames that a reranker scores where the request does not say: a pool wide enough to choose a few survivors from."""

DEFAULT_FOLD_MIN_TOKENS = 4096
"""Tokens of a prompt from which on ``AUTO`` folds: models read the middle worse only where there is much of it."""


class Duplicates(Enum):
    """Which frames are the same evidence."""

    SAME_BYTES = "SAME_BYTES"
    SAME_BYTES_OR_SOURCE = "SAME_BYTES_OR_SOURCE"


class Placement(Enum):
    """Where the taken frames stand in the prompt."""

    FOLD = "FOLD"
    RANK_ORDER = "RANK_ORDER"
    REVERSE_RANK = "REVERSE_RANK"
    CANONICAL = "CANONICAL"
    AUTO = "AUTO"


class Fence(Enum):
    """How a frame's fence is made."""

    SEALED = "SEALED"
    PLAIN = "PLAIN"


class RenderMode(Enum):
    """In which form the context is written."""

    FENCED = "FENCED"
    MARKDOWN = "MARKDOWN"
    JSON = "JSON"
    NONE = "NONE"

    @property
    def data_alone(self) -> bool:
        """Whether the output is data and nothing else: no text about it, no fences, no place for a question."""
        return self in (RenderMode.JSON, RenderMode.NONE)


class BudgetSplit(Enum):
    """What each lane is granted of the request's budget of tokens."""

    FULL = "FULL"
    EQUAL = "EQUAL"
    WEIGHTED = "WEIGHTED"


class PartialLanes(Enum):
    """What becomes of the frames of a lane that was cut short."""

    KEEP = "KEEP"
    DROP = "DROP"


class Floor(Struct, frozen=True, gc=False):
    """The least score that a frame of one named provider may have.

    Attributes:
        provider: The provider.
        scale_id: The id of that provider's own scale.
        value: In that scale. A score that equals it is kept; on a lower-is-better scale it is the highest kept.
    """

    provider: str
    scale_id: str
    value: float


class Rerank(Struct, frozen=True, gc=False):
    """A second ranking, by one scorer that scores every candidate itself, so that its numbers share one scale.

    Attributes:
        name: A reranker's, as the operator set it up.
        candidates: Frames that it scores, best first by the strategy; 1 to 1,000. The others follow in their order.
        top_n: Frames that it keeps of all, 1 to ``candidates``; None: all, those that it did not score too.
        min_score: The least score kept, in the reranker's own scale, finite; None: any. A score that equals it is kept,
            and so is a frame without one.
    """

    name: str
    candidates: int = DEFAULT_CANDIDATES
    top_n: int | None = None
    min_score: float | None = None


class CompositionRequest(Struct, frozen=True, gc=False, kw_only=True):
    """What the caller asks of one composition.

    Attributes:
        max_tokens: Tokens that the whole prompt may take, at least 1.
        strategy: The ranking policy.
        floors: At most one for a provider.
        duplicates: Which frames are the same evidence.
        placement: Where frames stand.
        partial_lanes: What becomes of frames of lanes that were cut short.
        max_frames: Frames that may be placed; None for no limit.
        max_frames_per_provider: Frames of one provider that may be placed, its best by local rank; None for no limit.
        max_frames_per_source: Frames of one source that are placed before any more of it; None for no limit.
        tokenizer: Name of what counts tokens, one of :attr:`Policy.counters`.
        safety_factor: Divides ``max_tokens``, 1 to 4.
        budget_split: What each lane was granted, for the record.
        fold_min_tokens: Tokens of a prompt from which on the placement ``AUTO`` folds.
        as_of: Moment that a frame's validity window must hold, ``YYYY-MM-DDTHH:MM:SS[.f]Z``; empty: none excludes.
        mode: The form that the context is written in.
        fence: How fences are made.
        question: Restated above and below the evidence, as quoted text of the caller; empty: not restated.
        include_local_scores: Whether audit rows carry scores.
        rerank: The second ranking; None: the strategy's order is the last one.
    """

    max_tokens: int
    strategy: Strategy = field(default_factory=RoundRobin)
    floors: tuple[Floor, ...] = ()
    duplicates: Duplicates = Duplicates.SAME_BYTES
    placement: Placement = Placement.FOLD
    partial_lanes: PartialLanes = PartialLanes.KEEP
    max_frames: int | None = None
    max_frames_per_provider: int | None = None
    max_frames_per_source: int | None = None
    tokenizer: str = BYTES_PER_4.name
    safety_factor: float = 1.0
    budget_split: BudgetSplit = BudgetSplit.FULL
    fold_min_tokens: int = DEFAULT_FOLD_MIN_TOKENS
    as_of: str = ""
    mode: RenderMode = RenderMode.FENCED
    fence: Fence = Fence.SEALED
    question: str = ""
    include_local_scores: bool = False
    rerank: Rerank | None = None


class Policy(Struct, frozen=True, kw_only=True):
    """What the operator sets for every composition.

    Attributes:
        seal_key: Secret of the seals, at least 16 bytes. The same key gives the same bytes.
        lane_order: Providers in configured order; all others follow by name.
        max_block_bytes: UTF-8 bytes of one rendered block; a frame beyond it is excluded.
        max_frames: Frames that any composition may have placed; None for no limit.
        plugins: Ranking policies that the operator allows beside the built-in ones, by name.
        counters: What may count tokens, by name; ``bytes/4`` always can.
    """

    seal_key: bytes
    lane_order: tuple[str, ...] = ()
    max_block_bytes: int = 256 * 1024
    max_frames: int | None = None
    plugins: Mapping[str, RankingPlugin] = field(default_factory=dict)
    counters: Mapping[str, TokenCounter] = field(default_factory=lambda: {BYTES_PER_4.name: BYTES_PER_4})
