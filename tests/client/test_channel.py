"""A channel reaches its broker in plain text and by TLS, past proxies that are not meant for it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from shutil import which

import grpc
import pytest

from broker.client import BlockingContextClient, ContextClient, Frame, Provider, Query
from broker.client.channel import _options, translated
from broker.config import Config
from broker.errors import BrokerError, Unavailable
from broker.rpc.server import Broker
from tests.client.fake import SAFETY


@pytest.mark.parametrize(
    ("address", "proxied"),
    [
        ("127.0.0.1:7433", False),
        ("localhost:7433", False),
        ("[::1]:7433", False),
        ("127.8.8.8:7433", False),
        ("10.0.0.1:7433", True),
        ("broker.example.org:7433", True),
    ],
)
def test_a_proxy_of_the_environment_is_for_the_outside(address: str, proxied: bool):
    assert (("grpc.enable_http_proxy", 0) not in _options(address)) is proxied


def test_pings_are_rarer_than_a_broker_allows_and_none_is_sent_without_a_call():
    options = dict(_options("127.0.0.1:1"))
    assert options["grpc.keepalive_time_ms"] >= 10_000
    assert "grpc.keepalive_permit_without_calls" not in options


def test_a_closed_channel_that_something_still_refers_to_lets_go_of_its_connection():
    # The core keeps a channel as long as one of its calls; after this time without a call it disconnects.
    assert 1_000 <= dict(_options("127.0.0.1:1"))["grpc.client_idle_timeout_ms"] <= 60_000


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "failed to connect to all; last error: UNKNOWN: ip: Failed to connect to remote host: connect: no (111)",
            "connect: no (111)",
        ),
        ("failed to connect to all addresses; last error: UNAVAILABLE: x: no route", "UNAVAILABLE: x: no route"),
        ("DNS resolution failed for nowhere:1", "DNS resolution failed for nowhere:1"),
    ],
)
def test_of_a_failed_connection_only_the_cause_is_shown(text: str, cause: str):
    error = translated(_Failed(grpc.StatusCode.UNAVAILABLE, text), "127.0.0.1:1")
    assert (type(error), error.reason) == (Unavailable, "UNREACHABLE")
    assert error.message.endswith(f"({cause})")


class _Failed(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = lambda: code
        self.details = lambda: text


def test_an_error_that_says_nothing_is_an_error_all_the_same():
    error = translated(grpc.RpcError(), "127.0.0.1:1")
    assert (type(error), error.reason) == (BrokerError, "UNKNOWN")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if which("openssl") is None:
        pytest.skip("no openssl command on this machine to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -days 1 -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key.name} -out {cert.name}".split(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    return cert, key


async def test_tls_carries_providers_and_both_clients(certificate: tuple[Path, Path], serve):
    async def answer(_: Query) -> list[Frame]:
        return [Frame("a", "a", "a note", 0.5)]

    cert, key = certificate
    broker = Broker(Config(server={"listen": "127.0.0.1:0", "tls_cert": str(cert), "tls_key": str(key)}))
    await broker.start()
    attached = asyncio.Event()
    serve(Provider("notes", answer), broker.address, tls_ca=cert, on_attached=lambda _: attached.set())
    await asyncio.wait_for(attached.wait(), SAFETY)

    def ask() -> int:
        with BlockingContextClient(broker.address, tls_ca=str(cert)) as client:
            return len(client.compose("g", max_tokens=2000).placed)

    async with ContextClient(broker.address, tls_ca=cert) as client:
        assert len((await client.compose("g", max_tokens=2000)).placed) == 1
    assert await asyncio.to_thread(ask) == 1
    async with ContextClient(broker.address) as plain:
        with pytest.raises(Unavailable):
            await plain.providers()
    await broker.stop(grace=1)
