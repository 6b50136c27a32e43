"""Packing and placement worked out again from a composition; see :mod:`broker.core.replay`.

Costs are taken as the audit has them: whether they are the blocks' own is counted in :mod:`broker.core.recounting`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from broker.core.audited import AuditRow, BudgetRecord, Reason
from broker.core.checks import Check, checked
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4
from broker.core.packing import pack
from broker.core.placement import place, settled
from broker.core.rebuilding import OVERSIZED, RERANK_REASONS, Contradiction, rebuilt_lanes
from broker.core.request import CompositionRequest, Placement

_TOLD = "which frames fit, from their costs in ranked order"


def packing_again(composition: Composition, _request: CompositionRequest | None) -> Check:
    """Which frames fit."""
    budget, reasons = composition.summary.budget, {row.reason for row in composition.audit}
    joined = any(_too_much_joined(row, budget) for row in composition.audit)
    if joined and composition.summary.limits.max_frames_per_source is not None:
        return checked(
            "", _TOLD, None, "a frame that was taken back had its source's turn, which is not in the document"
        )
    untold = []
    if Reason.BLOCK_TOO_LARGE in reasons:
        untold.append("the sizes of blocks that were too large are not in the document")
    if Reason.SOURCE_FRAME_LIMIT in reasons:
        untold.append("the sources of frames left out are not in the document: those that waited are taken as they are")
    if joined:
        untold.append(f"what the joined prompt counts is known to {budget.counter} alone")
    return checked("", _TOLD, _packed_otherwise(composition), "; ".join(untold))


def packing_without_content(composition: Composition, request: CompositionRequest | None) -> Check:
    """Which frames fit, where the placed frames do not say what their sources are."""
    if composition.summary.limits.max_frames_per_source is not None:
        return checked("", _TOLD, None, "what may have waited for its source is not known: no content was kept")
    return packing_again(composition, request)


def placement_again(composition: Composition, _request: CompositionRequest | None) -> Check:
    """Where the frames that fit stand."""
    named = composition.summary.placement
    told = f"where {named} puts the frames that fit"
    if named not in Placement.__members__ or named == Placement.AUTO.value:
        return checked("", told, None, f"{named!r} is a placement that this version does not know")
    taken = sorted(composition.placed, key=lambda placed: placed.rank)
    if any(not placed.vouchers for placed in taken):
        raise Contradiction("a placed frame has no name")
    ordered = place(taken, Placement[named], lambda placed: placed.vouchers[0])
    differences = [
        f"{placed.provider}/{placed.frame.id} stands at {placed.position}, and belongs at {number}"
        for number, placed in enumerate(ordered, 1)
        if placed.position != number
    ]
    summary = composition.summary
    if summary.placement_asked == Placement.AUTO.value:
        used = summary.budget.used
        came_to = settled(Placement.AUTO, used, summary.fold_min_tokens).value
        if named != came_to:
            differences.insert(0, f"AUTO comes to {came_to} with {used} tokens, and not to {named}")
    return checked("", told, differences)


def _packed_otherwise(composition: Composition) -> Iterator[str]:
    budget, limits = composition.summary.budget, composition.summary.limits
    for placed in composition.placed:
        size = len((placed.rendered or placed.frame.content).encode())
        if limits.max_block_bytes is not None and size > limits.max_block_bytes:
            yield f"{placed.provider}/{placed.frame.id}: its block has {size} bytes of {limits.max_block_bytes} allowed"
    ranked = sorted(
        (one for lane in rebuilt_lanes(composition) for one in lane if one.row.rank), key=lambda one: one.row.rank
    )
    offered = [one for one in ranked if one.row.reason not in RERANK_REASONS | {Reason.SOURCE_FRAME_LIMIT}]
    frames = {placed.vouchers[0]: placed.frame for placed in composition.placed if placed.vouchers}
    for one in offered:
        one.entry.local_rank = one.row.local_rank
        if one.ref in frames:
            one.entry.candidate = replace(one.entry.candidate, frame=frames[one.ref])
    space = budget.usable - budget.preamble - budget.closing
    pack([one.entry for one in offered], space, replace(limits, max_block_bytes=OVERSIZED - 1))
    for one in offered:
        expected = ("", 0) if _too_much_joined(one.row, budget) else (one.row.reason, one.row.remaining)
        if (one.entry.reason, one.entry.remaining) != expected:
            yield f"{one.shown}: {one.entry.reason or 'fits'}"


def _too_much_joined(row: AuditRow, budget: BudgetRecord) -> bool:
    """Whether a frame fitted, and the prompt with it, counted as one text, did not."""
    fitted = row.reason == Reason.OVER_BUDGET and row.cost <= row.remaining
    return fitted and budget.counter != BYTES_PER_4.name
