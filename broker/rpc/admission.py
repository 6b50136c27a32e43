"""What must hold of a request before any provider is asked, and what it wants once that holds.

The schema's constraints come first, then what only this broker can know: its limits, its providers, their scales. Each
stage reports everything that it found wrong at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest

from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace

from broker.core.floors import floor_violations
from broker.core.handles import RankingPlugin
from broker.core.lanes import Grant, Lane
from broker.core.plugins import param_violations
from broker.core.request import CompositionRequest, Policy
from broker.core.scores import ScoreScale
from broker.core.splitting import lane_grants, split_violations
from broker.core.strategies import CATALOGUE, PluginStrategy, Strategy, name_of
from broker.core.validity import moment
from broker.core.weights import weight_violations
from broker.errors import FieldViolation, InvalidArgument, PermissionDenied, ResourceExhausted
from broker.gather.fabric import PushKey
from broker.gather.gathering import WantedLane
from broker.gather.inline import inline_lane
from broker.gather.registry import Registry
from broker.rpc.validation import violations_of
from broker.settings import Config
from broker.wire.events import Query
from broker.wire.requests import ComposeCall, read_compose_request

NAMES_SHOWN = 6
"""Names of providers that an error lists; each has at most 63 characters."""

INLINE_TOKENS = 2**31 - 1
"""The message's size bounds inline lanes; their grant does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request that may be served.

    Attributes:
        call: As it was asked.
        request: What to make of the lanes, every default filled in.
        query: What providers are asked, with the most that any lane may hold.
        wanted: The lanes to gather, each with its grant.
        inline: The caller's own lanes, checked.
        collect_seconds: How long to gather at most.
    """

    call: ComposeCall
    request: CompositionRequest
    query: Query
    wanted: tuple[WantedLane, ...]
    inline: tuple[Lane, ...]
    collect_seconds: float


def read(data: bytes, config: Config) -> tuple[ComposeCall, pb.ComposeRequest]:
    """A serialized ``ComposeRequest`` that its schema allows. Touches nothing but its arguments.

    Returns:
        The call; and the request as it was sent, without its inline lanes.

    Raises:
        InvalidArgument: It does not parse, holds what the contract does not know, or breaks a constraint.
        ResourceExhausted: It holds too much.
        Unimplemented: It asks for what is not built.
    """
    message, call = read_compose_request(
        data,
        max_frame_bytes=config.limits.max_frame_bytes,
        max_inline_frames=config.limits.max_inline_frames,
    )
    violations = violations_of(message)
    if violations:
        raise InvalidArgument.of(violations)
    message.ClearField("inline_lanes")
    return call, message


def inline_lanes(call: ComposeCall, config: Config) -> tuple[Lane, ...]:
    """The caller's own lanes, checked like any provider's. Touches nothing but its arguments.

    Raises:
        InvalidArgument: One holds a lie (``INLINE_LANE``, with the lie as its violation).
    """
    grant = inline_grant(config)
    lanes = []
    for index, lane in enumerate(call.inline_lanes):
        try:
            lanes.append(inline_lane(lane.provider, lane.scale, lane.frames, grant, f"inline_lanes[{index}]"))
        except InvalidArgument as error:
            raise InvalidArgument("INLINE_LANE", error.message, violations=error.violations) from None
    return tuple(lanes)


def inline_grant(config: Config) -> Grant:
    """What an inline lane may hold."""
    return Grant(config.limits.max_inline_frames, INLINE_TOKENS)


def admit(
    call: ComposeCall,
    inline: tuple[Lane, ...],
    request_id: str,
    tenant: str,
    config: Config,
    registry: Registry,
    rerankers: Collection[str],
    policy: Policy,
) -> Admitted:
    """Holds a request against the broker's limits and providers.

    Args:
        call: The request.
        inline: Its own lanes, checked.
        request_id: Its name, the caller's or the broker's.
        tenant: Whose request it is.
        config: The operator's limits.
        registry: The providers that the tenant knows.
        rerankers: Names of the rerankers that there are.
        policy: With the ranking policies and tokenizers that the operator allows.

    Raises:
        InvalidArgument: With everything that was wrong.
        PermissionDenied: The operator forbids its policy (``STRATEGY_FORBIDDEN``).
        ResourceExhausted: It would open more lanes than are allowed (``LANES_LIMIT``).
    """
    limits = config.limits
    request = call.composed_under(config.ranking.strategy, config.render.tokenizer)
    strategy = name_of(request.strategy)
    if strategy in config.ranking.forbidden_strategies:
        allowed = "see ListStrategies for those that are allowed"
        raise PermissionDenied(
            "STRATEGY_FORBIDDEN",
            f"the operator of this broker forbids the strategy {strategy}; {allowed}",
            violations=[FieldViolation("strategy", "STRATEGY_FORBIDDEN", allowed)],
        )
    scales, known = _scales(call, registry), registry.scales(dict.fromkeys(call.expect_pushes))
    violations = [
        *_beyond_limits(call, request, config),
        *_naming(call, registry),
        *floor_violations(request.floors, scales),
        *_reranking(request, rerankers),
        *weight_violations(request.strategy, scales.keys()),
        *_plugging(request.strategy, policy.plugins),
        *_counting(request, policy),
        *split_violations(request.budget_split, call.budget_weights, known.keys()),
    ]
    if violations:
        raise InvalidArgument.of([_with_names(each, scales.keys()) for each in violations])
    names = _lane_names(call, registry)
    if len(names) + len(inline) > limits.max_lanes:
        raise ResourceExhausted(
            "LANES_LIMIT",
            f"this request would open {len(names) + len(inline)} lanes, and {limits.max_lanes} are allowed; name the "
            "providers that are wanted",
            quota="limits.max_lanes",
            retry_after=30.0,
        )
    most = Grant(limits.lane_frames, limits.lane_tokens)
    grants = lane_grants(request.budget_split, request.max_tokens, names, call.budget_weights, most)
    query = Query(
        goal=call.goal,
        query_text=call.query_text,
        kinds=call.kinds,
        anchors=call.anchors,
        max_frames=limits.lane_frames,
        max_tokens=limits.lane_tokens,
        as_of=request.as_of,
    )
    wanted = [
        WantedLane(
            name,
            PushKey(tenant, request_id, name) if name in call.expect_pushes else None,
            known[name],
            _capped(grants[name], name, config),
        )
        for name in names
    ]
    return Admitted(
        call=call,
        request=request,
        query=query,
        wanted=tuple(wanted),
        inline=inline,
        collect_seconds=limits.collect_seconds if call.collect_timeout is None else call.collect_timeout,
    )


def _capped(grant: Grant, provider: str, config: Config) -> Grant:
    """A grant within what the operator gives to this provider."""
    known = config.providers.get(provider)
    if known is None:
        return grant
    frames, tokens = known.max_frames or grant.max_frames, known.max_tokens or grant.max_tokens
    return Grant(min(grant.max_frames, frames), min(grant.max_tokens, tokens))


def _with_names(violation: FieldViolation, known: Collection[str]) -> FieldViolation:
    """A violation that names an unknown provider, with the names that there are, as far as a line holds them."""
    field, reason = violation.field, violation.reason
    unknown = reason in ("PROVIDER_UNKNOWN", "FLOOR_UNKNOWN_PROVIDER")
    if not unknown and not (reason == "WEIGHT" and field.endswith(".provider_id")):
        return violation
    names = nsmallest(NAMES_SHOWN, known)
    more = f" and {len(known) - len(names)} more" if len(known) > len(names) else ""
    told = f"known: {', '.join(names)}{more}" if names else "none is known yet"
    return replace(violation, message=f"{violation.message}; {told}")


def _plugging(strategy: Strategy, plugins: Mapping[str, RankingPlugin]) -> list[FieldViolation]:
    """A plugin that there is none of, and parameters that it does not take."""
    if not isinstance(strategy, PluginStrategy):
        return []
    plugin = plugins.get(strategy.name)
    if plugin is not None:
        return param_violations(plugin, strategy.params, "strategy.plugin.params")
    if strategy.name in {info.name for info in CATALOGUE.values()}:
        text = f"{strategy.name} is built in and not a plugin; ask for strategy.{strategy.name}"
    else:
        text = f"this broker has no plugin {strategy.name!a}; see ListStrategies for the strategies that there are"
    return [FieldViolation("strategy.plugin.name", "STRATEGY_UNKNOWN", text)]


def _counting(request: CompositionRequest, policy: Policy) -> Iterator[FieldViolation]:
    """A tokenizer that there is none of. Another one never stands in for it: the budget would not be the caller's."""
    if request.tokenizer not in policy.counters:
        there_are = ", ".join(sorted(policy.counters))
        text = f"this broker has no tokenizer {request.tokenizer[:63]!a}; there are {there_are}"
        yield FieldViolation("tokenizer", "TOKENIZER_UNKNOWN", text)


def _scales(call: ComposeCall, registry: Registry) -> Mapping[str, ScoreScale | None]:
    """Every provider that a floor or a weight may name, with its scale where that is known."""
    inline = {lane.provider: lane.scale for lane in reversed(call.inline_lanes)}
    return registry.scales({**inline, **dict.fromkeys(call.expect_pushes)})


def _beyond_limits(call: ComposeCall, request: CompositionRequest, config: Config) -> Iterator[FieldViolation]:
    limits = config.limits
    asked: tuple[tuple[str, str, float | None, float], ...] = (
        ("max_tokens", "MAX_TOKENS", request.max_tokens, limits.max_tokens),
        ("max_frames", "MAX_FRAMES", request.max_frames, limits.max_frames),
        ("collect_timeout", "COLLECT_TIMEOUT", call.collect_timeout, limits.max_collect_seconds),
    )
    for field, reason, value, allowed in asked:
        if value is not None and value > allowed:
            yield FieldViolation(field, reason, f"asked for {value:.15g}, and this broker allows {allowed:.15g}")
    if request.as_of and moment(request.as_of) is None:
        yield FieldViolation("as_of", "AS_OF", "there is no such moment; give YYYY-MM-DDTHH:MM:SS[.f]Z")


def _reranking(request: CompositionRequest, rerankers: Collection[str]) -> Iterator[FieldViolation]:
    asked = request.rerank
    if asked is None:
        return
    if asked.name not in rerankers:
        text = f"no reranker is called {asked.name[:63]!a}; there are {', '.join(sorted(rerankers))}"
        yield FieldViolation("rerank.name", "RERANKER_UNKNOWN", text)
    if asked.top_n is not None and asked.top_n > asked.candidates:
        text = f"{asked.top_n} cannot be kept of {asked.candidates} candidates; give more, or a smaller top_n"
        yield FieldViolation("rerank.top_n", "RERANK_PARAMS", text)


def _naming(call: ComposeCall, registry: Registry) -> Iterator[FieldViolation]:
    """Names that stand for nothing, or for two things."""
    inline = [lane.provider for lane in call.inline_lanes]
    own = {*call.expect_pushes, *inline}
    for field, names in (("providers", call.providers), ("required_providers", call.required_providers)):
        for index, name in enumerate(names):
            path = f"{field}[{index}]"
            if registry.get(name) is None and name not in own:
                text = f"no provider {name!a} is registered; see ListProviders for those that are"
                yield FieldViolation(path, "PROVIDER_UNKNOWN", text)
            elif call.no_providers and name not in own:
                text = f"{name!a} cannot be asked where no_providers says that none is; leave one of the two out"
                yield FieldViolation(path, "NO_PROVIDERS", text)
    for index, name in enumerate(call.expect_pushes):
        if name in call.providers:
            text = f"{name!a} is either asked or waited for; leave it out of providers"
            yield FieldViolation(f"expect_pushes[{index}]", "LANE_NAME", text)
    for index, name in enumerate(inline):
        if registry.get(name) is not None or name in call.expect_pushes:
            problem = f"{name!a} is a provider's name; give the lane a name of its own"
        elif name in inline[:index]:
            problem = f"{name!a} is the name of an earlier inline lane; give each a name of its own"
        else:
            continue
        yield FieldViolation(f"inline_lanes[{index}].provider_id", "LANE_NAME", problem)


def _lane_names(call: ComposeCall, registry: Registry) -> list[str]:
    """The providers whose lanes are gathered, in lane order; of a checked request, so that all of them are known."""
    asked: Collection[str] = ()
    if not call.no_providers:
        asked = (*call.required_providers, *(call.providers or registry.attached()))
    own = {lane.provider for lane in call.inline_lanes}
    return registry.in_lane_order({*call.expect_pushes, *asked} - own)
