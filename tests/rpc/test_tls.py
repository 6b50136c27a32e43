"""Certificates are checked at the start and read again while it runs; a wrong one never takes a good one's place."""

from __future__ import annotations

import asyncio
import ssl
import time
from datetime import timedelta
from pathlib import Path
from socket import create_connection

import grpc.aio
import pytest
from structlog.testing import capture_logs

from broker.config import Config
from broker.errors import ConfigError
from broker.rpc.server import Broker
from broker.rpc.tls import _Certificates, server_credentials
from broker.settings import Server
from tests.authority import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def secret(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_no_certificate_means_no_tls() -> None:
    assert server_credentials(Server()) is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.tls_key: .*missing"):
        server_credentials(Server(tls_cert=tmp_path / "cert", tls_key=tmp_path / "missing"))


def test_files_that_hold_no_certificate_are_refused(tmp_path: Path) -> None:
    cert, key = secret(tmp_path / "cert", b"no certificate"), secret(tmp_path / "key", b"no key")
    with pytest.raises(ConfigError, match="cannot be used together"):
        server_credentials(Server(tls_cert=cert, tls_key=key))


def test_a_private_key_that_all_may_read_is_refused(authority: Authority) -> None:
    cert, key = authority.issue("open")
    key.chmod(0o644)
    with pytest.raises(ConfigError, match=r"server\.tls_key: .*readable by all"):
        server_credentials(Server(tls_cert=cert, tls_key=key))


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    (cert, _), (_, key) = authority.issue("one"), authority.issue("other")
    with pytest.raises(ConfigError, match="cannot be used together"):
        server_credentials(Server(tls_cert=cert, tls_key=key))


@pytest.mark.parametrize(
    ("begins", "ends", "told"), [(-2, -1, "expired at 2"), (1, 2, "is not valid before 2")], ids=["expired", "early"]
)
def test_a_certificate_of_another_time_is_refused(authority: Authority, begins: int, ends: int, told: str) -> None:
    cert, key = authority.issue("old", begins=timedelta(hours=begins), ends=timedelta(hours=ends))
    with pytest.raises(ConfigError, match=rf"server\.tls_cert: a certificate in .* {told}"):
        server_credentials(Server(tls_cert=cert, tls_key=key))


def test_a_client_authority_that_is_none_is_refused(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.issue("server")
    server = Server(tls_cert=cert, tls_key=key, tls_client_ca=secret(tmp_path / "ca", b"nothing"))
    with pytest.raises(ConfigError, match=r"server\.tls_client_ca: .* holds no certificate in PEM"):
        server_credentials(server)


def test_what_was_read_stays_while_the_files_do(authority: Authority) -> None:
    certificates = _Certificates(*authority.issue("server"), None, lambda: 0.0)
    assert certificates.fetch() is None


def test_files_that_cannot_be_used_are_told_of_once_and_change_nothing(authority: Authority) -> None:
    cert, key = authority.issue("server")
    certificates = _Certificates(cert, key, None, time.time)
    cert.write_bytes(authority.issue("other")[0].read_bytes())
    with capture_logs() as logs:
        assert [certificates.fetch(), certificates.fetch()] == [None, None]
    (entry,) = logs
    assert entry["log_level"] == "error"
    assert "cannot be used together" in entry["problem"]


def presented(address: str, ca: Path) -> bytes:
    """The certificate that a server shows, seen by another implementation of TLS than its own."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2"])
    with (
        create_connection((host, int(port))) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as tls,
    ):
        shown = tls.getpeercert(binary_form=True)
    assert shown is not None
    return shown


async def test_a_renewed_certificate_is_shown_without_a_restart(authority: Authority) -> None:
    cert, key = authority.issue("server")
    broker = Broker(Config(server={"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key}))
    address = await broker.start()
    try:
        first = await asyncio.to_thread(presented, address, authority.ca)
        assert await asyncio.to_thread(presented, address, authority.ca) == first
        authority.issue("server")
        second = await asyncio.to_thread(presented, address, authority.ca)
        assert second != first
        cert.write_bytes(b"half a certificate")
        assert await asyncio.to_thread(presented, address, authority.ca) == second
    finally:
        await broker.stop(grace=0.0)


async def test_no_connection_stands_without_a_certificate_of_the_clients_authority(
    authority: Authority, tmp_path: Path
) -> None:
    cert, key = authority.issue("server")
    clients = Authority(tmp_path, "clients")
    server = {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key, "tls_client_ca": clients.ca}
    broker = Broker(Config(server=server))
    address = await broker.start()
    health = "/grpc.health.v1.Health/Check"
    roots = authority.ca.read_bytes()
    try:
        for pair, taken in ((None, False), (authority.issue("stranger"), False), (clients.issue("client"), True)):
            own = () if pair is None else (pair[1].read_bytes(), pair[0].read_bytes())
            async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(roots, *own)) as channel:
                call = channel.unary_unary(health)(b"", timeout=20.0)
                assert (await call.code() is grpc.StatusCode.OK) is taken
    finally:
        await broker.stop(grace=0.0)
