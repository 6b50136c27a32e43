"""What was asked, as it stands in the ``accepted`` record of a stream: everything of the request but its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from broker.cli.decode import read_floor
from broker.cli.fields import Fields
from broker.cli.policy import STRATEGIES
from broker.core.counting import BYTES_PER_4
from broker.core.request import (
    BudgetSplit,
    CompositionRequest,
    Duplicates,
    Fence,
    PartialLanes,
    Placement,
    RenderMode,
    Rerank,
)
from broker.core.strategies import PluginStrategy, Precomputed, RoundRobin, Strategy, name_of, params_of

if TYPE_CHECKING:
    from broker.client import ComposeCall, ComposeOptions

_LISTS = ("kinds", "anchors", "providers", "required_providers", "expect_pushes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question.

    Attributes:
        goal: What the agent is trying to do.
        query_text: The question as retrieval should read it; empty: the goal.
        composition: What to make of the answers; where no strategy was named, its strategy says nothing.
        strategy_named: Whether a strategy was named; otherwise the operator's default ran.
        tokenizer: What counts tokens, as it was named; empty: the operator's default.
        budget_weights: Parts of the budget by provider.
        collect_timeout: Seconds to collect; None: the broker's default.
        scope: Kinds, anchors, providers, required ones and expected pushes, each a list of names.
        no_providers: Whether no attached provider was asked.
    """

    goal: str
    query_text: str = ""
    composition: CompositionRequest
    strategy_named: bool = False
    tokenizer: str = ""
    budget_weights: Mapping[str, float] = field(default_factory=dict)
    collect_timeout: float | None = None
    scope: Mapping[str, tuple[str, ...]]
    no_providers: bool = False


def asked(goal: str, options: ComposeOptions) -> Asked:
    """What a call of :meth:`broker.client.ContextClient.compose` asks, with its defaults filled in."""
    given: dict[str, Any] = dict(options)
    question = given.get("question") or given.get("query_text") or goal
    restated = bool(given.get("restate_question") or given.get("question"))
    known = set(CompositionRequest.__struct_fields__) - {"strategy", "question", "floors", "tokenizer"}
    tokenizer = given.get("tokenizer", "")
    return Asked(
        goal=goal,
        query_text=given.get("query_text", ""),
        composition=CompositionRequest(
            **{name: value for name, value in given.items() if name in known},
            strategy=given.get("strategy") or RoundRobin(),
            floors=tuple(given.get("floors", ())),
            question=question if restated else "",
            tokenizer=tokenizer or BYTES_PER_4.name,
        ),
        strategy_named=given.get("strategy") is not None,
        tokenizer=tokenizer,
        budget_weights=dict(given.get("budget_weights", {})),
        collect_timeout=given.get("collect_timeout"),
        scope={name: tuple(given.get(name, ())) for name in _LISTS},
        no_providers=bool(given.get("no_providers", False)),
    )


def asked_of(call: ComposeCall) -> Asked:
    """What was asked, from a record of it."""
    return Asked(
        goal=call.goal,
        query_text=call.query_text,
        composition=call.composition,
        strategy_named=call.strategy is not None,
        tokenizer=call.tokenizer,
        budget_weights=dict(call.budget_weights),
        collect_timeout=call.collect_timeout,
        scope={name: getattr(call, name) for name in _LISTS},
        no_providers=call.no_providers,
    )


def asked_record(one: Asked) -> dict[str, Any]:
    """The question as a JSON record, without an event of its own."""
    request = one.composition
    return {
        "goal": one.goal,
        "query_text": one.query_text,
        "max_tokens": request.max_tokens,
        "max_frames": request.max_frames,
        "max_frames_per_provider": request.max_frames_per_provider,
        "max_frames_per_source": request.max_frames_per_source,
        "tokenizer": one.tokenizer,
        "safety_factor": request.safety_factor,
        "budget_split": request.budget_split.value,
        "budget_weights": dict(one.budget_weights),
        "strategy": _strategy_record(request.strategy) if one.strategy_named else None,
        "floors": [
            {"provider": floor.provider, "scale": floor.scale_id, "value": floor.value} for floor in request.floors
        ],
        "duplicates": request.duplicates.value,
        "placement": request.placement.value,
        "fold_min_tokens": request.fold_min_tokens,
        "partial_lanes": request.partial_lanes.value,
        "mode": request.mode.value,
        "fence": request.fence.value,
        "question": request.question,
        "as_of": request.as_of,
        "rerank": None if request.rerank is None else asdict(request.rerank),
        "include_local_scores": request.include_local_scores,
        "collect_timeout": one.collect_timeout,
        "no_providers": one.no_providers,
        **{name: list(names) for name, names in one.scope.items()},
    }


def read_asked(record: Fields) -> Asked:
    """The inverse of :func:`asked_record`.

    Raises:
        WrongField: A field is missing or of another type.
    """
    strategy = record.optional("strategy", record.part)
    rerank = record.optional("rerank", record.part)
    weights, tokenizer = record.part("budget_weights"), record.text("tokenizer")
    return Asked(
        goal=record.text("goal"),
        query_text=record.text("query_text"),
        composition=CompositionRequest(
            max_tokens=record.count("max_tokens"),
            strategy=RoundRobin() if strategy is None else _strategy(strategy),
            floors=tuple(read_floor(floor) for floor in record.parts("floors")),
            duplicates=record.member("duplicates", Duplicates),
            placement=record.member("placement", Placement),
            partial_lanes=record.member("partial_lanes", PartialLanes),
            max_frames=record.optional("max_frames", record.count),
            max_frames_per_provider=record.optional("max_frames_per_provider", record.count),
            max_frames_per_source=record.optional("max_frames_per_source", record.count),
            tokenizer=tokenizer or BYTES_PER_4.name,
            safety_factor=record.number("safety_factor"),
            budget_split=record.member("budget_split", BudgetSplit),
            fold_min_tokens=record.count("fold_min_tokens"),
            as_of=record.text("as_of"),
            mode=record.member("mode", RenderMode),
            fence=record.member("fence", Fence),
            question=record.text("question"),
            include_local_scores=record.flag("include_local_scores"),
            rerank=None if rerank is None else _rerank(rerank),
        ),
        strategy_named=strategy is not None,
        tokenizer=tokenizer,
        budget_weights={name: weights.number(name) for name in weights.names()},
        collect_timeout=record.optional("collect_timeout", record.number),
        scope={name: record.texts(name) for name in _LISTS},
        no_providers=record.flag("no_providers"),
    )


def _strategy_record(strategy: Strategy) -> dict[str, Any]:
    return {"name": name_of(strategy), "params": params_of(strategy)}


def _strategy(record: Fields) -> Strategy:
    name, params = record.text("name"), record.part("params")
    kind = STRATEGIES.get(name)
    values = {key: params.raw(key) for key in params.names()}
    if kind is None:
        return PluginStrategy(name, values)
    if kind is Precomputed:
        values["ids"] = tuple(_pair(params, item) for item in _list(params, "ids"))
    try:
        return kind(**values)
    except TypeError:
        raise record.wrong("params", f"do not belong to {name}") from None


def _list(record: Fields, name: str) -> list[Any]:
    items = record.raw(name)
    if not isinstance(items, list):
        raise record.wrong(name, "is not a list")
    return items


def _pair(record: Fields, item: Any) -> tuple[str, str]:
    if not (isinstance(item, list) and len(item) == 2 and all(isinstance(part, str) for part in item)):
        raise record.wrong("ids", "is not a list of [provider, frame id]")
    return item[0], item[1]


def _rerank(record: Fields) -> Rerank:
    return Rerank(
        name=record.text("name"),
        candidates=record.count("candidates"),
        top_n=record.optional("top_n", record.count),
        min_score=record.optional("min_score", record.number),
    )
