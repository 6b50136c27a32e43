"""What no gRPC library puts into a credential is worth none, and who may call is asked of the method that runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.config import Config
from broker.rpc.server import Broker
from tests.raw.asking import BODY, answered, inline
from tests.raw.http2 import RawClient, message, request_headers
from tests.rpc.identities import Identities, Known, bearer, token_of
from tests.rpc.peers import ATTACH, COMPOSE

TOKEN = token_of("asks").encode()

WRONG = {
    "empty": (b"",),
    "no token": (b"Bearer ",),
    "the scheme alone": (b"bearer",),
    "NUL": (b"Bearer " + TOKEN + b"\0",),
    "CR": (b"Bearer " + TOKEN + b"\r",),
    "LF": (b"Bearer \n" + TOKEN,),
    "ESC": (b"\x1b[31mBearer " + TOKEN,),
    "not ASCII": (b"Bearer \xff\xfe" + TOKEN,),
    "15 kB": (b"Bearer " + b"x" * 15_000,),
    "twice": (b"Bearer " + TOKEN, b"Bearer " + TOKEN),
    "a right and a wrong one": (b"Bearer " + TOKEN, b"Bearer x"),
}


@pytest.fixture
def broker_config(tmp_path: Path) -> Config:
    return Identities(tmp_path).config()


@pytest.fixture
async def other(broker: Broker, connect: Callable[[], Awaitable[Known]]) -> Known:
    """Another client, with a credential."""
    other = Known((await connect()).channel, bearer("asks"))
    assert (await other.compose(**inline())).error is None
    return other


async def test_a_right_credential_is_taken(raw: RawClient) -> None:
    assert (await answered(raw.call(request_headers(COMPOSE, *bearer("asks")), BODY))).status == "OK"


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
async def test_h14_h54_a_credential_that_is_none_is_refused_and_never_logged(
    raw: RawClient, values: tuple[bytes, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = await answered(raw.call(request_headers(COMPOSE, *(("authorization", v) for v in values)), BODY))
    assert outcome.status == "UNAUTHENTICATED"
    assert not outcome.data
    printed = "".join(capfd.readouterr())
    assert TOKEN.decode() not in printed
    assert "\x1b[31m" not in printed


@pytest.mark.parametrize("path", [COMPOSE[1:], f"/{COMPOSE}", f"{COMPOSE}/", COMPOSE.lower()])
async def test_h1_a_path_that_is_no_methods_opens_nothing_with_or_without_a_credential(
    raw: RawClient, path: str
) -> None:
    for credential in ((), bearer("asks"), bearer("search")):
        outcome = await answered(raw.call(request_headers(path, *credential), BODY))
        assert outcome.status == "UNIMPLEMENTED"


@pytest.mark.parametrize(("first", "last", "status"), [(ATTACH, COMPOSE, "OK"), (COMPOSE, ATTACH, "PERMISSION_DENIED")])
async def test_h2_of_two_paths_the_one_that_runs_is_the_one_that_is_allowed_or_not(
    raw: RawClient, first: str, last: str, status: str
) -> None:
    headers = request_headers(first, *bearer("asks"))
    headers.insert(3, (b":path", last.encode()))
    assert (await answered(raw.call(headers, BODY))).status == status


async def test_a_call_without_a_credential_is_refused_before_its_message_is_read(raw: RawClient) -> None:
    outcome = await answered(raw.call(request_headers(COMPOSE), message(b"")[:3], end=False))
    assert outcome.status == "UNAUTHENTICATED"
