"""A request that breaks a rule is refused with its reason and field, before any provider is asked."""

from __future__ import annotations

import asyncio
import math

import pytest
from msgspec.structs import replace

from broker.config import Config
from broker.core.frames import Frame
from broker.core.request import BudgetSplit, Floor
from broker.core.scores import Direction, ScoreScale
from broker.core.strategies import PerProviderQuota, ReciprocalRankFusion, ScoreDescending, TrustWeighted
from broker.errors import InvalidArgument, PermissionDenied, ResourceExhausted
from broker.wire.events import LaneEnded
from broker.wire.requests import InlineLane
from tests.rpc.peers import COMPOSE, Answer, Attached, Peer, compose_message, frames, lanes

BM25 = ScoreScale("bm25", 0, 100)


@pytest.fixture
def broker_config() -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"},
        limits={
            "max_tokens": 50_000,
            "max_frames": 100,
            "max_inline_frames": 100,
            "max_collect_seconds": 30,
            "max_lanes": 5,
        },
        ranking={"forbidden_strategies": ["score_descending"], "lane_order": ["configured"]},
        providers={"tickets": {"scale": {"id": "bm25", "min": 0, "max": 100}}, "bare": {}},
    )


@pytest.fixture
async def attached(peer: Peer) -> dict[str, Attached]:
    """Providers a and c on unit, b on bm25, and one that sends no scores."""
    return {
        "a": await peer.attach("a"),
        "b": await peer.attach("b", scale=BM25),
        "c": await peer.attach("c"),
        "as-sent": await peer.attach("as-sent", scale=ScoreScale("sent", direction=Direction.AS_SENT)),
    }


async def nobody_was_asked(peer: Peer, attached: dict[str, Attached]) -> None:
    """The next thing that every provider hears is a question that is asked now."""
    composing = asyncio.create_task(peer.compose(goal="afterwards", collect_timeout=20.0))
    for provider in attached.values():
        ask = await provider.hear_ask()
        assert ask.query.goal == "afterwards"
        await provider.say(LaneEnded(ask.query_id))
    assert (await composing).error is None


def refused(answer: Answer, reason: str, field: str) -> InvalidArgument:
    assert answer.messages == []
    assert isinstance(answer.error, InvalidArgument), answer.error
    assert (answer.error.reason, answer.error.violations[0].field) == (reason, field)
    assert answer.error.violations[0].reason == reason
    assert answer.error.violations[0].message
    return answer.error


NAME, VALUE = "floors[0].provider_id", "floors[0].value"
FLOORS = [
    *(((Floor(name, "unit", 0.5),), "FLOOR_PROVIDER_NAME", NAME) for name in ("", "*", "%", "a*", "^a")),
    *(((Floor(name, "unit", 0.5),), "FLOOR_UNKNOWN_PROVIDER", NAME) for name in ("all", "default", "typo")),
    ((Floor("a", "unit", 0.5), Floor("b", "bm25", 0.5)), "FLOOR_UNIFORM", "floors[1].value"),
    ((Floor("a", "unit", 0.5), Floor("b", "", 0.5)), "FLOOR_SCALE", "floors[1].scale_id"),
    ((Floor("a", "unit", 0.5), Floor("b", "unit", 0.5)), "FLOOR_SCALE", "floors[1].scale_id"),
    *(((Floor("a", "unit", value),), "FLOOR_NOT_FINITE", VALUE) for value in (math.nan, math.inf, -math.inf)),
    *(((Floor("a", "unit", value),), "FLOOR_RANGE", VALUE) for value in (-0.1, 1.1)),
    ((Floor("a", "unit", 0.9), Floor("a", "unit", 0.1)), "FLOOR_DUPLICATE", "floors[1].provider_id"),
    ((Floor("as-sent", "sent", 0.5),), "FLOOR_UNSCORED", "floors[0].scale_id"),
    ((Floor("tickets", "unit", 0.5),), "FLOOR_SCALE", "floors[0].scale_id"),
]


@pytest.mark.parametrize(("floors", "reason", "field"), FLOORS)
async def test_a_floor_that_could_span_providers_or_protects_nothing_is_refused(
    peer: Peer, attached: dict[str, Attached], floors: tuple[Floor, ...], reason: str, field: str
) -> None:
    refused(await peer.compose(floors=floors), reason, field)
    await nobody_was_asked(peer, attached)


async def test_floors_of_one_scale_may_be_equal_and_absent_providers_may_have_one(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    floors = (Floor("a", "unit", 0.5), Floor("c", "unit", 0.5), Floor("tickets", "bm25", 7), Floor("bare", "x", 3))
    composing = asyncio.create_task(peer.compose(floors=floors, collect_timeout=20.0))
    for provider in attached.values():
        await provider.answer([])
    assert (await composing).error is None


REQUESTS = [
    ({"goal": ""}, "GOAL", "goal"),
    ({"max_tokens": 0}, "MAX_TOKENS", "max_tokens"),
    ({"max_tokens": 50_001}, "MAX_TOKENS", "max_tokens"),
    ({"max_frames": 101}, "MAX_FRAMES", "max_frames"),
    ({"collect_timeout": 31.0}, "COLLECT_TIMEOUT", "collect_timeout"),
    ({"max_tokens": 20}, "BUDGET_TOO_SMALL", "max_tokens"),
    ({"max_tokens": 150, "question": "why " * 200}, "BUDGET_TOO_SMALL", "max_tokens"),
    ({"as_of": "yesterday"}, "AS_OF", "as_of"),
    ({"as_of": "2026-13-01T00:00:00Z"}, "AS_OF", "as_of"),
    ({"providers": ("typo",)}, "PROVIDER_UNKNOWN", "providers[0]"),
    ({"providers": ("a", "*")}, "PROVIDER_NAME", "providers[1]"),
    ({"required_providers": ("typo",)}, "PROVIDER_UNKNOWN", "required_providers[0]"),
    ({"providers": ("a",), "no_providers": True}, "NO_PROVIDERS", "providers[0]"),
    ({"providers": ("a",), "expect_pushes": ("a",)}, "LANE_NAME", "expect_pushes[0]"),
    ({"strategy": PerProviderQuota(0)}, "STRATEGY_PARAMS", "strategy.per_provider_quota.k"),
    *(
        ({"strategy": policy({"a": weight})}, "WEIGHT", f"strategy.{name}.weights[0].weight")
        for policy, name in ((lambda w: TrustWeighted(w), "trust_weighted"),)
        for weight in (math.nan, math.inf, -1.0, 2e6)
    ),
    (
        {"strategy": ReciprocalRankFusion(weights={"typo": 1.0})},
        "WEIGHT",
        "strategy.reciprocal_rank_fusion.weights[0].provider_id",
    ),
    ({"inline_lanes": (InlineLane("tickets"),)}, "LANE_NAME", "inline_lanes[0].provider_id"),
    ({"inline_lanes": (InlineLane("a"),)}, "LANE_NAME", "inline_lanes[0].provider_id"),
    ({"inline_lanes": (InlineLane("n"), InlineLane("n"))}, "LANE_NAME", "inline_lanes[1].provider_id"),
    ({"inline_lanes": (InlineLane("n"),), "expect_pushes": ("n",)}, "LANE_NAME", "inline_lanes[0].provider_id"),
    ({"inline_lanes": (InlineLane("N"),)}, "PROVIDER_NAME", "inline_lanes[0].provider_id"),
]


@pytest.mark.parametrize(("request_", "reason", "field"), REQUESTS)
async def test_a_request_that_breaks_a_rule_is_refused(
    peer: Peer, attached: dict[str, Attached], request_: dict, reason: str, field: str
) -> None:
    refused(await peer.compose(**request_), reason, field)
    await nobody_was_asked(peer, attached)


async def test_a_limit_that_is_passed_is_told_with_what_was_asked_and_allowed(peer: Peer) -> None:
    error = refused(await peer.compose(max_tokens=60_000), "MAX_TOKENS", "max_tokens")
    assert "60000" in error.message
    assert "50000" in error.message


async def test_everything_that_is_wrong_is_reported_at_once(peer: Peer, attached: dict[str, Attached]) -> None:
    of_the_schema = await peer.compose(goal="", max_tokens=0, floors=(Floor("*", "", math.nan),))
    assert isinstance(of_the_schema.error, InvalidArgument)
    assert [violation.field for violation in of_the_schema.error.violations] == [
        "goal",
        "max_tokens",
        "floors[0].provider_id",
        "floors[0].scale_id",
        "floors[0].value",
    ]
    of_the_broker = await peer.compose(max_tokens=60_000, providers=("typo",), floors=(Floor("a", "x", 0.5),))
    assert isinstance(of_the_broker.error, InvalidArgument)
    assert [violation.field for violation in of_the_broker.error.violations] == [
        "max_tokens",
        "providers[0]",
        "floors[0].scale_id",
    ]


async def test_a_field_that_is_not_known_is_refused_wherever_it_stands(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    unknown = b"\xf9\x01" + bytes(8)  # Field 31 of 64 bits, as a newer client's min_score may be.
    top = compose_message().SerializeToString() + unknown
    within = compose_message(floors=(Floor("a", "unit", 0.5),))
    within.floors[0].MergeFromString(unknown)
    policy = compose_message(strategy=PerProviderQuota(2))
    policy.strategy.per_provider_quota.MergeFromString(unknown)
    for data, field in (
        (top, ""),
        (within.SerializeToString(), "floors[0]"),
        (policy.SerializeToString(), "strategy.per_provider_quota"),
    ):
        answer = await peer.call(COMPOSE, data)
        assert isinstance(answer.error, InvalidArgument)
        assert answer.error.reason == "UNKNOWN_FIELD"
        assert "31" in answer.error.message
        assert answer.error.violations[0].field.startswith(field)
    await nobody_was_asked(peer, attached)


@pytest.mark.parametrize("field", ["duplicates", "placement", "partial_lanes"])
async def test_a_value_that_is_not_listed_never_becomes_the_default(peer: Peer, field: str) -> None:
    message = compose_message()
    setattr(message, field, 77)
    refused(await peer.call(COMPOSE, message.SerializeToString()), "ENUM_UNKNOWN", field)


async def test_a_forbidden_strategy_is_refused_before_anyone_is_asked(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    answer = await peer.compose(strategy=ScoreDescending())
    assert isinstance(answer.error, PermissionDenied)
    assert answer.error.reason == "STRATEGY_FORBIDDEN"
    await nobody_was_asked(peer, attached)


async def test_an_inline_lie_refuses_the_request_and_blames_no_provider(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    lie = Frame(id="x", title="x", content="x", score=0.5, content_digest="sha256:" + "0" * 64)
    good = InlineLane("good", frames=tuple(frames(("g", 0.5))))
    answer = await peer.compose(inline_lanes=(good, InlineLane("notes", frames=(lie,))))
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "INLINE_LANE"
    (violation,) = answer.error.violations
    assert violation.field.startswith("inline_lanes[1].frames")
    assert violation.reason == "DIGEST_MISMATCH"
    assert all(provider.quarantined_seconds == 0 for provider in (await peer.providers()).values())
    await nobody_was_asked(peer, attached)


async def test_more_inline_frames_than_allowed_are_refused_before_they_are_read(peer: Peer) -> None:
    many = InlineLane("n", frames=tuple(frames(*((str(i), 0.5) for i in range(101)))))
    answer = await peer.compose(inline_lanes=(many,))
    assert isinstance(answer.error, ResourceExhausted)
    assert answer.error.reason == "COUNT_EXCEEDED"


async def test_as_many_violations_as_one_likes_still_get_an_answer_with_details(peer: Peer) -> None:
    floors = tuple(replace(Floor("x", "unit", 0.5), provider=f"{i}*" + "é" * 60) for i in range(256))
    error = refused(await peer.compose(floors=floors), "FLOOR_PROVIDER_NAME", "floors[0].provider_id")
    assert 1 < len(error.violations) < 256
    assert "of 256" in error.message


async def test_only_the_named_providers_are_asked_and_required_ones_besides(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    composing = asyncio.create_task(peer.compose(providers=("a",), required_providers=("c",), collect_timeout=20.0))
    await attached["a"].answer(frames(("x", 0.5)))
    await attached["c"].answer(frames(("y", 0.5)))
    assert lanes((await composing).composition()) == {"a": "COMPLETE", "c": "COMPLETE"}
    await nobody_was_asked(peer, {"b": attached["b"], "as-sent": attached["as-sent"]} | attached)


async def test_lanes_are_opened_in_the_operators_order_then_by_name(peer: Peer) -> None:
    providers = {name: await peer.attach(name) for name in ("zebra", "configured", "apple")}
    inline = InlineLane("middle", frames=tuple(frames(("m", 0.5))))
    composing = asyncio.create_task(peer.compose(inline_lanes=(inline,), collect_timeout=20.0))
    for name, provider in providers.items():
        await provider.answer(frames((name, 0.5)))
    answer = await composing
    opened = [lane.provider_id for lane in answer.responses[0].accepted.lanes]
    assert opened == ["configured", "apple", "middle", "zebra"]
    assert list(lanes(answer.composition())) == opened


async def test_more_lanes_than_are_allowed_are_refused_before_anyone_is_asked(peer, attached):
    own = (Frame("m1", "t", "the cat", 0.5),)
    inline = tuple(InlineLane(name, frames=own) for name in ("memory", "notes"))
    answer = await peer.compose(inline_lanes=inline)
    assert isinstance(answer.error, ResourceExhausted)
    assert (answer.error.reason, answer.error.quota) == ("LANES_LIMIT", "limits.max_lanes")
    assert "6 lanes" in answer.error.message
    assert answer.messages == []
    await nobody_was_asked(peer, attached)
    # Naming those that are wanted is what to do, and it helps.
    assert (await peer.compose(inline_lanes=inline, no_providers=True)).error is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"providers": ("fqa",)},
        {"required_providers": ("fqa",)},
        {"floors": (Floor("fqa", "unit", 0.5),)},
        {"strategy": TrustWeighted({"fqa": 1.0})},
        {"strategy": ReciprocalRankFusion(weights={"fqa": 1.0})},
    ],
)
async def test_an_unknown_name_is_told_with_the_names_that_there_are(
    peer: Peer, attached: dict[str, Attached], wrong: dict[str, object]
) -> None:
    error = (await peer.compose(**wrong)).error
    assert isinstance(error, InvalidArgument)
    assert error.violations[0].message.endswith("; known: a, as-sent, b, bare, c, configured and 1 more")


# --- budgets


async def test_a_tokenizer_that_there_is_none_of_is_refused_and_never_replaced(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    error = refused(await peer.compose(tokenizer="o200k_base"), "TOKENIZER_UNKNOWN", "tokenizer")
    assert "there are bytes/4" in error.message
    await nobody_was_asked(peer, attached)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"budget_weights": {"a": 1.0}}, "budget_weights"),
        ({"budget_weights": {"a": 1.0}, "budget_split": BudgetSplit.EQUAL}, "budget_weights"),
        ({"budget_weights": {"a": 0.0}, "budget_split": BudgetSplit.WEIGHTED}, "budget_weights[0].weight"),
        (
            {"budget_weights": {"a": 1, "typo": 1}, "budget_split": BudgetSplit.WEIGHTED},
            "budget_weights[1].provider_id",
        ),
        (
            {
                "budget_weights": {"notes": 1},
                "budget_split": BudgetSplit.WEIGHTED,
                "inline_lanes": (InlineLane("notes"),),
            },
            "budget_weights[0].provider_id",
        ),
    ],
)
async def test_weights_of_a_budget_are_held_against_its_split_and_the_providers(
    peer: Peer, attached: dict[str, Attached], asked: dict[str, object], field: str
) -> None:
    refused(await peer.compose(**asked), "WEIGHT", field)
    await nobody_was_asked(peer, attached)


async def test_a_provider_has_one_weight(peer: Peer, attached: dict[str, Attached]) -> None:
    message = compose_message(budget_split=BudgetSplit.WEIGHTED, budget_weights={"a": 1.0, "b": 2.0})
    message.budget_weights[1].provider_id = "a"
    refused(await peer.call(COMPOSE, message.SerializeToString()), "WEIGHT", "budget_weights[1].provider_id")


async def test_a_budget_that_the_factor_makes_too_small_is_refused_before_anyone_is_asked(
    peer: Peer, attached: dict[str, Attached]
) -> None:
    error = refused(await peer.compose(max_tokens=150, safety_factor=3.0), "BUDGET_TOO_SMALL", "max_tokens")
    assert "by the safety factor 3 leave 50" in error.message
    await nobody_was_asked(peer, attached)


@pytest.mark.parametrize(
    "broker_config", [Config(server={"listen": "127.0.0.1:0"}, providers={"a": {"max_frames": 3, "max_tokens": 70}})]
)
async def test_a_lane_is_granted_no_more_than_the_operator_gives_its_provider(peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = asyncio.create_task(peer.compose(max_tokens=500))
    asked = {name: await provider.hear_ask() for name, provider in (("a", a), ("b", b))}
    assert (asked["a"].query.max_frames, asked["a"].query.max_tokens) == (3, 70)
    assert (asked["b"].query.max_frames, asked["b"].query.max_tokens) == (256, 2000)
    for provider, ask in ((a, asked["a"]), (b, asked["b"])):
        await provider.say(LaneEnded(ask.query_id))
    await composing
    composing = asyncio.create_task(peer.compose(max_tokens=100, budget_split=BudgetSplit.EQUAL))
    few = await a.hear_ask()
    assert few.query.max_tokens == 50
    for provider, ask in ((a, few), (b, await b.hear_ask())):
        await provider.say(LaneEnded(ask.query_id))
    await composing
