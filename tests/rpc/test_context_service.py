"""The lists say what the broker knows; what is not recorded yet says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from contextbroker.v1 import context_service_pb2 as pb

from broker.config import Config
from broker.core.scores import ScoreScale
from broker.core.strategies import CATALOGUE
from broker.errors import InvalidArgument
from broker.rpc.context_service import LISTED_AT_ONCE
from broker.wire.listings import read_strategies
from tests.rpc.peers import Peer, frames

SERVICE = "/contextbroker.v1.ContextService/"


@pytest.fixture
def broker_config() -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"},
        ranking={
            "forbidden_strategies": "score_descending",
            "lane_order": "zebra",
            "default_strategy": {"name": "reciprocal_rank_fusion", "k": 10},
        },
        providers={"tickets": {"scale": {"id": "bm25", "max": 100}}},
    )


async def test_providers_are_listed_configured_and_attached_in_lane_order(peer: Peer) -> None:
    scale = ScoreScale("dist", 0, 2)
    attached = await peer.attach("apple", "1", scale, version="v7", kinds=("doc", "symbol"), max_in_flight=3)
    listed = await peer.providers()
    assert list(listed) == ["zebra", "tickets", "apple"]
    assert (listed["zebra"].scale, listed["zebra"].instances, listed["zebra"].last_seen) == (None, (), None)
    assert listed["tickets"].scale == ScoreScale("bm25", 0, 100)
    apple = listed["apple"]
    assert (apple.scale, apple.kinds, apple.quarantined_seconds) == (scale, ("doc", "symbol"), 0)
    (instance,) = apple.instances
    assert (instance.instance, instance.session, instance.version) == ("1", attached.session_id, "v7")
    assert (instance.in_flight, instance.max_in_flight) == (0, 3)
    assert instance.last_seen == apple.last_seen


async def test_a_provider_that_is_asked_shows_it(peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = await peer.composing(collect_timeout=20.0)
    ask = await provider.hear_ask()
    assert (await peer.providers())["a"].instances[0].in_flight == 1
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    composing.call.cancel()


async def test_a_quarantined_provider_shows_for_how_long(peer: Peer) -> None:
    provider = await peer.attach("a")
    await peer.attach("b")
    composing = await peer.composing(collect_timeout=20.0)
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("x", 0.5), content="a") + frames(("x", 0.5), content="b"))
    await composing.until("a", "REFUSED")
    assert 0 < (await peer.providers())["a"].quarantined_seconds <= 60
    composing.call.cancel()


async def test_strategies_are_listed_with_their_flags(peer: Peer) -> None:
    answer = await peer.call(SERVICE + "ListStrategies", b"")
    listed = read_strategies(pb.ListStrategiesResponse.FromString(answer.messages[0]))
    assert [strategy.name for strategy in listed] == sorted(info.name for info in CATALOGUE.values())
    assert [strategy.name for strategy in listed if strategy.compares_raw_scores] == ["score_descending"]
    assert [strategy.name for strategy in listed if strategy.default] == ["reciprocal_rank_fusion"]
    assert {strategy.name: strategy.default_params for strategy in listed if strategy.default_params} == {
        "reciprocal_rank_fusion": {"k": 10, "weights": {}, "default_weight": 1}
    }
    assert [strategy.name for strategy in listed if not strategy.allowed] == ["score_descending"]
    assert {strategy.name: strategy.parameters for strategy in listed} == {
        info.name: info.parameters for info in CATALOGUE.values()
    }


async def test_a_request_that_breaks_a_rule_is_told_so_even_where_nothing_is_built(peer: Peer) -> None:
    answer = await peer.call(SERVICE + "GetComposition", b"")
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.violations[0].field == "composition_id"


async def test_a_long_list_is_whole_and_in_order(peer: Peer, connect: Callable[[], Awaitable[Peer]]) -> None:
    """It is made step by step, one at a time for each tenant."""
    names = [f"{number:03}" for number in range(2 * LISTED_AT_ONCE + 20)]
    other = await connect()
    half = len(names) // 2
    for client, some in ((peer, names[:half]), (other, names[half:])):
        await asyncio.gather(*(client.attach("many", instance=name) for name in some))
    lists = await asyncio.gather(*(peer.providers() for _ in range(5)))
    for found in lists:
        assert [instance.instance for instance in found["many"].instances] == names
