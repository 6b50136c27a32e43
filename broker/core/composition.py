"""A composition: what was placed, what was left out and why, and what it cost. Plain immutable values.

The same values are made by :func:`~broker.core.compose.compose` and rebuilt by the client from the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from broker.core.audited import AuditRow, AuditSummary
from broker.core.frames import Frame, FrameRef


class AuditState(StrEnum):
    """Whether a composition is on record."""

    UNSPECIFIED = "UNSPECIFIED"
    """No one has said."""
    RECORDED = "RECORDED"
    """It was committed before its end was sent."""
    DEGRADED = "DEGRADED"
    """It could not be recorded, and the operator chose to answer without."""
    NOT_KEPT = "NOT_KEPT"
    """The operator keeps no records."""


class Placed(Struct, frozen=True, gc=False):
    """A frame in the prompt.

    Attributes:
        position: Its place from the top, from 1.
        total: Frames placed in all.
        provider: The provider whose copy was kept.
        local_rank: Its place among its provider's frames, from 1, duplicates gone.
        rank: Its place over all lanes, from 1, after the reranker where one was applied.
        frame: Without score and token_cost, with the broker's own digest and every copy's provenance.
        rendered: Its block as it stands in the prompt; empty in the mode ``NONE``.
        cost: Tokens of that block with the separator behind it; in the mode ``NONE`` of its content.
        citation_label: Unique in this composition.
        vouchers: Every provider's copy of the evidence, the kept one first.
    """

    position: int
    total: int
    provider: str
    local_rank: int
    rank: int
    frame: Frame
    rendered: str
    cost: int
    citation_label: str
    vouchers: tuple[FrameRef, ...]


class Citation(Struct, frozen=True, gc=False):
    """What a citation label stands for."""

    label: str
    frame: FrameRef
    position: int
    content_digest: str


class UsageFigures(Struct, frozen=True, gc=False, kw_only=True):
    """Frames and tokens: offered and admitted tokens count content, placed tokens count rendered blocks."""

    frames_offered: int = 0
    frames_admitted: int = 0
    frames_placed: int = 0
    tokens_offered: int = 0
    tokens_admitted: int = 0
    tokens_placed: int = 0


class Usage(Struct, frozen=True, gc=False):
    """What a composition took; the providers' figures sum to the total."""

    total: UsageFigures
    providers: Mapping[str, UsageFigures]


class Composition(Struct, frozen=True, gc=False, kw_only=True):
    """One request's whole result.

    Attributes:
        placed: Frames in prompt order.
        citations: In prompt order.
        audit: A row for every frame offered, in lane order, then local order.
        summary: The audit's summary.
        usage: Frames and tokens.
        preamble: The text above the evidence.
        closing: The text below it.
        separator: What stands between two blocks.
        composition_id: The broker's name for it; empty where no broker gave one.
        request_id: The request's name; empty where no broker took it.
        audit_state: Whether it is on record.
        prompt: The text for the model: preamble, every placed block in order, separators between, closing.
    """

    placed: tuple[Placed, ...]
    citations: tuple[Citation, ...]
    audit: tuple[AuditRow, ...]
    summary: AuditSummary
    usage: Usage
    preamble: str
    closing: str
    separator: str = ""
    composition_id: str = ""
    request_id: str = ""
    audit_state: AuditState = AuditState.UNSPECIFIED

    @property
    def prompt(self) -> str:
        """The text for the model: preamble, every placed block in order, separators between, closing."""
        return "".join((self.preamble, self.separator.join(placed.rendered for placed in self.placed), self.closing))
