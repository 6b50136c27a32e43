"""Scores stay with their providers, end to end: the laundering cases as a caller would try them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest
import structlog
from msgspec.structs import replace

from broker.config import Config
from broker.core.composition import Composition
from broker.core.frames import Frame, FrameRef
from broker.core.lanes import LaneEnd
from broker.core.request import Floor
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from broker.errors import FailedPrecondition, InvalidArgument
from broker.wire.events import LaneEnded
from broker.wire.requests import InlineLane
from tests.rpc.peers import Peer, frames, ranked, rows

ANY = ScoreScale("any", -math.inf, math.inf)
ORDINAL: tuple[Strategy, ...] = (RoundRobin(), PerProviderQuota(2), TrustWeighted({"a": 2.0}), ReciprocalRankFusion())


@pytest.fixture
def broker_config() -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"},
        ranking={
            "shared_scales": [{"id": "cosine", "providers": ["one-shard", "other-shard"]}],
            "default_strategy": {"name": "reciprocal_rank_fusion", "k": 20},
        },
    )


def inline(name: str, scores: dict[str, float | None], scale: ScoreScale = UNIT, **contents: str) -> InlineLane:
    made = [replace(f, content=contents.get(f.id, f.content)) for f in frames(*scores.items())]
    return InlineLane(name, scale, tuple(made))


async def composed(peer: Peer, *lanes: InlineLane, **asked: object) -> Composition:
    answer = await peer.compose(inline_lanes=lanes, no_providers=True, **asked)
    assert answer.error is None, answer.error
    return answer.composition()


def details(composition: Composition) -> dict[str, str]:
    return {row.frame_id: row.detail.split(":")[0] for row in composition.audit if not row.included}


def shown(composition: Composition) -> dict[str, tuple[str, str]]:
    """Score and floor of every row, as texts."""
    return {row.frame_id: (row.score.value, row.score.floor) for row in composition.audit if row.score is not None}


async def test_h25_a_threshold_in_the_question_is_just_text(peer: Peer) -> None:
    lane = inline("a", {"low": 0.01, "high": 0.9})
    composition = await composed(peer, lane, query_text="find it, min_score=0.5", goal="floor: a >= 0.5")
    assert ranked(composition) == ["high", "low"]
    assert composition.summary.floors == ()


async def test_h27_a_floor_is_a_constant_and_stands_in_the_audit_as_given(peer: Peer) -> None:
    value = 0.1 + 0.2
    composition = await composed(peer, inline("a", {"x": 0.9, "y": 0.3}), floors=(Floor("a", "unit", value),))
    (record,) = composition.summary.floors
    assert (record.floor, record.used, record.dropped) == (Floor("a", "unit", value), True, 1)


async def test_h32_of_two_copies_the_better_ranked_is_kept_whatever_the_scores(peer: Peer) -> None:
    lanes = (inline("a", {"x": 0.2}, x="same"), inline("b", {"y": 0.9, "x": 0.8}, x="same"))
    composition = await composed(peer, *lanes, strategy=RoundRobin())
    assert [(p.provider, p.frame.id) for p in sorted(composition.placed, key=lambda p: p.rank)] == [
        ("a", "x"),
        ("b", "y"),
    ]
    assert rows(composition)["b", "x"] == "DUPLICATE"
    assert composition.placed[0].vouchers == (FrameRef("a", "x"), FrameRef("b", "x"))
    raw = await composed(peer, *lanes, strategy=ScoreDescending())
    assert ranked(raw) == ["y", "x"]
    assert rows(raw)["a", "x"] == "DUPLICATE"


async def test_h36_equal_scores_do_not_share_a_rank(peer: Peer) -> None:
    equal = dict.fromkeys(["a5", "a3", "a1", "a4", "a2"], 1.0)
    composition = await composed(peer, inline("a", equal), inline("b", {"b1": 0.2, "b2": 0.1}), strategy=RoundRobin())
    assert ranked(composition) == ["a1", "b1", "a2", "b2", "a3", "a4", "a5"]
    assert sorted(p.local_rank for p in composition.placed if p.provider == "a") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
async def test_h37_a_score_that_is_none_drops_its_frame_alone(peer: Peer, score: float) -> None:
    composition = await composed(peer, inline("a", {"b": 0.8, "n": score, "a": 0.9}), include_local_scores=True)
    assert ranked(composition) == ["a", "b"]
    assert details(composition) == {"n": "SCORE_NOT_FINITE"}
    assert shown(composition)["n"][0].lower().lstrip("-") in ("nan", "infinity", "inf")


async def test_h38_rounding_past_an_end_is_kept_as_it_is_and_no_more(peer: Peer) -> None:
    sent = {"bit": 1 + 2**-52, "cosine": 1.00000001, "under": -1e-17, "far": 1.0001, "negative": -0.001}
    composition = await composed(peer, inline("a", sent), include_local_scores=True)
    assert ranked(composition) == ["cosine", "bit", "under"]
    assert details(composition) == {"far": "SCORE_RANGE", "negative": "SCORE_RANGE"}
    assert {name: float(value) for name, (value, _) in shown(composition).items()} == sent


async def test_h39_score_and_floor_are_shown_to_the_last_bit_where_asked_for(peer: Peer) -> None:
    floor = 0.1 + 0.2
    sent = {"equal": floor, "below": math.nextafter(floor, 0)}
    asked = {"floors": (Floor("a", "unit", floor),)}
    composition = await composed(peer, inline("a", sent), include_local_scores=True, **asked)
    assert ranked(composition) == ["equal"]
    assert rows(composition)["a", "below"] == "BELOW_FLOOR"
    assert {name: (float(score), float(value)) for name, (score, value) in shown(composition).items()} == {
        "equal": (floor, floor),
        "below": (sent["below"], floor),
    }
    assert shown(composition)["below"][0] == "0.29999999999999999"
    assert shown(await composed(peer, inline("a", sent), **asked)) == {}


async def test_floor_0_and_no_floor_are_two_things(peer: Peer) -> None:
    sent = {"least": -5.0, "zero": 0.0, "most": 5.0}
    assert ranked(await composed(peer, inline("a", sent, ANY))) == ["most", "zero", "least"]
    floored = await composed(peer, inline("a", sent, ANY), floors=(Floor("a", "any", 0.0),))
    assert ranked(floored) == ["most", "zero"]


@pytest.mark.parametrize("strategy", [*ORDINAL, ScoreDescending()])
async def test_h44_how_far_scores_lie_from_others_is_nobodys_business(peer: Peer, strategy: Strategy) -> None:
    lanes = (inline("a", {"x": 0.5}), inline("b", {"y": 1e300, "z": -1e300}, ANY))
    composition = await composed(peer, *lanes, strategy=strategy)
    assert set(rows(composition).values()) == {""}
    assert {lane.end for lane in composition.summary.lanes} == {LaneEnd.COMPLETE}


MAPS: dict[str, Callable[[float], float]] = {
    "a tenth": lambda score: score * 0.1,
    "a hundredfold": lambda score: score * 100,
    "cubed": lambda score: score**3,
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("strategy", ORDINAL)
async def test_rescaling_one_provider_changes_no_byte(peer: Peer, name: str, strategy: Strategy) -> None:
    scores = {f"f{n}": n / 7 - 1 for n in range(12)}
    others = (inline("b", {"g1": 0.9, "f3": 0.5, "g2": 0.1}), inline("c", {"h1": 0.3}))
    asked = {"strategy": strategy, "max_tokens": 700, "max_frames_per_provider": 5}
    changed = {key: MAPS[name](score) for key, score in scores.items()}
    before = await composed(peer, inline("a", scores, ANY), *others, floors=(Floor("a", "any", -0.5),), **asked)
    floor = Floor("a", "any", MAPS[name](-0.5))
    after = await composed(peer, inline("a", changed, ANY), *others, floors=(floor,), **asked)
    assert after.prompt == before.prompt
    assert after.audit == before.audit
    assert "OVER_BUDGET" in rows(before).values() or "PROVIDER_FRAME_LIMIT" in rows(before).values()


async def test_rescaling_shows_under_score_descending_alone(peer: Peer) -> None:
    others = inline("b", {"g1": 0.9})
    before = await composed(peer, inline("a", {"f": 0.5}, ANY), others, strategy=ScoreDescending())
    after = await composed(peer, inline("a", {"f": 50.0}, ANY), others, strategy=ScoreDescending())
    assert (ranked(before), ranked(after)) == (["g1", "f"], ["f", "g1"])
    assert before.summary.strategy.compares_raw_scores


async def test_h45_a_score_is_told_where_it_was_asked_for_and_nowhere_else(peer: Peer) -> None:
    provider = await peer.attach("a")
    score = 0.7182818284590452
    with structlog.testing.capture_logs() as logged:
        composing = asyncio.create_task(peer.compose(collect_timeout=20.0))
        await provider.answer(frames(("x", score), ("y", 0.5)))
        silent = await composing
        composing = asyncio.create_task(peer.compose(collect_timeout=20.0, include_local_scores=True))
        await provider.answer(frames(("x", score), ("y", 0.5)))
        told = await composing
    assert "71828" not in str(silent.responses)
    assert "71828" not in str(logged)
    assert "71828" not in told.composition().prompt
    (row,) = [row for row in told.composition().audit if row.frame_id == "x"]
    assert (row.score.provider, row.score.scale_id, float(row.score.value)) == ("a", "unit", score)
    assert all(placed.frame.score is None for placed in told.composition().placed)


async def test_the_operators_default_strategy_serves_who_names_none(peer: Peer) -> None:
    record = (await composed(peer, inline("a", {"x": 0.5}))).summary.strategy
    assert (record.name, record.params["k"]) == ("reciprocal_rank_fusion", 20)
    named = (await composed(peer, inline("a", {"x": 0.5}), strategy=ReciprocalRankFusion())).summary.strategy
    assert named.params["k"] == 60


COSINE = ScoreScale("cosine", -1.0, 1.0)


async def test_providers_that_share_a_scale_attach_with_equal_ones_only(peer: Peer) -> None:
    await peer.attach("one-shard", scale=COSINE)
    for other in (ScoreScale("cosine", 0.0, 1.0), ScoreScale("cosine", -1.0, 1.0, Direction.LOWER_IS_BETTER), UNIT):
        with pytest.raises(FailedPrecondition, match="one-shard"):
            await peer.attach("other-shard", scale=other)
    assert (await peer.providers())["other-shard"].instances == ()
    assert (await peer.providers())["other-shard"].scale == COSINE
    await peer.attach("other-shard", scale=COSINE)


async def test_the_conflict_names_both_scales(peer: Peer) -> None:
    from broker.wire.events import Hello
    from tests.rpc.peers import ATTACH, Attached

    await peer.attach("one-shard", scale=COSINE)
    refused = Attached(peer.open(ATTACH))
    await refused.say(Hello("other-shard", "one", scale=ScoreScale("cosine", 0.0, 1.0)))
    error = await refused.ended()
    assert isinstance(error, FailedPrecondition)
    assert error.reason == "SCALE_CONFLICT"
    assert "cosine [0, 1]" in error.message
    assert "cosine [-1, 1]" in error.message
    assert "one-shard" in error.message


async def test_h26_one_value_may_be_the_floor_of_providers_that_share_a_scale_and_of_no_others(peer: Peer) -> None:
    # The other shard has not attached yet: that its scale is the same one is the operator's word.
    provider = await peer.attach("one-shard", scale=COSINE)
    floors = (Floor("one-shard", "cosine", 0.5), Floor("other-shard", "cosine", 0.5))
    composing = asyncio.create_task(peer.compose(floors=floors, collect_timeout=20.0))
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("kept", 0.5), ("below", 0.4)))
    await provider.say(LaneEnded(ask.query_id))
    answer = await composing
    assert answer.error is None, answer.error
    assert rows(answer.composition()) == {("one-shard", "kept"): "", ("one-shard", "below"): "BELOW_FLOOR"}
    assert [(record.used, record.dropped) for record in answer.composition().summary.floors] == [(True, 1), (False, 0)]
    await peer.attach("stranger", scale=ScoreScale("cosine", 0.0, 1.0))
    refused = await peer.compose(floors=(floors[0], Floor("stranger", "cosine", 0.5)))
    assert isinstance(refused.error, InvalidArgument)
    assert refused.error.violations[0].reason == "FLOOR_UNIFORM"
    assert "one-shard" in refused.error.violations[0].message


async def test_a_frame_of_the_callers_own_has_no_say_about_others(peer: Peer) -> None:
    mine = InlineLane("mine", UNIT, (Frame("m", "m", "mine", 1.0),))
    composition = await composed(peer, mine, inline("a", {"x": 0.0}), strategy=RoundRobin())
    assert sorted(ranked(composition)) == ["m", "x"]
