"""Long runs: a daemon stops in order whenever it is told to (P7), and renewed sessions lose no request (P6)."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker.client import ContextClient, Frame, Provider, Query
from broker.config import Config
from broker.errors import Unavailable
from broker.rpc.server import Broker
from broker.wire.events import Draining, LaneEnded
from tests.faults.processes import PATIENCE, broker_process
from tests.rpc.peers import Peer, frames, lanes
from tests.soaking import Soak


@pytest.mark.soak
async def test_a_daemon_that_is_told_to_stop_at_any_moment_stops_in_order(tmp_path: Path, soak: Soak) -> None:
    """P7."""
    chance = random.Random(7)
    unready, idle, busy, forced = [], [], [], []
    for number in range(soak.count(24)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with broker_process(folder) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
            peer = Peer(channel)
            provider = await peer.attach("a")
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            running = number % 3 > 0
            if running:
                composing = asyncio.create_task(peer.compose(collect_timeout=PATIENCE))
                ask = await provider.hear_ask()
            await asyncio.sleep(chance.uniform(0, 0.05))
            started = time.monotonic()
            daemon.send(signal.SIGTERM)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            unready.append(time.monotonic() - started)
            assert isinstance(await provider.hear(), Draining)
            if not running:
                assert await daemon.ended() == 0
                idle.append(time.monotonic() - started)
            elif number % 3 == 1:
                assert isinstance((await peer.compose()).error, Unavailable)
                await provider.frames(ask.query_id, frames(("x", 0.5)))
                await provider.say(LaneEnded(ask.query_id))
                assert lanes((await composing).composition()) == {"a": "COMPLETE"}
                finished = time.monotonic()
                assert await daemon.ended() == 0
                busy.append(time.monotonic() - finished)
            else:
                again = time.monotonic()
                daemon.send(signal.SIGTERM)
                assert await daemon.ended() == 128 + signal.SIGTERM
                forced.append(time.monotonic() - again)
                assert (await composing).error is not None
            assert "Traceback" not in daemon.errors
    soak.record(
        "P7",
        stops=len(unready),
        slowest_not_ready_ms=round(max(unready) * 1000, 1),
        slowest_idle_exit_ms=round(max(idle, default=0) * 1000),
        slowest_exit_after_last_answer_ms=round(max(busy, default=0) * 1000),
        slowest_exit_after_second_signal_ms=round(max(forced, default=0) * 1000),
    )


class TestRenewal:
    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0", "session_age_seconds": 2.0})

    @pytest.mark.soak
    async def test_sessions_of_two_seconds_lose_no_request(self, broker: Broker, soak: Soak) -> None:
        """P6."""
        sessions: list[str] = []
        lost, asked, slowest = 0, 0, 0.0

        async def answer(query: Query) -> list[Frame]:
            # Long enough that some questions are open whenever a session is renewed.
            await asyncio.sleep(random.uniform(0, 0.2))
            return [Frame(query.text, "t", query.text, 0.5)]

        async def ask(client: ContextClient, number: int) -> None:
            nonlocal lost, slowest
            started = time.monotonic()
            found = await client.compose(f"question {number}", max_tokens=1000, inline_lanes=())
            slowest = max(slowest, time.monotonic() - started)
            lost += [lane.end.value for lane in found.summary.lanes] != ["COMPLETE"] or len(found.placed) != 1

        providers = [Provider("a", answer) for _ in range(2)]
        serving = [asyncio.create_task(each.serve(broker.address, on_attached=sessions.append)) for each in providers]
        async with ContextClient(broker.address) as client:
            while not await client.providers():
                pass
            running: set[asyncio.Task[None]] = set()
            for number in range(soak.count(500)):
                running.add(asyncio.create_task(ask(client, number)))
                asked += 1
                await asyncio.sleep(0.03)
            await asyncio.gather(*running)
        for each in providers:
            await each.stop()
        await asyncio.gather(*serving)
        assert lost == 0
        soak.record("P6", requests=asked, sessions=len(sessions), lost=lost, slowest_ms=round(slowest * 1000))
