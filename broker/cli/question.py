"""The request that the options of ``query`` make."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from broker.cli.frames_file import read_frames
from broker.cli.policy import plugin_of, strategy_of, weights_of
from broker.core.frames import FrameRef
from broker.core.request import (
    DEFAULT_CANDIDATES,
    DEFAULT_FOLD_MIN_TOKENS,
    BudgetSplit,
    Duplicates,
    Fence,
    Floor,
    PartialLanes,
    Placement,
    RenderMode,
    Rerank,
)
from broker.core.scores import UNIT, ScoreScale

if TYPE_CHECKING:
    from broker.client import InlineLane
    from broker.client.calls import ComposeOptions

_Member = TypeVar("_Member", bound=Enum)


def request_of(
    *,
    max_tokens: int,
    tokenizer: str,
    safety_factor: float,
    budget_split: str,
    budget_weights: Sequence[tuple[str, float]],
    strategy: str | None,
    plugin: str | None,
    params: Sequence[tuple[str, object]],
    k: int | None,
    weights: Sequence[tuple[str, float]],
    default_weight: float | None,
    order: Path | None,
    ids: Sequence[FrameRef],
    order_name: str,
    floors: Sequence[Floor],
    providers: Sequence[str],
    required: Sequence[str],
    no_providers: bool,
    request_id: str,
    pushes: Sequence[str],
    inline: Sequence[tuple[str, Path]],
    inline_scale: Sequence[tuple[str, ScoreScale]],
    query_text: str,
    kinds: Sequence[str],
    anchors: Sequence[str],
    as_of: str,
    placement: str,
    fold_min_tokens: int | None,
    duplicates: str,
    partial_lanes: str,
    mode: str,
    fence: str,
    max_frames: int | None,
    max_frames_per_provider: int | None,
    max_frames_per_source: int | None,
    timeout: float | None,
    restate_question: bool,
    rerank: str | None,
    rerank_candidates: int | None,
    rerank_top: int | None,
    rerank_min: float | None,
    scores: bool,
) -> ComposeOptions:
    """The keywords of :meth:`broker.client.ContextClient.compose` that the options stand for.

    Raises:
        click.UsageError: Options that do not go together.
        Failure: A line of a file is wrong.
        OSError: A file cannot be read.
    """
    if no_providers and not inline and not pushes:
        raise click.UsageError("--no-providers asks no attached provider, so it needs --inline or --expect-push")
    if pushes and not request_id:
        raise click.UsageError("--expect-push needs --request-id: it is what the push names")
    split, place = _member(BudgetSplit, budget_split), _member(Placement, placement)
    if budget_weights and split is not BudgetSplit.WEIGHTED:
        raise click.UsageError("--budget-weight goes with --budget-split weighted")
    if fold_min_tokens is not None and place is not Placement.AUTO:
        raise click.UsageError("--fold-min-tokens goes with --placement auto")
    named = strategy_of(
        strategy, k=k, weights=weights, default_weight=default_weight, order=order, ids=ids, order_name=order_name
    )
    return {
        "max_tokens": max_tokens,
        "tokenizer": tokenizer,
        "safety_factor": safety_factor,
        "budget_split": split,
        "budget_weights": weights_of(budget_weights, "--budget-weight"),
        "strategy": plugin_of(plugin, params, strategy) or named,
        "floors": tuple(floors),
        "providers": tuple(providers),
        "required_providers": tuple(required),
        "no_providers": no_providers,
        "request_id": request_id,
        "expect_pushes": tuple(pushes),
        "inline_lanes": _lanes(inline, inline_scale),
        "query_text": query_text,
        "kinds": tuple(kinds),
        "anchors": tuple(anchors),
        "as_of": as_of,
        "placement": place,
        "fold_min_tokens": DEFAULT_FOLD_MIN_TOKENS if fold_min_tokens is None else fold_min_tokens,
        "duplicates": _member(Duplicates, duplicates),
        "partial_lanes": _member(PartialLanes, partial_lanes),
        "mode": _member(RenderMode, mode),
        "fence": _member(Fence, fence),
        "max_frames": max_frames,
        "max_frames_per_provider": max_frames_per_provider,
        "max_frames_per_source": max_frames_per_source,
        "collect_timeout": timeout,
        "restate_question": restate_question,
        "include_local_scores": scores,
        "rerank": _rerank(rerank, rerank_candidates, rerank_top, rerank_min),
    }


def _rerank(name: str | None, candidates: int | None, top_n: int | None, min_score: float | None) -> Rerank | None:
    if name is None:
        given = {"--rerank-candidates": candidates, "--rerank-top": top_n, "--rerank-min": min_score}
        for option, value in given.items():
            if value is not None:
                raise click.UsageError(f"{option} goes with --rerank NAME")
        return None
    return Rerank(name, DEFAULT_CANDIDATES if candidates is None else candidates, top_n, min_score)


def _lanes(inline: Sequence[tuple[str, Path]], scales: Sequence[tuple[str, ScoreScale]]) -> tuple[InlineLane, ...]:
    from broker.client import InlineLane

    scale_of = dict(scales)
    names = [name for name, _ in inline]
    if len(set(names)) < len(names):
        raise click.UsageError("--inline names a lane twice")
    for name in scale_of:
        if name not in names:
            raise click.UsageError(f"--inline-scale names {name!r}, and no --inline lane is called so")
    return tuple(InlineLane(name, scale_of.get(name, UNIT), tuple(read_frames(path))) for name, path in inline)


def _member(members: type[_Member], name: str) -> _Member:
    return members(name.upper())
