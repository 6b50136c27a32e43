"""A client shows its credential to its broker and to no one else, and says what is wrong with it before it connects."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from broker.client import BlockingContextClient, ContextClient, Frame, Provider, Query
from broker.client.access import Access
from broker.errors import InvalidArgument, Unauthenticated, Unavailable
from broker.rpc import callers
from broker.rpc.server import Broker
from tests.authority import Authority
from tests.client.fake import SAFETY
from tests.rpc.identities import PRINCIPALS, Identities, token_of

HERE, THERE = "127.0.0.1:7433", "broker.example.org:7433"


def wrong(access: Access, address: str = HERE) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as error:
        access.check(address)
    (violation,) = error.value.violations
    return violation.field, violation.reason


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    empty, two = tmp_path / "empty", tmp_path / "two"
    empty.write_text("\n")
    two.write_text("one\ntwo\n")
    assert wrong(Access(tls_cert="c")) == ("tls_cert", "TLS_CERT")
    assert wrong(Access(tls_key="k")) == ("tls_key", "TLS_CERT")
    assert wrong(Access(tls_cert="c", tls_key="k")) == ("tls_cert", "TLS_CERT")
    assert wrong(Access(token="t", token_file="f")) == ("token", "TOKEN")
    for token in ("", "two words", "line\nbreak", "nul\0", "é", "Bearer x"):
        assert wrong(Access(token=token)) == ("token", "TOKEN")
    for file in (tmp_path / "none", tmp_path, empty, two):
        assert wrong(Access(token_file=file)) == ("token_file", "TOKEN_FILE")


@pytest.mark.parametrize("given", ["token", "token_file"])
def test_a_token_does_not_cross_a_network_in_plain_text(tmp_path: Path, given: str) -> None:
    file = tmp_path / "token"
    file.write_text(token_of("asks"))
    access = Access(**{given: token_of("asks") if given == "token" else file})
    assert wrong(access, THERE) == (given, "TOKEN")
    for address in (HERE, "[::1]:7433", "localhost:7433", "unix:/run/broker.sock"):
        access.check(address)
    with pytest.raises(InvalidArgument, match="plain text"):
        ContextClient(THERE, token=token_of("asks"))


def test_a_token_is_not_shown() -> None:
    assert token_of("asks") not in repr(Access(token=token_of("asks")))


def test_a_tokens_file_is_read_for_each_call_and_one_that_is_gone_may_come_back(tmp_path: Path) -> None:
    file = tmp_path / "token"
    access = Access(token_file=file)
    for token in ("one", "two"):
        file.write_text(f" {token}\n")
        assert access.metadata() == (("authorization", f"Bearer {token}"),)
    file.unlink()
    with pytest.raises(Unavailable, match="cannot be read as a token"):
        access.metadata()
    assert Access().metadata() == ()


async def answer(_: Query) -> list[Frame]:
    return [Frame(id="a", title="a", content="x", score=0.5)]


async def test_tokens_carry_providers_and_both_clients(tmp_path: Path, serve) -> None:
    broker = Broker(Identities(tmp_path).config())
    address = await broker.start()
    attached = asyncio.Event()
    try:
        serve(Provider("search", answer), address, token=token_of("search"), on_attached=lambda _: attached.set())
        async with asyncio.timeout(SAFETY):
            await attached.wait()
        async with ContextClient(address, token=token_of("search")) as client:
            assert await client.push("files", "r", [Frame(id="b", title="b", content="y", score=0.5)]) == 1
        async with ContextClient(address, token=token_of("asks")) as client:
            found = await client.compose("?", max_tokens=1000, request_id="r", expect_pushes=["files"])
            assert sorted(placed.frame.id for placed in found.placed) == ["a", "b"]
            assert [listed.provider for listed in await client.providers()] == ["search"]

        def blocking() -> list[str]:
            with BlockingContextClient(address, token=token_of("asks")) as client:
                client.strategies()
                return [placed.frame.id for placed in client.compose("?", max_tokens=1000).placed]

        assert await asyncio.to_thread(blocking) == ["a"]
        async with ContextClient(address) as client:
            with pytest.raises(Unauthenticated, match="no valid credential was shown"):
                await client.providers()
    finally:
        await broker.stop(grace=0.0)


async def test_certificates_carry_a_provider_and_a_client(tmp_path: Path, serve) -> None:
    authority = Authority(tmp_path)
    identities = Identities(tmp_path, by=["mtls"])
    cert, key = authority.issue("server")
    server = {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key, "tls_client_ca": authority.ca}
    auth = {"policy": "mtls", "principals_file": identities.principals_file}
    broker = Broker(identities.config(server=server, auth=auth))
    address = await broker.start()
    tls = {name: authority.issue(name, uris=[name]) for name in ("search", "asks")}
    attached = asyncio.Event()
    try:
        own, its_key = tls["search"]
        serve(
            Provider("search", answer),
            address,
            tls_ca=authority.ca,
            tls_cert=own,
            tls_key=its_key,
            on_attached=lambda _: attached.set(),
        )
        async with asyncio.timeout(SAFETY):
            await attached.wait()
        own, its_key = tls["asks"]
        async with ContextClient(address, tls_ca=authority.ca, tls_cert=own, tls_key=its_key) as client:
            assert len((await client.compose("?", max_tokens=1000)).placed) == 1
        async with ContextClient(address, tls_ca=authority.ca) as client:
            with pytest.raises(Unavailable):
                await client.providers(timeout=SAFETY)
    finally:
        await broker.stop(grace=0.0)


async def test_a_provider_shows_the_certificate_that_there_is_when_it_attaches(tmp_path: Path, serve) -> None:
    """One that was renewed while the broker was away must not keep its provider out for ever."""
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    identities = Identities(tmp_path, by=["mtls"])
    cert, key = authority.issue("server")
    server = {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key, "tls_client_ca": authority.ca}
    auth = {"policy": "mtls", "principals_file": identities.principals_file}
    broker = Broker(identities.config(server=server, auth=auth))
    address = await broker.start()
    own, its_key = tmp_path / "own.pem", tmp_path / "own.key"
    refused, attached = asyncio.Event(), asyncio.Event()

    class Refusals(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            refused.set()

    handler = Refusals(logging.WARNING)
    logging.getLogger("broker.client").addHandler(handler)
    try:
        for file, old in zip((own, its_key), other.issue("search", uris=["search"]), strict=True):
            old.replace(file)
        tls = {"tls_ca": authority.ca, "tls_cert": own, "tls_key": its_key}
        serve(Provider("search", answer), address, **tls, on_attached=lambda _: attached.set())
        async with asyncio.timeout(SAFETY):
            await refused.wait()
            for file, new in zip((own, its_key), authority.issue("search", uris=["search"]), strict=True):
                new.replace(file)
            await attached.wait()
    finally:
        logging.getLogger("broker.client").removeHandler(handler)
        await broker.stop(grace=0.0)


async def test_a_provider_whose_token_is_renewed_in_place_stays_and_one_that_was_never_known_does_not(
    tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "POLL_SECONDS", 0.02)
    identities = Identities(tmp_path)
    identities.principals(PRINCIPALS | {"self": PRINCIPALS["search"]})
    broker = Broker(identities.config())
    address = await broker.start()
    file = tmp_path / "own-token"
    file.write_text(token_of("search"))
    attached: asyncio.Queue[str] = asyncio.Queue()
    try:
        serve(Provider("search", answer), address, token_file=file, on_attached=attached.put_nowait)
        async with asyncio.timeout(SAFETY):
            await attached.get()
            # The old token is revoked before the new one has come, so that attaching anew is refused for a while.
            identities.tokens("self", "asks")
            async with ContextClient(address, token=token_of("asks")) as client:
                while (await client.providers())[0].instances:
                    pass
            file.write_text(token_of("self"))
            await attached.get()
        with pytest.raises(Unauthenticated):
            await Provider("search", answer).serve(address, token=token_of("nobody"))
        file.write_text(token_of("nobody"))
        with pytest.raises(Unauthenticated):
            await Provider("search", answer).serve(address, token_file=file)
    finally:
        await broker.stop(grace=0.0)
