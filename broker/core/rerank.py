"""Reranking: a second order of the first frames, by the numbers of one scorer that scored each of them itself.

Such numbers share one scale, which no two providers' scores do, and so they may be compared, cut at a minimum and cut
to a count: here and nowhere else. The scorer is the operator's, and sees a frame's words and what the lanes say of it.
It never sees a provider's score.

What is left open by a score is settled by the order before: equal scores keep it, frames without a score keep it behind
those with one, and frames that were not given to the reranker keep it behind all of these. A minimum drops what was
measured below it and nothing else, so that a frame without a score is never dropped in the name of a number that does
not exist; a count keeps so many from the top, whatever they are.

Where there are no scores, the order before stands and nothing is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from broker.core.audited import Reason, RerankOutcome, RerankRecord
from broker.core.entries import Entry, stand_in_order
from broker.core.handles import Handle
from broker.core.lexical import Vote
from broker.core.request import CompositionRequest, Rerank
from broker.core.votes import votes_of


class RerankCandidate(Struct, frozen=True, gc=False):
    """What a reranker sees of a frame.

    Attributes:
        title: As sent; untrusted.
        content: As sent; untrusted.
        handle: Its names, ranks and costs, as a strategy sees them.
        votes: What the lanes say of it.
    """

    title: str
    content: str
    handle: Handle
    votes: tuple[Vote, ...]


class Reranked(Struct, frozen=True, gc=False):
    """What came of a rerank.

    Attributes:
        scores: One for each candidate, in their order, higher is better; None or a number that is not finite: it has
            none. None as a whole: there are no scores, for the reason that ``message`` gives.
        version: What the reranker says of itself.
        message: Why there are no scores, without any text of a frame's.
    """

    scores: tuple[float | None, ...] | None
    version: str = ""
    message: str = ""


def candidates_of(
    request: CompositionRequest, ranked: Sequence[Entry], handles: Sequence[Handle], order: Sequence[int]
) -> tuple[RerankCandidate, ...]:
    """What the request's reranker is to score, best first by the strategy; nothing where it asks for none.

    Args:
        request: For its strategy and rerank.
        ranked: The entries in ranked order.
        handles: Their handles, by index.
        order: The handles' indices in ranked order.
    """
    if request.rerank is None:
        return ()
    votes = votes_of(request.strategy, handles, order)
    return tuple(
        RerankCandidate(entry.candidate.frame.title, entry.candidate.frame.content, handles[index], votes[index])
        for entry, index in zip(ranked[: request.rerank.candidates], order, strict=False)
    )


def rerank(
    ranked: Sequence[Entry], asked: Rerank | None, candidates: int, reranked: Reranked | None
) -> RerankRecord | None:
    """Gives every entry its rank, and drops what the reranker is to drop.

    Sets ``rank``, ``prior_rank`` and ``rerank_score``, and the reason of every entry to what a reranker makes of it.

    Args:
        ranked: Best first by the strategy.
        asked: The rerank that the request asks for.
        candidates: How many of them the reranker was given.
        reranked: What came of it.

    Returns:
        What the audit says of it; None where none was asked for.

    Raises:
        ValueError: One of ``asked`` and ``reranked`` stands without the other, or there are not as many scores as
            candidates.
    """
    if (asked is None) != (reranked is None):
        raise ValueError("a rerank that is asked for needs what came of it, and none needs nothing")
    stand_in_order(ranked)
    if asked is None or reranked is None:
        return None
    scores = None if reranked.scores is None else [_finite(score) for score in reranked.scores]
    if scores is not None and len(scores) != candidates:
        raise ValueError(f"{len(scores)} scores for {candidates} candidates")
    scored = 0 if scores is None else sum(score is not None for score in scores)
    message = reranked.message
    if scores is not None and candidates and not scored:
        scores, message = None, "no candidate was given a finite score"
    if scores is not None:
        _apply(ranked, scores, asked)
    return RerankRecord(
        name=asked.name,
        version=reranked.version,
        candidates=asked.candidates,
        scored=scored,
        unscored=candidates - scored,
        top_n=asked.top_n,
        min_score=asked.min_score,
        outcome=RerankOutcome.FALLBACK if scores is None else RerankOutcome.APPLIED,
        message="" if scores is not None else message,
    )


def _apply(ranked: Sequence[Entry], scores: Sequence[float | None], asked: Rerank) -> None:
    pool = ranked[: len(scores)]
    for entry, score in zip(pool, scores, strict=True):
        entry.rerank_score = score
    # Sorting is stable: what scores do not decide stays in the order before.
    order = [*sorted(pool, key=_best_first), *ranked[len(scores) :]]
    for number, entry in enumerate(order, 1):
        entry.prior_rank, entry.rank = entry.rank, number
    _trim(order, len(pool), asked)


def _trim(order: Iterable[Entry], pool: int, asked: Rerank) -> None:
    taken = 0
    for entry in order:
        score = entry.rerank_score
        if score is not None and asked.min_score is not None and score < asked.min_score:
            detail = f"{asked.name} gave {score:.17g}, and the least kept is {asked.min_score:.17g}"
            entry.drop(Reason.BELOW_RERANK_SCORE, detail)
        elif asked.top_n is None or (taken < asked.top_n and entry.rank <= pool):
            taken += 1
        else:
            entry.drop(Reason.RERANK_TRIMMED, _trimmed_detail(entry, pool, asked))


def _trimmed_detail(entry: Entry, pool: int, asked: Rerank) -> str:
    if entry.rank > pool:
        return f"not among the {pool} that {asked.name} was given, and top_n is {asked.top_n}"
    given = "no score" if entry.rerank_score is None else f"{entry.rerank_score:.17g}"
    return f"{asked.name} gave {given}, place {entry.rank} of {pool}, and top_n is {asked.top_n}"


def _best_first(entry: Entry) -> tuple[bool, float]:
    return entry.rerank_score is None, -(entry.rerank_score or 0.0)


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None
