"""The daemon starts once, drains before it stops, and a peer that dies takes nothing with it."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker.config import Config
from broker.core.frames import Frame
from broker.errors import AlreadyExists, ResourceExhausted, Unavailable
from broker.rpc.server import Broker
from broker.wire.events import Cancel, Draining, Hello, LaneEnded
from broker.wire.sessions import attach_request
from tests.rpc.peers import ATTACH, COMPOSE, Answer, Attached, Peer, compose_bytes, frames, lanes, read_all

LONG = 20.0
ON_ANY_PORT = {"listen": "127.0.0.1:0"}


# --- draining


async def test_a_stop_lets_running_requests_finish_and_takes_no_new_ones(
    broker: Broker, peer: Peer, connect: Callable[[], Awaitable[Peer]]
) -> None:
    provider, other = await peer.attach("a"), await connect()
    composing = asyncio.create_task(peer.compose(collect_timeout=LONG))
    ask = await provider.hear_ask()
    stopping = asyncio.create_task(broker.stop(grace=LONG))
    assert isinstance(await provider.hear(), Draining)

    refused = (await other.compose()).error
    assert isinstance(refused, Unavailable)
    assert refused.reason == "DRAINING"
    assert refused.retry_after is not None
    attaching = (await other.call(ATTACH, attach_request(Hello("b", "1")), end=False)).error
    assert isinstance(attaching, Unavailable)
    assert attaching.reason == "STOPPING"
    health = await health_pb2_grpc.HealthStub(other.channel).Check(health_pb2.HealthCheckRequest())
    assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert not stopping.done()

    await provider.frames(ask.query_id, frames(("x", 0.5)))
    await provider.say(LaneEnded(ask.query_id))
    assert lanes((await composing).composition()) == {"a": "COMPLETE"}
    ended = await provider.ended()
    assert isinstance(ended, Unavailable)
    assert ended.reason == "STOPPING"
    assert ended.retry_after is not None
    await stopping


async def test_an_idle_stop_waits_for_no_silent_stream(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    silent = [peer.open(method) for method in (ATTACH, COMPOSE, reflection)]
    # Calls of one connection are taken in order: once a later one was answered, these have begun.
    await peer.providers()
    await asyncio.wait_for(broker.stop(grace=1000), 30)
    assert isinstance(await provider.hear(), Draining)
    assert isinstance(await provider.ended(), Unavailable)
    assert all([(await read_all(call)).error is not None for call in silent])


async def test_a_request_that_outlasts_the_grace_is_cut(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(collect_timeout=LONG))
    await provider.hear_ask()
    await asyncio.wait_for(broker.stop(grace=0.2), LONG)
    error = (await composing).error
    assert isinstance(error, Unavailable)


async def test_a_stop_at_once_cuts_everything(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(collect_timeout=LONG))
    await provider.hear_ask()
    await asyncio.wait_for(broker.stop(grace=0), LONG)
    assert (await composing).error is not None


async def test_stopping_twice_or_before_a_start_is_nothing() -> None:
    broker = Broker(Config(server=ON_ANY_PORT))
    await broker.stop()
    await broker.start()
    await broker.stop()
    await broker.stop()


# --- the port


async def test_a_second_broker_on_a_port_fails_and_the_first_is_untouched(broker: Broker, peer: Peer) -> None:
    second = Broker(Config(server={"listen": broker.address}))
    with pytest.raises(OSError, match="address in use") as caught:
        await second.start()
    assert caught.value.errno == errno.EADDRINUSE
    assert caught.value.filename == broker.address
    assert await peer.providers() == {}


# --- peers that die


KILLED = """
import sys, time
import grpc
address, method, data, size = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]), int(sys.argv[4])
for message in grpc.insecure_channel(address).unary_stream(method)(data):
    if len(message) >= size:
        break
print("read", flush=True)
time.sleep(600)
"""


async def doomed(broker: Broker, size: int, **asked: object) -> asyncio.subprocess.Process:
    """A client of its own process that reads its answer up to a message of so many bytes, and never reads on."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, broker.address, COMPOSE, compose_bytes(**asked).hex(), str(size)),
        stdout=asyncio.subprocess.PIPE,
    )


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kills such a client once it has read what it reads."""
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), LONG) == b"read\n"
    process.kill()
    # The pipe's transport is closed only once it was read to its end.
    await process.communicate()


async def until_free(peer: Peer, request_id: str) -> Answer:
    """Composes under the name of another request as soon as that one has ended."""
    async with asyncio.timeout(LONG):
        while True:
            answer = await peer.compose(request_id=request_id, no_providers=True)
            if not isinstance(answer.error, AlreadyExists):
                return answer


async def test_a_client_killed_while_collecting_cancels_its_providers(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    process = await doomed(broker, 1, collect_timeout=LONG, request_id="r")
    ask = await provider.hear_ask()
    await kill(process)
    assert await provider.hear() == Cancel(ask.query_id)
    await until_free(peer, "r")


class TestLargeAnswers:
    """An answer larger than what the connection holds, so that writing it has to wait for its reader."""

    LARGE: ClassVar = [Frame(id=str(i), title="t", content=f"{i:03}" * 50_000, score=0.5) for i in range(40)]

    @pytest.fixture
    def broker_config(self) -> Config:
        limits = {"lane_tokens": 10_000_000, "max_tokens": 10_000_000}
        return Config(server=ON_ANY_PORT | {"stall_seconds": 1.0}, limits=limits)

    async def large_answer(self, provider: Attached) -> None:
        ask = await provider.hear_ask()
        for frame in self.LARGE:
            await provider.frames(ask.query_id, [frame])
        await provider.say(LaneEnded(ask.query_id))

    async def test_one_is_read_whole_by_who_reads(self, peer: Peer) -> None:
        provider = await peer.attach("a")
        composing = asyncio.create_task(peer.compose(collect_timeout=LONG, max_tokens=10_000_000))
        await self.large_answer(provider)
        answer = await composing
        assert len(answer.composition().placed) == len(self.LARGE)
        assert max(map(len, answer.messages)) <= 512 * 1024
        assert sum(map(len, answer.messages)) > 8 * 1024 * 1024

    async def test_a_client_killed_while_it_is_written_to_leaves_nothing(
        self, broker: Broker, peer: Peer, caplog: pytest.LogCaptureFixture
    ) -> None:
        provider = await peer.attach("a")
        process = await doomed(broker, 100_000, collect_timeout=LONG, max_tokens=10_000_000, request_id="r")
        await self.large_answer(provider)
        await kill(process)
        await until_free(peer, "r")
        again = asyncio.create_task(peer.compose(collect_timeout=LONG))
        await provider.answer([])
        assert (await again).error is None
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

    async def test_a_client_that_does_not_read_is_cut_and_told_when_it_does(self, peer: Peer) -> None:
        provider = await peer.attach("a")
        call = peer.open(COMPOSE)
        await call.write(compose_bytes(collect_timeout=LONG, max_tokens=10_000_000, request_id="r"))
        await call.done_writing()
        await self.large_answer(provider)
        await until_free(peer, "r")
        error = (await read_all(call)).error
        assert isinstance(error, ResourceExhausted)
        assert error.reason == "SLOW_CONSUMER"
        assert error.quota


# --- the process


SERVE = """
import sys
from broker.config import load
from broker.rpc.process import run
flags = {"server": {"listen": sys.argv[1], "grace_seconds": 600}}
sys.exit(run(load(flags), on_ready=lambda address: print(address, flush=True)))
"""


class Daemon:
    """A daemon in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.process = process
        self.address = address

    @classmethod
    async def start(cls, listen: str = "127.0.0.1:0") -> Daemon:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVE, listen, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        return cls(process, (await asyncio.wait_for(process.stdout.readline(), LONG)).decode().strip())

    async def ended(self) -> tuple[int | None, str]:
        """Its exit code and what it wrote on stderr."""
        _, stderr = await asyncio.wait_for(self.process.communicate(), LONG)
        return self.process.returncode, stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_an_idle_daemon_with_exit_code_0(number: signal.Signals) -> None:
    daemon = await Daemon.start()
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        provider = await Peer(channel).attach("a")
        daemon.process.send_signal(number)
        assert isinstance(await provider.hear(), Draining)
        assert isinstance(await provider.ended(), Unavailable)
        code, stderr = await daemon.ended()
    assert code == 0
    assert "Traceback" not in stderr


async def test_a_signal_lets_a_running_request_finish() -> None:
    daemon = await Daemon.start()
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        peer = Peer(channel)
        provider = await peer.attach("a")
        composing = asyncio.create_task(peer.compose(collect_timeout=LONG))
        ask = await provider.hear_ask()
        daemon.process.terminate()
        assert isinstance(await provider.hear(), Draining)
        await provider.frames(ask.query_id, frames(("x", 0.5)))
        await provider.say(LaneEnded(ask.query_id))
        assert lanes((await composing).composition()) == {"a": "COMPLETE"}
        assert (await daemon.ended())[0] == 0


async def test_a_second_signal_ends_the_daemon_at_once() -> None:
    daemon = await Daemon.start()
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        peer = Peer(channel)
        provider = await peer.attach("a")
        composing = asyncio.create_task(peer.compose(collect_timeout=300.0))
        await provider.hear_ask()
        daemon.process.terminate()
        assert isinstance(await provider.hear(), Draining)
        daemon.process.terminate()
        code, _ = await daemon.ended()
        assert (await composing).error is not None
    assert code == 128 + signal.SIGTERM


async def test_a_daemon_on_a_port_that_is_taken_ends_with_a_plain_error(broker: Broker) -> None:
    daemon = await Daemon.start(broker.address)
    assert daemon.address == ""
    code, stderr = await daemon.ended()
    assert code == 1
    assert stderr.splitlines()[-1].startswith("OSError: ")
    assert "address in use" in stderr.splitlines()[-1]


# --- TLS


async def test_tls_is_served_and_plain_text_is_not(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    server = {"listen": "0.0.0.0:0", "tls_cert": cert, "tls_key": key}
    broker = Broker(Config(server=server, auth={"policy": "anonymous"}))
    address = f"localhost:{(await broker.start()).rpartition(':')[2]}"
    credentials = grpc.ssl_channel_credentials(cert.read_bytes())
    async with grpc.aio.secure_channel(address, credentials) as channel:
        assert await Peer(channel).providers() == {}
    async with grpc.aio.insecure_channel(address) as channel:
        assert isinstance((await Peer(channel).compose(deadline=5.0)).error, Unavailable)
    await broker.stop()
