"""A plugin that does not answer in time costs its own order and nothing else: round robin stands in, and says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from broker.core.compose import finish
from broker.core.composition import Composition
from broker.core.request import CompositionRequest
from broker.core.strategies import PluginStrategy
from broker.rpc.ranking import LIMIT, PluginRanker
from tests.core.building import POLICY, lane, ranked

LANES = (lane("a", {"a1": 0.9, "a2": 0.8}), lane("b", {"b1": 0.2, "b2": 0.1}))
ROUND_ROBIN = ["a1", "b1", "a2", "b2"]
LATE = ("round robin stands in: the plugin failed with TimeoutError",)


class Backwards:
    """Answers backwards, once it may."""

    name, version, description, parameters = "backwards", "2", "Backwards.", ()

    def __init__(self) -> None:
        self.may = threading.Event()
        self.running = 0

    def order(self, handles, params):
        self.running += 1
        self.may.wait()
        return [handle.index for handle in reversed(handles)]


@pytest.fixture
def plugin() -> Iterator[Backwards]:
    plugin = Backwards()
    yield plugin
    plugin.may.set()


def ranker(plugin: Backwards, seconds: float) -> PluginRanker:
    return PluginRanker(replace(POLICY, plugins={"backwards": plugin}), seconds)


async def composed(by: PluginRanker, deadline: float | None = None) -> Composition:
    strategy = PluginStrategy("backwards")
    request = CompositionRequest(max_tokens=100_000, strategy=strategy)
    return finish(await by.rank(strategy, LANES, request, deadline))


async def test_who_answers_in_time_is_heard(plugin: Backwards) -> None:
    plugin.may.set()
    composition = await composed(ranker(plugin, 60.0))
    assert ranked(composition) == ["b2", "b1", "a2", "a1"]
    assert composition.summary.strategy.repairs == ()


async def test_round_robin_stands_in_for_one_that_hangs_and_both_are_named(plugin: Backwards) -> None:
    with capture_logs() as logged:
        composition = await composed(ranker(plugin, 0.01))
    record = composition.summary.strategy
    assert ranked(composition) == ROUND_ROBIN
    assert (record.name, record.version, record.repairs) == ("backwards", "2", LATE)
    assert [(one["event"], one["plugin"]) for one in logged] == [("plugin is late; round robin stands in", "backwards")]


async def test_the_caller_never_waits_longer_than_half_of_what_it_has_left(plugin: Backwards) -> None:
    by = ranker(plugin, 3600.0)
    assert (await composed(by, asyncio.get_running_loop().time() + 0.02)).summary.strategy.repairs == LATE
    assert (await composed(by, 0.0)).summary.strategy.repairs == LATE


async def test_however_often_it_hangs_it_holds_no_more_threads_than_its_own(plugin: Backwards) -> None:
    by = ranker(plugin, 0.01)
    for _ in range(LIMIT + 3):
        assert ranked(await composed(by)) == ROUND_ROBIN
    assert plugin.running <= LIMIT
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "rank-backwards")


async def test_one_that_cannot_be_asked_has_its_place_taken_too(
    plugin: Backwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.may.set()
    by = ranker(plugin, 60.0)
    with monkeypatch.context() as patch, capture_logs() as logged:
        real = threading.Thread.start

        def full(thread: threading.Thread) -> None:
            if thread.name == "rank-backwards":
                raise RuntimeError("can't start new thread")
            real(thread)

        patch.setattr(threading.Thread, "start", full)
        assert ranked(await composed(by)) == ROUND_ROBIN
    assert logged[0]["why"] == "no thread could be started for it"
    assert ranked(await composed(by)) == ["b2", "b1", "a2", "a1"]
