"""What ``query`` asks: its options, and the request that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from broker.cli.frames_file import read_frames
from broker.cli.options import FLOOR, NAMED_FILE, NAMED_SCALE, PARAM, REF, WEIGHT
from broker.cli.policy import STRATEGIES, plugin_of, strategy_of
from broker.core.frames import KINDS, FrameRef
from broker.core.request import DEFAULT_CANDIDATES, Duplicates, Fence, Floor, PartialLanes, Placement, Rerank
from broker.core.scores import UNIT, ScoreScale

if TYPE_CHECKING:
    from broker.client import InlineLane
    from broker.client.calls import ComposeOptions

DEFAULT_MAX_TOKENS = 4000

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Member = TypeVar("_Member", bound=Enum)


def _choice(members: type[Enum]) -> click.Choice[str]:
    return click.Choice([member.value.lower() for member in members])


_OPTIONS = (
    click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        default=DEFAULT_MAX_TOKENS,
        show_default=True,
        help="Tokens that the whole prompt may take.",
    ),
    click.option("--strategy", type=click.Choice(list(STRATEGIES)), help="Ranking policy.  [default: the broker's]"),
    click.option("--plugin", metavar="NAME", help="Ranking policy that the operator installed, instead of --strategy."),
    click.option("--param", "params", type=PARAM, multiple=True, help="Of --plugin, the value as JSON; repeatable."),
    click.option("--k", type=click.IntRange(min=0), help="Of per_provider_quota [3] and reciprocal_rank_fusion [60]."),
    click.option("--weight", "weights", type=WEIGHT, multiple=True, help="A provider's weight; repeatable."),
    click.option("--default-weight", type=float, help="Weight of providers not named.  [default: 1]"),
    click.option(
        "--order",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
        help="precomputed: JSON lines with provider and frame_id, best first.",
    ),
    click.option("--ids", type=REF, multiple=True, help="precomputed: one frame, best first; repeatable."),
    click.option("--order-name", default="", help="precomputed: what the order is called in the audit."),
    click.option(
        "--floor",
        "floors",
        type=FLOOR,
        multiple=True,
        help="One provider's worst score kept: the least, or the highest where lower is better; repeatable.",
    ),
    click.option("--provider", "providers", multiple=True, help="Ask this one; repeatable.  [default: all attached]"),
    click.option("--require", "required", multiple=True, help="No answer without this one; repeatable."),
    click.option("--no-providers", is_flag=True, help="Ask none: inline lanes and pushes alone."),
    click.option("--request-id", default="", help="This request's name, which a push cites."),
    click.option("--expect-push", "pushes", multiple=True, help="Wait for this provider's push; repeatable."),
    click.option("--inline", type=NAMED_FILE, multiple=True, help="JSON lines of frames as a lane; repeatable."),
    click.option(
        "--inline-scale", type=NAMED_SCALE, multiple=True, help="An inline lane's scale.  [default: unit:0:1]"
    ),
    click.option("--query-text", default="", help="The question as retrieval should read it.  [default: GOAL]"),
    click.option("--kind", "kinds", type=click.Choice(KINDS[1:]), multiple=True, help="Kind wanted; repeatable."),
    click.option("--anchor", "anchors", multiple=True, help="URI of a resource at hand; repeatable."),
    click.option("--as-of", default="", metavar="YYYY-MM-DDTHH:MM:SSZ", help="Moment that evidence should hold for."),
    click.option("--placement", type=_choice(Placement), default="fold", show_default=True, help="Where frames stand."),
    click.option(
        "--duplicates",
        type=_choice(Duplicates),
        default="same_bytes",
        show_default=True,
        help="Which frames are the same evidence.",
    ),
    click.option(
        "--partial-lanes",
        type=_choice(PartialLanes),
        default="keep",
        show_default=True,
        help="Frames of lanes that were cut short.",
    ),
    click.option("--fence", type=_choice(Fence), default="sealed", show_default=True, help="How frames are fenced."),
    click.option("--max-frames", type=click.IntRange(min=1), help="Frames placed at most."),
    click.option(
        "--max-frames-per-provider", type=click.IntRange(min=1), help="Frames placed of one provider at most."
    ),
    click.option(
        "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds to collect.  [default: the broker's, 2]"
    ),
    click.option("--restate-question", is_flag=True, help="Put the question above and below the evidence."),
    click.option("--rerank", metavar="NAME", help="A reranker of the broker's, such as lexical: a second ranking."),
    click.option("--rerank-candidates", type=click.IntRange(1, 1000), help="Frames that it scores.  [default: 50]"),
    click.option("--rerank-top", type=click.IntRange(min=1), help="Frames that it keeps.  [default: all]"),
    click.option("--rerank-min", type=float, help="Least score kept, in its own scale.  [default: any]"),
    click.option("--scores", is_flag=True, help="Show every frame's own score, in its own scale."),
)


def question_options(command: _Command) -> _Command:
    """All options of a question, in the order in which help lists them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def one_text(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> str:
    """The goal, which is one argument: a shell makes several of it where it is not quoted."""
    if len(words) > 1:
        raise click.BadParameter(f'it is one argument, and here are {len(words)}; quote it: "{" ".join(words)}"')
    return words[0]


def request_of(
    *,
    max_tokens: int,
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
    duplicates: str,
    partial_lanes: str,
    fence: str,
    max_frames: int | None,
    max_frames_per_provider: int | None,
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
    named = strategy_of(
        strategy, k=k, weights=weights, default_weight=default_weight, order=order, ids=ids, order_name=order_name
    )
    return {
        "max_tokens": max_tokens,
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
        "placement": _member(Placement, placement),
        "duplicates": _member(Duplicates, duplicates),
        "partial_lanes": _member(PartialLanes, partial_lanes),
        "fence": _member(Fence, fence),
        "max_frames": max_frames,
        "max_frames_per_provider": max_frames_per_provider,
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
