"""Compositions as the store's tests keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.store.values import KeptComposition, KeptFrames, KeptLane


class KeptFrame(NamedTuple):
    """One frame of those that are kept."""

    provider: str
    frame_id: str
    reason: str
    source: str = ""


def together(frames: Iterable[KeptFrame]) -> tuple[KeptFrames, ...]:
    """Frames as they are kept: those of one provider and fate together."""
    fates: dict[tuple[str, str], list[KeptFrame]] = {}
    for frame in frames:
        fates.setdefault((frame.provider, frame.reason), []).append(frame)
    return tuple(
        KeptFrames(provider, reason, [each.frame_id for each in own], [each.source for each in own])
        for (provider, reason), own in fates.items()
    )


LANE = KeptLane(provider="a", end="COMPLETE", offered=2, admitted=2, placed=1, tokens_placed=7)


def kept(
    name: str,
    *,
    tenant: str = "acme",
    made_at: int = 1_000_000_000_000,
    lanes: Sequence[KeptLane] = (
        KeptLane(provider="a", end="COMPLETE", offered=2, admitted=2, placed=1, tokens_placed=7),
    ),
    frames: Sequence[KeptFrame] = (KeptFrame("a", "f1", ""), KeptFrame("a", "f2", "OVER_BUDGET")),
    parts: Sequence[bytes] = (b"one", b"two"),
) -> KeptComposition:
    return KeptComposition(
        tenant=tenant,
        composition_id=name,
        request_id=f"request-{name}",
        subject="agent",
        made_at=made_at,
        strategy="round_robin",
        head=f"head {name}".encode(),
        parts=tuple(parts),
        lanes=tuple(lanes),
        frames=together(frames),
    )
