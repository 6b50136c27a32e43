"""Where a broker answers and no connection stands, the likely cause is told first, by every client."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.client import BlockingContextClient, ContextClient, Frame, Provider, Query, Unavailable, handshakes
from broker.client.access import Access
from broker.client.handshakes import explained, explained_soon
from broker.client.health import health
from broker.config import Config
from broker.errors import BrokerError, ResourceExhausted
from broker.rpc.server import Broker
from tests.authority import Authority
from tests.client.fake import SAFETY


@dataclass(frozen=True)
class Town:
    """Brokers of every kind, and what a client may bring to them.

    Attributes:
        addresses: Of a broker with TLS, one that asks for certificates, one in plain text, one by a name that its
            certificate lacks, one whose certificate is of another time, and something that hangs up on everyone.
        files: Keywords of the clients, by a word.
    """

    addresses: dict[str, str]
    files: dict[str, dict[str, Path]]


@pytest.fixture
async def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    authority, stranger, clients = Authority(tmp_path), Authority(tmp_path, "stranger"), Authority(tmp_path, "clients")
    cert, key = authority.issue("server")
    tls: dict[str, Any] = {"tls_cert": cert, "tls_key": key}
    mine = dict(zip(("tls_cert", "tls_key"), clients.issue("mine"), strict=True))
    others = dict(zip(("tls_cert", "tls_key"), stranger.issue("others"), strict=True))
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    kinds: dict[str, dict[str, Any]] = {
        "tls": tls,
        "mutual": {**tls, "tls_client_ca": clients.ca},
        "plain": {},
        "elsewhere": {**tls, "listen": "127.0.0.2:0"},
    }
    async with AsyncExitStack() as stack:
        addresses = {}
        for kind, server in kinds.items():
            broker = Broker(Config(server={"listen": "127.0.0.1:0", **server}))
            addresses[kind] = await broker.start()
            stack.push_async_callback(broker.stop, grace=0)
        rude = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        stack.push_async_callback(rude.wait_closed)
        stack.callback(rude.close)
        addresses["rude"] = f"127.0.0.1:{rude.sockets[0].getsockname()[1]}"
        yield Town(
            addresses,
            {
                "no TLS": {},
                "its CA": {"tls_ca": authority.ca},
                "another CA": {"tls_ca": stranger.ca},
                "no CA at all": {"tls_ca": nothing},
                "a good certificate": {"tls_ca": authority.ca, **mine},
                "another certificate": {"tls_ca": authority.ca, **others},
            },
        )


async def of_asynchronous(address: str, **access: Any) -> None:
    async with ContextClient(address, **access) as client:
        await client.strategies()


async def of_stream(address: str, **access: Any) -> None:
    async with ContextClient(address, **access) as client:
        await client.compose("g", max_tokens=100)


async def of_blocking(address: str, **access: Any) -> None:
    def ask() -> None:
        with BlockingContextClient(address, **access) as client:
            client.strategies()

    await asyncio.to_thread(ask)


async def of_health(address: str, **access: Any) -> None:
    await health(address, **access)


Call = Callable[..., Awaitable[None]]


@pytest.mark.parametrize("call", [of_asynchronous, of_stream, of_blocking, of_health])
async def test_the_likely_cause_is_told_first(town: Town, call: Call) -> None:
    cases = {
        ("tls", "no TLS"): "speaks TLS, and this client does not: give tls_ca",
        ("mutual", "no TLS"): "speaks TLS, and this client does not: give tls_ca",
        ("tls", "another CA"): "is not of the authority in tls_ca",
        ("tls", "no CA at all"): "cannot be used: are they certificates",
        ("elsewhere", "its CA"): "is not for '127.0.0.2'; it is for localhost, 127.0.0.1",
        ("plain", "its CA"): "does not speak TLS, and this client does",
        ("mutual", "its CA"): "asks for a certificate of this client: give tls_cert and tls_key",
        ("mutual", "another certificate"): "does not take the certificate in tls_cert",
    }
    for (kind, brought), words in cases.items():
        with pytest.raises(Unavailable) as caught:
            await call(town.addresses[kind], **town.files[brought])
        error = caught.value
        assert (error.reason, words in error.message.partition(" (")[0]) == ("TLS", True), (kind, brought, error)
        assert "start one" not in error.message
        assert town.addresses[kind] in error.message or brought == "no CA at all"


@pytest.mark.parametrize("call", [of_asynchronous, of_blocking])
async def test_where_nothing_of_tls_is_seen_nothing_is_said_of_it(town: Town, call: Call) -> None:
    for brought in ("no TLS", "its CA", "a good certificate"):
        with pytest.raises(Unavailable) as caught:
            await call(town.addresses["rude"], **town.files[brought])
        assert caught.value.reason == "UNREACHABLE", caught.value
    await of_health(town.addresses["mutual"], **town.files["a good certificate"])


async def test_a_provider_says_why_and_tries_again(town: Town, serve, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(_: Query) -> list[Frame]:
        return []

    told = asyncio.Event()

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "will try again: the broker at" in record.getMessage():
                told.set()

    log = logging.getLogger("broker.client")
    handler = Telling(logging.WARNING)
    log.addHandler(handler)
    try:
        serving = serve(Provider("notes", answer), town.addresses["tls"])
        await asyncio.wait_for(told.wait(), SAFETY)
    finally:
        log.removeHandler(handler)
    assert "speaks TLS, and this client does not" in caplog.text
    assert not serving.done()


@pytest.mark.parametrize(
    ("begins", "ends"), [(timedelta(hours=-2), timedelta(hours=-1)), (timedelta(hours=1), timedelta(hours=2))]
)
async def test_a_certificate_of_another_time_is_told(tmp_path: Path, begins: timedelta, ends: timedelta) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("old", begins=begins, ends=ends))
    context.set_alpn_protocols(["h2"])
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    try:
        with pytest.raises(Unavailable, match="is not valid now"):
            await of_asynchronous(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", tls_ca=authority.ca)
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("UNREACHABLE", "no broker answers at 127.0.0.1:1; start one (Connection refused)"),
        Unavailable("CONNECTION_LOST", "lost (Socket closed)"),
        ResourceExhausted("CALL_RATE", "Socket closed"),
    ],
)
async def test_nothing_is_connected_to_where_no_handshake_failed(
    error: BrokerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: object) -> None:
        raise AssertionError("it was looked at")

    monkeypatch.setattr(handshakes, "_look", look)
    assert explained(error, "127.0.0.1:1", Access()) is error
    assert await explained_soon(error, "127.0.0.1:1", Access()) is error


def test_a_socket_of_the_file_system_is_not_looked_at() -> None:
    error = Unavailable("UNREACHABLE", "no broker answers at unix:/x (Socket closed)")
    assert explained(error, "unix:/x", Access()) is error
