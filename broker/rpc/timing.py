"""How the time of one request is shared out: to collect, to rerank, to record, and to answer in.

All moments are on the loop's clock, in seconds.
"""

from __future__ import annotations

import math

LAST_WORD = 0.03
"""Seconds of the caller's own deadline that are kept to say how an answer ended."""


def answer_by(started: float, callers: float | None, margin: float) -> float | None:
    """When everything but the answering must be done; None where the caller has all the time.

    Args:
        started: When the request was there.
        callers: The caller's own deadline; None: it named none.
        margin: Seconds that are kept to answer in.
    """
    if callers is None:
        return None
    # Two fifths at most: a caller in a hurry wants evidence too, and one that gives 100 ms has 20 of them to spare.
    return callers - min(margin, max(0.0, callers - started) * 0.4)


def collect_until(started: float, seconds: float, done_by: float | None, rerank_seconds: float = 0.0) -> float:
    """When collecting ends: the sooner of what the request says and what its caller's own deadline leaves.

    Args:
        started: When the request was there.
        seconds: How long the request may collect.
        done_by: See :func:`answer_by`.
        rerank_seconds: What its reranker may take.
    """
    if done_by is None:
        return started + seconds
    # Half at most is kept for a reranker: without evidence it has nothing to do.
    kept = min(rerank_seconds, max(0.0, done_by - started) / 2)
    return min(started + seconds, done_by - kept)


def record_by(done_by: float | None, callers: float | None) -> float:
    """Until when a composition may wait for its record: a store that takes its time must not cost the answer itself.

    Args:
        done_by: See :func:`answer_by`.
        callers: The caller's own deadline; None: it named none.
    """
    if done_by is None or callers is None:
        return math.inf
    return callers - min(LAST_WORD, (callers - done_by) / 2)
