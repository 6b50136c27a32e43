"""The limits of a composition, and those of a request that get in each other's way, so that one cannot do what it says.

====================================  ========================  ====================================================
limit                                 overridden by             where
====================================  ========================  ====================================================
``max_frames_per_provider``           ``max_frames``            it is above it: no lane can come to so many
``max_frames_per_source``             ``max_frames``            it is above it: no source can come to so many
``max_frames``                        ``max_frames_per_provider``  the lanes that were ranked cannot come to so many
``max_frames``                        ``rerank.top_n``          it is above it, and the reranker's scores were used
``rerank.top_n``                      ``max_frames``            it is above it, and the reranker's scores were used
====================================  ========================  ====================================================

Only limits that the request itself names are held against each other. A limit that never came to bear, since the tokens
or the frames ran out first, is no conflict: each of the two could have done what it says.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.audited import LimitConflict, LimitsRecord, RerankOutcome, RerankRecord
from broker.core.request import CompositionRequest, Policy

_FRAMES, _PROVIDER, _SOURCE, _TOP_N = "max_frames", "max_frames_per_provider", "max_frames_per_source", "rerank.top_n"


def limits_of(request: CompositionRequest, policy: Policy) -> LimitsRecord:
    """What bounds the frames of a request's composition."""
    return LimitsRecord(
        max_frames=min([most for most in (request.max_frames, policy.max_frames) if most is not None], default=None),
        max_frames_per_provider=request.max_frames_per_provider,
        max_frames_per_source=request.max_frames_per_source,
        max_block_bytes=policy.max_block_bytes,
    )


def limit_conflicts(request: CompositionRequest, lanes: int, rerank: RerankRecord | None) -> Iterator[LimitConflict]:
    """The conflicts, in the order of the table.

    Args:
        request: Its limits.
        lanes: Lanes of which any frame was ranked.
        rerank: The second ranking as it ran; None: there was none.
    """
    frames, of_provider, of_source = (
        request.max_frames, request.max_frames_per_provider, request.max_frames_per_source,
    )  # fmt: skip
    if frames is None:
        return
    for name, value in ((_PROVIDER, of_provider), (_SOURCE, of_source)):
        if value is not None and value > frames:
            yield _above(name, value, _FRAMES, frames)
    if of_provider is not None and lanes and of_provider * lanes < frames:
        yield LimitConflict(
            _FRAMES,
            _PROVIDER,
            f"{_FRAMES} is {frames}, and {_PROVIDER} allows {of_provider} in each lane that was ranked, "
            f"{of_provider * lanes} in all",
        )
    top_n = rerank.top_n if rerank is not None and rerank.outcome is RerankOutcome.APPLIED else None
    if top_n is not None and top_n < frames:
        yield _above(_FRAMES, frames, _TOP_N, top_n)
    if top_n is not None and top_n > frames:
        yield _above(_TOP_N, top_n, _FRAMES, frames)


def _above(limit: str, value: int, tighter: str, bound: int) -> LimitConflict:
    return LimitConflict(limit, tighter, f"{limit} is {value}, and {tighter} allows {bound}")
