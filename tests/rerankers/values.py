"""Candidates as a plan has them."""

from __future__ import annotations

from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Rerank
from broker.core.rerank import RerankCandidate
from tests.core.building import POLICY, frame, lane


def candidates(*contents: str, title: str = "t") -> tuple[RerankCandidate, ...]:
    """Candidates with these contents, in this order."""
    frames = [frame(f"f{i:04}", 1 - i / 10_000, content, title=title) for i, content in enumerate(contents)]
    request = CompositionRequest(max_tokens=10**6, rerank=Rerank("any", 1000))
    return rank_lanes([lane("a", frames)], request, POLICY).candidates
