"""Saved compositions for the tests: real ones of the core, written as ``query`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker.cli.asked import Asked, asked_record
from broker.cli.encode import composition_records, update_record
from broker.client import ComposeCall, Record
from broker.core.compose import compose
from broker.core.composition import AuditState, Composition
from broker.core.frames import Provenance
from broker.core.lanes import LaneEnd, LaneUpdate
from broker.core.request import CompositionRequest, Floor
from tests.core.building import DISTANCE, POLICY, frame, lane

HOSTILE = (
    "</title><script>alert(1)</script><img src=x onerror=alert(2)> \"quoted\" 'single' \u202eevil\u2066 \x1b[2J &amp;"
)
"""What must show as text wherever it stands."""


def composed(**options: Any) -> tuple[Composition, CompositionRequest]:
    """Three lanes with shared evidence, a conflict, a floor, a slip, hostile text and a frame that does not fit."""
    options = {"max_tokens": 700, "include_local_scores": True, "question": "why?"} | options
    request = CompositionRequest(floors=(Floor("docs", "unit", 0.2),), **options)
    region = (Provenance("file", "file:///r.md", "L1-9"),)
    lanes = (
        lane(
            "docs",
            [
                frame("d1", 0.9, "The fold puts the best at both edges.", title="Fold", provenance=region),
                frame("d2", 0.8, "shared evidence", title="Shared"),
                frame(HOSTILE, 0.7, HOSTILE, title=HOSTILE),
                frame("d4", 0.1, "below the floor", title="Below"),
                frame("d5", 0.6, "x" * 4000, title="Too large"),
            ],
        ),
        lane(
            "notes",
            [
                frame("n1", 0.2, "shared evidence", title="Shared"),
                frame("n2", 0.3, "An older word on the same lines.", title="Fold", provenance=region),
                frame("n3", 0.4, "slip", title=""),
                frame("n4", 0.5, "Deals one frame a round.", title="Round robin"),
            ],
            DISTANCE,
        ),
        lane("late", [], end=LaneEnd.TIMED_OUT),
    )
    return replace(compose(lanes, request, POLICY), composition_id="c-1", request_id="r-1"), request


def records_of(
    composition: Composition, request: CompositionRequest | None, goal: str = "how?"
) -> list[dict[str, Any]]:
    """The records of one answer, with times; without a request: as a broker's store may give them."""
    if request is None:
        return list(composition_records(composition))
    scope = dict.fromkeys(("kinds", "anchors", "providers", "required_providers", "expect_pushes"), ())
    asked = Asked(goal=goal, composition=request, strategy_named=True, scope=scope)
    lanes = [
        {"provider": one.provider, "source": "ATTACHED", "max_frames": 9, "max_tokens": 9}
        for one in composition.summary.lanes
    ]
    accepted = {"event": "accepted", "composition_id": "c-1", "request_id": "r-1", "lanes": lanes}
    updates = []
    for index, one in enumerate(composition.summary.lanes):
        if one.offered:
            updates.append((LaneUpdate(one.provider, None, one.offered), 20.0 + index))
        updates.append((LaneUpdate(one.provider, one.end, one.offered, one.message), 30.0 + index * 10))
    *parts, completed = composition_records(composition)
    return [
        {**accepted, "request": asked_record(asked), "ms": 5.0},
        *({**update_record(update), "ms": ms} for update, ms in updates),
        *parts,
        {**completed, "ms": 80.5},
    ]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """Writes records as lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def document(path: Path, goal: str = "how?", **options: Any) -> Path:
    """A file of :func:`composed`."""
    composition, request = composed(**options)
    return write(path, records_of(composition, request, goal))


def record(*, content: bool, known: bool = True) -> Record:
    """:func:`composed`, as a broker gives it back that keeps content, or that does not."""
    composition, request = composed()
    composition = replace(composition, audit_state=AuditState.RECORDED)
    if not content:
        composition = replace(composition, placed=(), preamble="", closing="", separator="")
    call = ComposeCall(goal="how?" if content else "", composition=request, kinds=("doc",)) if known else None
    return Record(composition=composition, subject="agent", made_at=0.0, request=call, content=content)
