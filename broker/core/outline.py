"""A composition whose content was not kept, with what its audit still says of the placed frames.

An audit names every placed frame with its place, rank and cost, and the citations have the labels. So a composition can
be drawn and explained without a byte of what was placed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from broker.core.audited import AuditRow
from broker.core.composition import Composition, Placed
from broker.core.frames import Frame, FrameRef
from broker.core.render.escaping import unescape


def outlined(composition: Composition) -> Composition:
    """The composition with placed frames that have names, labels, places and costs, and neither content nor blocks.

    Args:
        composition: With audit and citations, and no placed frames.
    """
    labels = {citation.position: citation.label for citation in composition.citations}
    # Those that vouch: each other provider's best copy, which holds a lane place.
    copies: dict[FrameRef, list[FrameRef]] = defaultdict(list)
    for row in composition.audit:
        if row.duplicate_of is not None and row.lane_place:
            copies[row.duplicate_of].append(FrameRef(row.provider, row.frame_id))
    rows = sorted((row for row in composition.audit if row.included), key=lambda row: row.position)
    placed = tuple(
        Placed(
            position=row.position,
            total=len(rows),
            provider=row.provider,
            local_rank=row.local_rank,
            rank=row.rank,
            frame=Frame(row.frame_id, _own_label(row, labels), "", content_digest=row.content_digest),
            rendered="",
            cost=row.cost,
            citation_label=labels.get(row.position, ""),
            vouchers=(ref := FrameRef(row.provider, row.frame_id), *copies[ref]),
        )
        for row in rows
    )
    return replace(composition, placed=placed)


def _own_label(row: AuditRow, labels: Mapping[int, str]) -> str:
    """A frame's label without the name by which it is told from others."""
    return unescape(labels.get(row.position, "")).removesuffix(f" ({row.provider}/{row.frame_id})")
