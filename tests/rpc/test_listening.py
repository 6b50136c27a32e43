"""An address is bound or refused in plain words, and the channel arguments hold what they promise."""

from __future__ import annotations

import errno
import socket

import grpc.aio
import pytest

from broker.config import Config
from broker.rpc.listening import open_port, options


def test_no_second_server_may_share_the_port() -> None:
    assert dict(options(Config()))["grpc.so_reuseport"] == 0


def test_an_eager_pinger_is_not_cut() -> None:
    found = dict(options(Config()))
    assert found["grpc.http2.min_ping_interval_without_data_ms"] < 10_000


def test_a_peer_that_answers_no_ping_is_gone_after_three_heartbeats() -> None:
    """P3, P5."""
    found = dict(options(Config()))
    longest = max(found["grpc.keepalive_timeout_ms"], found["grpc.http2.ping_timeout_ms"])
    assert found["grpc.keepalive_time_ms"] + longest == 6_000


def test_an_old_connection_outlives_every_session_that_was_attached_on_it() -> None:
    found = dict(options(Config(server={"session_age_seconds": 100.0})))
    assert found["grpc.max_connection_age_ms"] == 100_000
    # It is told to attach anew within its age, asked for the grace, and answers for as long as a request may collect.
    assert found["grpc.max_connection_age_grace_ms"] > 1.1 * 100_000 + 10_000 + 300_000


def test_the_largest_message_follows_the_configuration() -> None:
    config = Config(limits={"max_message_bytes": 2 * 2**20})
    assert 2 * 2**20 < dict(options(config))["grpc.max_receive_message_length"] < 2.1 * 2**20


async def test_port_0_takes_a_free_one_and_keeps_the_host() -> None:
    server = grpc.aio.server()
    host, _, port = open_port(server, "localhost:0", None).rpartition(":")
    assert host == "localhost"
    assert 0 < int(port) <= 65_535


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="address in use") as caught:
            open_port(grpc.aio.server(), listen, None)
    assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, listen)


async def test_an_address_of_another_machine_cannot_be_bound() -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.1"):
        open_port(grpc.aio.server(), "192.0.2.1:7433", None)


async def test_a_host_that_does_not_exist_is_said_not_to() -> None:
    with pytest.raises(OSError, match="no such host"):
        open_port(grpc.aio.server(), "no-such-host.invalid:7433", None)
