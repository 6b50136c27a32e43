"""Whoever listens and whoever connects read addresses by the same rules, and say what is wrong in one."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from broker.addresses import address_problem, host_of, is_loopback
from broker.client import BlockingContextClient, ContextClient, InvalidArgument, Provider, Reranker
from broker.settings import ConfiguredReranker, Server

GOOD = ["127.0.0.1:7433", "localhost:1", "[::1]:65535", "[fe80::1%eth0]:80", "broker-1.example.org:443", "my_host:7433"]
WRONG = [
    "", ":", "localhost", "7433", ":7433", "127.0.0.1:", "127.0.0.1:abc", "127.0.0.1:65536", "127.0.0.1:-1",
    "127.0.0.1:+1", "127.0.0.1:1_0", "127.0.0.1:٣", "127.0.0.1:" + "0" * 5000, "::1:7433", "[::1]", "[::1:7433",
    "::1]:7433", "[nohost]:1", "[]:1", "http://127.0.0.1:1", "dns:///localhost:1", "user@host:1", "host/path:1",
    "127.0.0.1: 1", "a b:1", "127.0.0.1:1\n", "a\x00b:1", "\ud800:1",
]  # fmt: skip


async def answer(_: object) -> list:
    return []


async def connects(address: object) -> str | None:
    """What each way to connect says of an address; they must all say the same."""
    said = set()
    for use in (ContextClient, BlockingContextClient):
        try:
            client = use(address)
        except InvalidArgument as error:
            said.add((error.reason, error.violations[0].field, error.message))
        else:
            closing = client.close()
            if closing is not None:
                await closing
            said.add(None)
    if None not in said:
        with pytest.raises(InvalidArgument) as caught:
            await Provider("notes", answer).serve(address)
        said.add((caught.value.reason, caught.value.violations[0].field, caught.value.message))
    [one] = said
    if one is None:
        return None
    assert one[:2] == ("ADDRESS", "address")
    return one[2]


def listens(address: str) -> str | None:
    try:
        Server(listen=address, insecure=True)
    except ValidationError as error:
        return str(error)
    return None


@pytest.mark.parametrize("address", GOOD)
async def test_a_good_address_is_good_for_all(address: str):
    assert await connects(address) is None
    assert listens(address) is None
    assert ConfiguredReranker(kind="remote", address=address).address == address


@pytest.mark.parametrize("address", WRONG)
async def test_a_wrong_address_is_refused_by_all_with_the_form_that_is_expected(address: str):
    assert "expected host:port" in (await connects(address) or "")
    assert "expected host:port" in (listens(address) or "")
    with pytest.raises(InvalidArgument) as error:
        await Reranker("r", answer).serve(address)
    assert error.value.reason == "ADDRESS"
    with pytest.raises(ValidationError):
        ConfiguredReranker(kind="remote", address=address)


@pytest.mark.parametrize("address", [None, 7433, b"127.0.0.1:1", ("127.0.0.1", 1)])
async def test_what_is_not_text_is_refused(address: object):
    assert type(address).__name__ in (await connects(address) or "")


async def test_port_0_is_for_those_who_listen():
    assert listens("127.0.0.1:0") is None
    assert "'0' is not a number from 1 to 65535" in (await connects("127.0.0.1:0") or "")


async def test_a_socket_of_the_file_system_is_for_those_who_connect():
    assert await connects("unix:/run/broker.sock") is None
    assert ConfiguredReranker(kind="remote", address="unix:/run/r.sock").address == "unix:/run/r.sock"
    assert "expected host:port" in (listens("unix:/run/broker.sock") or "")
    assert "path after 'unix:' is missing" in (await connects("unix:") or "")


@given(st.text(max_size=30))
def test_whatever_the_text_no_rule_breaks_and_a_good_one_has_a_host_and_a_port(text: str):
    if address_problem(text, any_port=True) is None:
        host, _, port = text.rpartition(":")
        assert host_of(text) == host.strip("[]") != ""
        assert 0 <= int(port) <= 65_535


@given(st.ip_addresses(), st.integers(1, 65_535))
def test_every_ip_address_can_be_written(ip, port: int):
    host = f"[{ip}]" if ip.version == 6 else str(ip)
    assert address_problem(f"{host}:{port}") is None
    assert is_loopback(f"{host}:{port}") is ip.is_loopback
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    assert socket.inet_pton(family, host_of(f"{host}:{port}")) == ip.packed


def test_which_addresses_only_this_machine_can_reach():
    assert all(map(is_loopback, ("localhost:1", "127.9.9.9:1", "[::1]:1", "unix:/x")))
    assert not any(map(is_loopback, ("localhost.example:1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1")))
