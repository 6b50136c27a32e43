"""A socket that says nothing is closed, a peer that is half gone is found, and one that only pings is kept."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from broker.client.access import Access
from broker.client.channel import open_channel
from broker.config import Config
from broker.rpc.server import Broker
from broker.wire.events import Hello
from broker.wire.sessions import attach_request
from tests.faults.proxy import FaultProxy
from tests.raw.asking import BODY, answered, inline
from tests.raw.http2 import PING, PREFACE, RawClient, frame, message, request_headers, settings
from tests.rpc.peers import ATTACH, COMPOSE, Peer
from tests.soaking import Soak


@pytest.fixture
def broker_config() -> Config:
    return Config(server={"listen": "127.0.0.1:0", "handshake_seconds": 0.5})


async def until_closed(address: str, *said: bytes, every: float = 0.1, tls: ssl.SSLContext | None = None) -> None:
    """Connects, says each of these a moment after the other, and returns once the broker has hung up."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)

    async def say() -> None:
        for data in said:
            writer.write(data)
            await asyncio.sleep(every)

    saying = asyncio.create_task(say())
    with suppress(OSError):
        while await reader.read(65_536):
            pass
    saying.cancel()
    writer.transport.abort()


BYTE_BY_BYTE = tuple(bytes((byte,)) for byte in PREFACE + settings())

SILENCES = {
    "nothing": (),
    "half a preface": (PREFACE[:10],),
    "no settings": (PREFACE,),
    "one byte at a time": BYTE_BY_BYTE,
    "another protocol": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",),
    "a preface that never ends": (b"PRI * HTTP/2.0\r\n" * 100,) * 100,
}


@pytest.mark.parametrize("said", SILENCES.values(), ids=SILENCES)
async def test_h13_a_socket_that_never_becomes_a_connection_is_closed(broker: Broker, said: tuple[bytes, ...]) -> None:
    await answered(until_closed(broker.address, *said))


async def test_h13_a_connection_that_does_not_confirm_its_settings_is_closed(broker: Broker) -> None:
    await answered(until_closed(broker.address, PREFACE + settings()))


async def test_h13_hundreds_of_silent_sockets_keep_no_one_out(broker: Broker, other: Peer) -> None:
    silent = [asyncio.create_task(until_closed(broker.address)) for _ in range(300)]
    for _ in range(5):
        assert (await answered(other.compose(**inline()))).error is None
    await answered(asyncio.gather(*silent))


async def test_h13_a_silent_tls_handshake_is_closed(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    server = {"listen": "localhost:0", "tls_cert": cert, "tls_key": key, "handshake_seconds": 0.5}
    broker = Broker(Config(server=server))
    address = await broker.start()
    trusted = ssl.create_default_context(cafile=cert)
    trusted.set_alpn_protocols(["h2"])
    plain = [until_closed(address, *said) for said in ((), (bytes.fromhex("160301020001000200"),), BYTE_BY_BYTE)]
    shaken = [until_closed(address, *said, tls=trusted) for said in ((), (PREFACE[:10],), BYTE_BY_BYTE)]
    await answered(asyncio.gather(*plain, *shaken))
    async with RawClient.connect(address, tls=trusted) as client:
        assert (await answered(client.call(request_headers(COMPOSE), BODY))).status == "OK"
    await broker.stop(grace=1.0)


# --- P5: half gone, or eager


FOUND = 30.0
"""Seconds within which a peer that is half gone is found."""


@pytest.mark.soak
async def test_p5_a_peer_that_is_half_gone_is_found_by_either_side(broker: Broker, other: Peer, soak: Soak) -> None:
    loop = asyncio.get_running_loop()
    async with (
        FaultProxy(broker.address) as way,
        FaultProxy(broker.address) as clients_way,
        RawClient.connect(way.address) as client,
        open_channel(clients_way.address, Access()) as channel,
    ):
        hello = message(attach_request(Hello("a", "1")))
        await client.open(request_headers(ATTACH), hello, end=False)
        attached = await Peer(channel).attach("b")
        while {provider for provider, known in (await other.providers()).items() if known.instances} != {"a", "b"}:
            pass
        way.swallow()
        clients_way.swallow()
        begun = loop.time()
        async with asyncio.timeout(FOUND):
            await other.until_gone("a")
            by_broker = loop.time() - begun
            with pytest.raises(grpc.aio.AioRpcError):
                await attached.call.read()
        soak.record("P5", found_by_broker_s=round(by_broker, 1), found_by_client_s=round(loop.time() - begun, 1))


@pytest.mark.soak
@pytest.mark.parametrize("session", [False, True], ids=["no call", "a session"])
async def test_p5_a_client_that_pings_every_ten_seconds_is_never_cut(broker: Broker, session: bool, soak: Soak) -> None:
    pings = soak.count(18)
    async with RawClient.connect(broker.address) as client:
        if session:
            await client.open(request_headers(ATTACH), message(attach_request(Hello("a", "1"))), end=False)
        for _ in range(pings):
            await client.send(frame(PING, 0, 0, bytes(8)))
            await asyncio.sleep(10.0)
        assert (client.goaway, client.pongs, client.closed.is_set()) == (None, pings, False)
        assert (await answered(client.call(request_headers(COMPOSE), BODY))).status == "OK"
    soak.record("P5", pings=pings, session=session, cut=0)
