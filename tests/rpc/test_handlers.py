"""Every method answers every kind of wrong call, with a reason and details, and nothing of its own insides."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from contextbroker.v1 import context_service_pb2 as pb
from structlog.testing import capture_logs

from broker.config import Config
from broker.errors import Internal, InvalidArgument, ResourceExhausted, Unavailable
from broker.rpc.server import Broker
from tests.rpc.peers import ATTACH, COMPOSE, PUSH, Peer, compose_bytes, frames

CONTEXT = "/contextbroker.v1.ContextService/"
HEALTH = "/grpc.health.v1.Health/"
SINGLE = [
    COMPOSE,
    *(
        CONTEXT + name
        for name in (
            "ListProviders",
            "ListStrategies",
            "GetComposition",
            "ListCompositions",
            "ReportAttribution",
        )
    ),
    HEALTH + "Check",
    HEALTH + "List",
    HEALTH + "Watch",
]
"""Methods that take one message."""


@pytest.fixture
def broker_config() -> Config:
    """A broker that waits for silent callers no longer than it must."""
    return Config(server={"listen": "127.0.0.1:0", "first_message_seconds": 0.2})


@pytest.mark.parametrize("method", [*SINGLE, ATTACH, PUSH])
async def test_a_call_without_a_message_is_refused(peer: Peer, method: str) -> None:
    answer = await peer.call(method)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "NO_MESSAGE"
    assert answer.messages == []


@pytest.mark.parametrize("method", [*SINGLE, ATTACH, PUSH])
async def test_a_silent_call_is_refused_after_its_time(peer: Peer, method: str) -> None:
    answer = await peer.call(method, end=False)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "NO_MESSAGE"


@pytest.mark.parametrize("method", SINGLE)
async def test_a_second_message_is_refused(peer: Peer, method: str) -> None:
    answer = await peer.call(method, b"", b"")
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "EXTRA_MESSAGE"


@pytest.mark.parametrize("turns", range(6))
async def test_an_error_reaches_its_caller_though_the_head_of_the_answer_is_on_its_way(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    async def fails(*_: object) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise Unavailable("GONE", "it is gone")

    monkeypatch.setattr("broker.rpc.composing.gather", fails)
    await peer.attach("a")
    answer = await peer.compose()
    assert isinstance(answer.error, Unavailable)
    assert answer.error.reason == "GONE"


async def test_a_request_that_is_never_ended_is_refused(peer: Peer) -> None:
    answer = await peer.call(COMPOSE, compose_bytes(), end=False)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "NOT_ENDED"


@pytest.mark.parametrize("method", [*SINGLE, ATTACH, PUSH])
async def test_bytes_that_do_not_parse_are_invalid_and_never_unknown(peer: Peer, method: str) -> None:
    answer = await peer.call(method, b"\x0a\xff\xff\xff\xff\x0f")
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "MALFORMED"


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xed\xa0\x80"], ids=["bad UTF-8", "lone surrogate"])
async def test_a_text_that_is_no_text_is_invalid(peer: Peer, text: bytes) -> None:
    goal = b"\x12" + bytes([len(text)]) + text
    answer = await peer.call(COMPOSE, goal)
    assert isinstance(answer.error, InvalidArgument)
    assert answer.error.reason == "MALFORMED"


@pytest.mark.parametrize("method", [*SINGLE, ATTACH, PUSH])
async def test_a_message_just_above_the_limit_is_refused_with_details(broker: Broker, peer: Peer, method: str) -> None:
    answer = await peer.call(method, bytes(broker.config.limits.max_message_bytes + 1))
    assert isinstance(answer.error, ResourceExhausted)
    assert answer.error.reason == "TOO_LARGE"
    assert answer.error.quota == "limits.max_message_bytes"


async def test_a_message_far_above_the_limit_is_refused_by_the_core(peer: Peer) -> None:
    """Pinned as grpcio gives it: the status is right, and there are no details."""
    answer = await peer.call(COMPOSE, bytes(5_000_000))
    assert isinstance(answer.error, ResourceExhausted)
    assert answer.details is None


@pytest.mark.parametrize(
    "path",
    [
        "/contextbroker.v1.ContextService/compose",
        "/contextbroker.v1.ContextService//Compose",
        "//contextbroker.v1.ContextService/Compose",
        "/contextbroker.v1.ContextService/Compose/",
        "/contextbroker.v1.ContextService/Compose?x",
        "/contextbroker.v1.ContextService/Comp%6Fse",
        "/contextbroker.v1.Contextservice/Compose",
    ],
)
async def test_a_path_that_is_not_a_method_is_unimplemented(peer: Peer, path: str) -> None:
    """Pinned as grpcio gives it."""
    answer = await peer.call(path, compose_bytes())
    assert answer.error is not None
    assert answer.error.code == "UNIMPLEMENTED"


async def test_a_fault_is_answered_with_a_correlation_id_and_nothing_else(
    broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("the secret of another caller")

    monkeypatch.setattr("broker.rpc.composing.admission.admit", fault)
    with capture_logs() as logs:
        answer = await peer.compose()
    assert isinstance(answer.error, Internal)
    assert answer.error.reason == "INTERNAL"
    assert answer.details is not None
    assert b"secret" not in answer.details.SerializeToString()
    assert "Traceback" not in answer.error.message
    (logged,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert logged["correlation_id"] in answer.error.message
    assert "RuntimeError" in logged["traceback"]


async def test_other_calls_work_after_every_kind_of_wrong_one(peer: Peer) -> None:
    provider = await peer.attach("files")
    wrong = [
        peer.call(COMPOSE),
        peer.call(COMPOSE, b"\xff"),
        peer.call(COMPOSE, b"", b""),
        peer.call(COMPOSE, bytes(5_000_000)),
        peer.call(COMPOSE, end=False),
    ]
    answers = await asyncio.gather(*wrong)
    assert all(answer.error is not None for answer in answers)
    asked = asyncio.create_task(peer.compose())
    await provider.answer(frames(("a", 0.5)))
    assert (await asked).composition().placed[0].frame.id == "a"
    provider.call.cancel()


async def test_a_method_may_be_called_as_it_is_declared(peer: Peer) -> None:
    """The handlers are all of one kind inside; nothing of that shows."""
    unary = peer.channel.unary_unary(
        CONTEXT + "ListStrategies",
        request_serializer=pb.ListStrategiesRequest.SerializeToString,
        response_deserializer=pb.ListStrategiesResponse.FromString,
    )
    call = unary(pb.ListStrategiesRequest())
    assert {strategy.name for strategy in (await call).strategies} >= {"round_robin"}
    assert await call.code() is grpc.StatusCode.OK
