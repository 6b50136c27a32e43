"""An installed policy serves by the operator's word, never by a request's; what it gets wrong costs nobody a frame."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import structlog
from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace

from broker.config import Config
from broker.core.strategies import PluginStrategy
from broker.errors import ConfigError, InvalidArgument
from broker.gate.run import Verdict, run_gate
from broker.gate.subjects import Subject
from broker.plugins import strategies
from broker.rpc.ranking import LIMIT
from broker.rpc.server import Broker
from broker.wire.events import LaneEnded
from broker.wire.listings import read_strategies
from tests.plugins.installing import installed
from tests.rpc.peers import Peer, frames, ranked


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installed(tmp_path_factory.mktemp("plugins")) as folder:
        yield folder


@pytest.fixture(scope="module")
def allowing(distribution: Path) -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"},
        ranking={
            "plugins": ["kind_first"],
            "rerankers": ["longest"],
            "default_strategy": {"name": "kind_first", "turns": 2},
        },
    )


@pytest.fixture(autouse=True)
def _one_gate_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every policy passes the gate once, and not once more for each test's broker."""
    monkeypatch.setattr(strategies, "run_gate", _gate)


@cache
def _verdict(name: str) -> Verdict:
    return run_gate(_subjects[name])


_subjects: dict[str, Subject] = {}


def _gate(subject: Subject) -> Verdict:
    _subjects[subject.name] = subject
    return _verdict(subject.name)


@pytest.fixture
def broker_config(allowing: Config) -> Config:
    return allowing


SCORES = (("s", 0.9), ("d", 0.8), ("e", 0.7), ("x", 0.1))


async def answered(peer: Peer, **asked: object):
    """The composition of a lane that sends a snippet and two docs, and one that sends a doc."""
    providers = {"a": await peer.attach("a"), "b": await peer.attach("b")}
    composing = asyncio.create_task(peer.compose(collect_timeout=20.0, **asked))
    sent = {frame.id: replace(frame, kind="snippet" if frame.id == "s" else "doc") for frame in frames(*SCORES)}
    await providers["a"].answer([sent["s"], sent["d"], sent["e"]])
    await providers["b"].answer([sent["x"]])
    answer = await composing
    assert answer.error is None, answer.error
    return answer.composition()


async def test_a_plugin_serves_and_stands_in_the_audit(peer: Peer) -> None:
    composition = await answered(peer, strategy=PluginStrategy("kind_first", {"kind": "doc"}))
    assert ranked(composition) == ["x", "d", "e", "s"]  # x is the best of its lane, d the second best
    record = composition.summary.strategy
    assert (record.name, record.version, record.compares_raw_scores) == ("kind_first", "1.2.0", False)
    assert record.params == {"kind": "doc", "turns": 1}
    assert record.repairs == ()


async def test_the_operators_default_may_be_a_plugin_with_parameters(peer: Peer) -> None:
    composition = await answered(peer)
    assert composition.summary.strategy.name == "kind_first"
    assert composition.summary.strategy.params == {"kind": "doc", "turns": 2}


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ("raising", "round robin stands in: the plugin failed with KeyError"),
        ("empty", "round robin stands in: the plugin failed with TypeError"),
        ("endless", "appended 3 that were left out, in round-robin order"),
    ],
)
async def test_a_plugin_that_fails_fails_no_request(peer: Peer, mood: str, said: str) -> None:
    with structlog.testing.capture_logs() as logged:
        composition = await answered(peer, strategy=PluginStrategy("kind_first", {"mood": mood}))
    assert sorted(ranked(composition)) == ["d", "e", "s", "x"]
    assert said in composition.summary.strategy.repairs
    assert "secret" not in str(composition)
    (told,) = [record for record in logged if record["event"] == "composition"]
    assert said in told["strategy_repairs"]


async def test_snapshots_whose_plugin_hangs_take_no_place_from_an_answer(peer: Peer, broker: Broker) -> None:
    released = threading.Event()
    threads = broker._running.context_service._composer._snapshot_plugins._threads["kind_first"]
    held = [asyncio.create_task(threads.run(released.wait)) for _ in range(LIMIT)]
    try:
        composition = await answered(peer, strategy=PluginStrategy("kind_first", {"kind": "doc"}), snapshots=True)
    finally:
        released.set()
        await asyncio.gather(*held)
    assert composition.summary.strategy.repairs == ()
    assert ranked(composition) == ["x", "d", "e", "s"]


REFUSED = [
    (PluginStrategy("nope"), "STRATEGY_UNKNOWN", "strategy.plugin.name", "no plugin 'nope'; see ListStrategies"),
    (PluginStrategy("uninvited"), "STRATEGY_UNKNOWN", "strategy.plugin.name", "no plugin 'uninvited'"),
    (PluginStrategy("os:system"), "STRATEGY_UNKNOWN", "strategy.plugin.name", "no plugin 'os:system'"),
    (PluginStrategy("longest"), "STRATEGY_UNKNOWN", "strategy.plugin.name", "no plugin 'longest'"),
    (PluginStrategy("round_robin"), "STRATEGY_UNKNOWN", "strategy.plugin.name", "ask for strategy.round_robin"),
    (PluginStrategy(""), "STRATEGY_PARAMS", "strategy.plugin.name", ""),
    (
        PluginStrategy("kind_first", {"min_score": 0.5}),
        "STRATEGY_PARAMS",
        "strategy.plugin.params.min_score",
        "declares no parameter 'min_score'; it takes kind, turns, mood",
    ),
    (PluginStrategy("kind_first", {"turns": "2"}), "STRATEGY_PARAMS", "strategy.plugin.params.turns", "a number"),
]


@pytest.mark.parametrize(("strategy", "reason", "field", "says"), REFUSED)
async def test_h17_h25_what_is_not_allowed_is_refused_before_anyone_is_asked(
    peer: Peer, strategy: PluginStrategy, reason: str, field: str, says: str
) -> None:
    provider = await peer.attach("a")
    answer = await peer.compose(strategy=strategy)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.messages == []
    (violation,) = answer.error.violations
    assert (answer.error.reason, violation.reason, violation.field) == (reason, reason, field)
    assert says in violation.message
    composing = asyncio.create_task(peer.compose(goal="afterwards", collect_timeout=20.0))
    ask = await provider.hear_ask()
    assert ask.query.goal == "afterwards"
    await provider.say(LaneEnded(ask.query_id))
    await composing


async def test_h34_h82_what_the_operator_did_not_name_is_never_loaded(peer: Peer) -> None:
    await peer.compose(strategy=PluginStrategy("uninvited"))
    await peer.compose(strategy=PluginStrategy("uninvited_ranking:Uninvited"))
    assert "uninvited_ranking" not in sys.modules


async def test_a_plugin_is_listed_with_its_version_and_parameters(peer: Peer) -> None:
    answer = await peer.call("/contextbroker.v1.ContextService/ListStrategies", b"")
    listed = {one.name: one for one in read_strategies(pb.ListStrategiesResponse.FromString(answer.messages[0]))}
    assert list(listed) == sorted(listed)
    plugin = listed["kind_first"]
    assert (plugin.version, plugin.allowed, plugin.compares_raw_scores) == ("1.2.0", True, False)
    assert [parameter.name for parameter in plugin.parameters] == ["kind", "turns", "mood"]
    assert [name for name, one in listed.items() if one.default] == ["kind_first"]
    assert "uninvited" not in listed


@pytest.mark.parametrize(
    ("ranking", "says"),
    [
        ({"plugins": ["careless"]}, "the gate refuses the plugin 'careless'"),
        ({"plugins": ["nope"]}, "no plugin called 'nope' is installed"),
        ({"rerankers": ["nothing"]}, "is no reranker"),
        ({"plugins": ["kind_first"], "default_strategy": {"name": "kind_first", "x": 1}}, "declares no parameter 'x'"),
    ],
)
def test_a_broker_does_not_start_with_what_it_cannot_allow(distribution: Path, ranking: dict, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Broker(Config(server={"listen": "127.0.0.1:0"}, ranking=ranking))
    assert says in str(caught.value)


async def test_another_default_is_taken_while_the_broker_runs_if_the_plugin_takes_it(
    broker: Broker, allowing: Config, peer: Peer
) -> None:
    def defaulting(turns: object) -> Config:
        ranking = allowing.ranking.model_copy(update={"default_strategy": {"name": "kind_first", "turns": turns}})
        return allowing.model_copy(update={"ranking": ranking})

    with pytest.raises(ConfigError, match="turns"):
        await broker.reload(defaulting("many"))
    assert await broker.reload(defaulting(3)) == ["ranking.default_strategy"]
    composition = await answered(peer)
    assert composition.summary.strategy.params == {"kind": "doc", "turns": 3}
    without = defaulting(3).ranking.model_copy(update={"plugins": ()})
    with pytest.raises(ConfigError, match=r"a new start is needed to change ranking\.plugins"):
        await broker.reload(allowing.model_copy(update={"ranking": without}))
