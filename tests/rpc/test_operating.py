"""Operators see a running broker from outside: what it did, whether it takes requests, and that it hangs."""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.config import Config
from broker.errors import ConfigError
from broker.rpc import operating
from broker.rpc.server import Broker
from broker.telemetry.metrics import GAUGES, PREFIX
from tests.rpc.identities import Identities, Known, bearer, token_of
from tests.rpc.peers import COMPOSE, SAFETY, Peer, frames

ON_ANY_PORT = {"listen": "127.0.0.1:0"}


@pytest.fixture
def broker_config() -> Config:
    return Config(server=ON_ANY_PORT, admin=ON_ANY_PORT)


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=SAFETY) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def shown(broker: Broker, path: str = "/metrics") -> tuple[int, str]:
    return await asyncio.to_thread(get, broker.admin_address, path)


async def figures(broker: Broker) -> dict[tuple[str, frozenset[str]], float]:
    """Every sample of the broker's own by name and labels' values."""
    _, text = await shown(broker)
    return {
        (sample.name.removeprefix(f"{PREFIX}_"), frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }


async def until(broker: Broker, holds: Callable[[dict[tuple[str, frozenset[str]], float]], bool]) -> None:
    """Returns once what is shown is as it must become."""
    async with asyncio.timeout(SAFETY):
        while not holds(await figures(broker)):
            pass


async def test_what_a_broker_did_is_shown(broker: Broker, peer: Peer) -> None:
    a, b = await peer.attach("a"), await peer.attach("b")
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    await a.answer(frames(("x", 0.5), ("y", 0.4)))
    await b.answer([], failed=True)
    assert (await composing).error is None
    assert (await peer.call(COMPOSE, b"\xff")).error is not None
    found = await figures(broker)
    wanted = {
        ("calls_total", "Compose", "OK"): 1,
        ("calls_total", "Compose", "INVALID_ARGUMENT"): 1,
        ("refusals_total", "Compose", "MALFORMED"): 1,
        ("call_seconds_count", "Compose"): 2,
        ("calls_in_flight", "Attach"): 2,
        ("calls_in_flight", "Compose"): 0,
        ("compositions_total", "round_robin", "RECORDED"): 1,
        ("stage_seconds_count", "gathering"): 1,
        ("stage_seconds_count", "composing"): 1,
        ("lanes_total", "a", "COMPLETE"): 1,
        ("lanes_total", "b", "FAILED"): 1,
        ("lanes_in_flight",): 0,
        ("frames_total", "placed", ""): 2,
        ("provider_frames_total", "a", "placed"): 2,
        ("provider_instances", "a"): 1,
        ("store_record_seconds_count", "RECORDED"): 1,
    }
    assert {key: found[key[0], frozenset(key[1:])] for key in wanted} == wanted
    a.call.cancel()
    await until(broker, lambda found: found["provider_instances", frozenset({"a"})] == 0)


async def test_what_is_measured_of_a_broker_is_real(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    ask = await provider.hear_ask()
    nothing: frozenset[str] = frozenset()
    await until(broker, lambda found: found["requests_in_flight", nothing] == 1 and found["sessions", nothing] == 1)
    found = await figures(broker)
    assert {name for name in GAUGES if (name, nothing) not in found} == set()
    assert found["ready", nothing] == 1
    assert found["held_bytes", nothing] > 0
    assert 10e6 < found["memory_bytes", nothing] < found["memory_shed_bytes", nothing]
    assert found["memory_shed_bytes", nothing] < found["memory_limit_bytes", nothing]
    assert found["event_loop_lag_seconds_count", nothing] > 0
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    provider.call.cancel()
    await composing
    await until(broker, lambda found: found["requests_in_flight", nothing] == 0 and found["sessions", nothing] == 0)


async def test_lanes_that_callers_made_up_have_no_figures_of_their_own(broker: Broker, peer: Peer) -> None:
    for number in range(3):
        await peer.compose(expect_pushes=(f"invented-{number}",), collect_timeout=0.01)
    _, text = await shown(broker)
    assert "invented" not in text
    found = await figures(broker)
    assert found["lanes_total", frozenset({"(other)", "TIMED_OUT"})] == 3


async def test_probes_tell_a_broker_that_drains_from_one_that_serves(broker: Broker, peer: Peer) -> None:
    assert await shown(broker, "/healthz") == (200, "ok\n")
    assert await shown(broker, "/readyz") == (200, "ok\n")
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    ask = await provider.hear_ask()
    address = broker.admin_address
    stopping = asyncio.create_task(broker.stop(grace=SAFETY))
    await provider.hear()
    assert await asyncio.to_thread(get, address, "/readyz") == (503, "draining\n")
    assert await asyncio.to_thread(get, address, "/healthz") == (200, "ok\n")
    provider.call.cancel()
    del ask
    await composing
    await stopping
    with pytest.raises(OSError):
        await asyncio.to_thread(get, address, "/readyz")


async def test_a_loop_that_hangs_is_told_of_while_it_hangs(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "STUCK_SECONDS", 0.3)
    assert await shown(broker, "/healthz") == (200, "ok\n")
    time.sleep(0.4)  # noqa: ASYNC251 - the loop is to hang
    assert (get(broker.admin_address, "/healthz")) == (503, "the event loop has not turned for 0 s\n")
    await until(broker, lambda found: found["event_loop_lag_seconds_sum", frozenset()] > 0.2)
    assert await shown(broker, "/healthz") == (200, "ok\n")


async def test_a_port_that_is_taken_is_a_plain_error_and_nothing_is_left(broker: Broker) -> None:
    second = Broker(Config(server=ON_ANY_PORT, admin={"listen": broker.admin_address}))
    with pytest.raises(OSError, match="address in use") as caught:
        await second.start()
    assert caught.value.filename == broker.admin_address
    assert (await shown(broker, "/readyz"))[0] == 200


async def test_a_start_that_fails_later_frees_the_port(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    store = {"kind": "sqlite", "file": tmp_path / "missing" / "store.db"}
    with pytest.raises(ConfigError, match="store"):
        await Broker(Config(server=ON_ANY_PORT, admin={"listen": address}, store=store)).start()
    broker = Broker(Config(server=ON_ANY_PORT, admin={"listen": address}))
    await broker.start()
    assert (await shown(broker, "/readyz"))[0] == 200
    await broker.stop()


class TestKnownCallers:
    """A broker with secrets and tenants."""

    @pytest.fixture
    def broker_config(self, tmp_path: Path) -> Config:
        return Identities(tmp_path).config(admin=ON_ANY_PORT)

    async def test_nothing_secret_and_nothing_that_was_said_is_shown(self, broker: Broker) -> None:
        async with grpc.aio.insecure_channel(broker.address) as channel:
            provider = await Known(channel, bearer("search")).attach("search")
            asks = Known(channel, bearer("asks"))
            composing = asyncio.create_task(asks.compose(goal="THE-GOAL", request_id="THE-REQUEST"))
            await provider.answer(frames(("THE-ID", 0.123456), content="THE-CONTENT"))
            composition = (await composing).composition()
            wrong = Known(channel, (("authorization", "Bearer THE-WRONG-TOKEN"),))
            assert (await wrong.compose()).error is not None
        _, text = await shown(broker)
        assert composition.composition_id not in text
        for secret in ("THE-", "123456", token_of("search"), token_of("asks"), "127.0.0.1", "ipv4"):
            assert secret not in text
        found = await figures(broker)
        assert found["refusals_total", frozenset({"Compose", "CREDENTIALS"})] == 1
        assert found["calls_total", frozenset({"Compose", "UNAUTHENTICATED"})] == 1


class TestSmallPart:
    """Fewer providers are told apart than attach."""

    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server=ON_ANY_PORT, admin=ON_ANY_PORT | {"providers": 2}, providers={"known": {}})

    async def test_configured_ones_come_first(self, broker: Broker, peer: Peer) -> None:
        attached = [await peer.attach(name) for name in ("one", "two", "three", "known")]
        found = await figures(broker)
        assert {labels: n for (name, labels), n in found.items() if name == "provider_instances"} == {
            frozenset({"known"}): 1,
            frozenset({"one"}): 1,
            frozenset({"(other)"}): 2,
        }
        del attached
