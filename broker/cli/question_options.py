"""The options of ``query`` that say what to ask; :mod:`broker.cli.question` makes the request of their values."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from broker.cli.options import FLOOR, NAMED_FILE, NAMED_SCALE, PARAM, REF, WEIGHT
from broker.cli.policy import STRATEGIES
from broker.core.frames import KINDS
from broker.core.request import (
    DEFAULT_FOLD_MIN_TOKENS,
    BudgetSplit,
    Duplicates,
    Fence,
    PartialLanes,
    Placement,
    RenderMode,
)

DEFAULT_MAX_TOKENS = 4000

_Command = TypeVar("_Command", bound=Callable[..., Any])

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # Generic for type checkers alone: older releases of click have a plain class here.
    _Choice = click.Choice


class _Strategy(_Choice):
    """A built-in policy. Whoever names one that is not built in most likely means a plugin."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            hint = f"a policy that the operator installed is named with --plugin {value}"
            raise click.BadParameter(f"{error.message} {hint}", ctx, param) from None


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
    click.option("--tokenizer", default="", metavar="NAME", help="What counts them.  [default: the broker's]"),
    click.option(
        "--safety-factor",
        type=click.FloatRange(1, 4),
        default=1.0,
        help="Divides --max-tokens, for a model that may count more.  [default: 1]",
    ),
    click.option(
        "--budget-split",
        type=_choice(BudgetSplit),
        default="full",
        show_default=True,
        help="What each lane is granted of them.",
    ),
    click.option(
        "--budget-weight",
        "budget_weights",
        type=WEIGHT,
        multiple=True,
        help="weighted: a provider's part, 1 unless named; repeatable.",
    ),
    click.option("--strategy", type=_Strategy(list(STRATEGIES)), help="Ranking policy.  [default: the broker's]"),
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
        "--fold-min-tokens",
        type=click.IntRange(min=0),
        help=f"auto: tokens of prompt from which on it folds.  [default: {DEFAULT_FOLD_MIN_TOKENS}]",
    ),
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
    click.option(
        "--mode", type=_choice(RenderMode), default="fenced", show_default=True, help="The form of the context."
    ),
    click.option("--fence", type=_choice(Fence), default="sealed", show_default=True, help="How frames are fenced."),
    click.option("--max-frames", type=click.IntRange(min=1), help="Frames placed at most."),
    click.option(
        "--max-frames-per-provider", type=click.IntRange(min=1), help="Frames placed of one provider at most."
    ),
    click.option(
        "--max-frames-per-source",
        type=click.IntRange(min=1),
        help="Frames placed of one document before any more of it.",
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
