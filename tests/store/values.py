"""Compositions as the store's tests keep them."""

from __future__ import annotations

from collections.abc import Sequence

from broker.store.values import KeptComposition, KeptFrame, KeptLane

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
        frames=tuple(frames),
    )
