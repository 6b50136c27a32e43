"""An operator lets providers sit out, releases them and drains the broker; what is running finishes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc.aio
import pytest
from contextbroker.v1 import operator_service_pb2 as pb
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker.config import Config
from broker.core.frames import Frame
from broker.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from broker.rpc.server import Broker
from broker.wire.events import Ask, Draining, LaneEnded
from broker.wire.requests import InlineLane
from tests.rpc.identities import Identities, Known, bearer
from tests.rpc.peers import SAFETY, Answer, Peer, frames, lanes

LIE = "sha256:" + "0" * 64
INLINE = (InlineLane("memory", frames=(Frame(id="m", title="t", content="c", score=0.5),)),)


def operate(peer: Peer, method: str, request: Message) -> Awaitable[Answer]:
    return peer.call(f"/contextbroker.v1.OperatorService/{method}", request.SerializeToString())


async def quarantined(peer: Peer, provider: str = "a", seconds: int = 600) -> int:
    answer = await operate(
        peer, "QuarantineProvider", pb.QuarantineProviderRequest(provider_id=provider, seconds=seconds)
    )
    return pb.QuarantineProviderResponse.FromString(answer.messages[0]).quarantined_seconds


async def released(peer: Peer, provider: str = "a") -> int:
    answer = await operate(peer, "ReleaseProvider", pb.ReleaseProviderRequest(provider_id=provider))
    return pb.ReleaseProviderResponse.FromString(answer.messages[0]).remaining_seconds


async def drained(peer: Peer) -> int:
    answer = await operate(peer, "DrainBroker", pb.DrainBrokerRequest())
    return pb.DrainBrokerResponse.FromString(answer.messages[0]).in_flight


async def test_a_provider_that_an_operator_quarantined_is_not_asked_until_it_is_released(peer: Peer) -> None:
    provider, _ = await peer.attach("a"), await peer.attach("b")
    assert await quarantined(peer) == 600
    assert (await peer.providers())["a"].quarantined_seconds == 600
    assert (await peer.providers())["b"].quarantined_seconds == 0
    refused = (await peer.compose(providers=("a",))).error
    assert isinstance(refused, Unavailable)
    assert "QUARANTINED" in refused.message
    assert await released(peer) in (599, 600)
    assert (await peer.providers())["a"].quarantined_seconds == 0
    composing = asyncio.create_task(peer.compose(providers=("a",)))
    await provider.answer(frames(("x", 0.5)))
    assert lanes((await composing).composition()) == {"a": "COMPLETE"}


async def test_a_shorter_quarantine_does_not_cut_a_longer_one(peer: Peer) -> None:
    await peer.attach("a")
    await quarantined(peer, seconds=604_800)
    assert await quarantined(peer, seconds=1) > 600_000


async def test_a_released_liar_is_asked_at_once_and_by_all(peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose())
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, [Frame(id="x", title="t", content="c", score=0.5, content_digest=LIE)])
    assert isinstance((await composing).error, Unavailable)
    assert await released(peer) in (59, 60)
    # No trial: two requests are asked at once.
    both = [asyncio.create_task(peer.compose()) for _ in range(2)]
    asks: list[Ask] = []
    while len(asks) < 2:
        event = await provider.hear()
        asks += [event] if isinstance(event, Ask) else []
    for ask in asks:
        await provider.say(LaneEnded(ask.query_id))
    assert [lanes((await each).composition()) for each in both] == [{"a": "EMPTY"}] * 2


async def test_releasing_one_that_does_not_sit_out_is_nothing(peer: Peer) -> None:
    await peer.attach("a")
    assert await released(peer) == 0


@pytest.mark.parametrize("tenant", ["", "nobody"])
@pytest.mark.parametrize("method", ["QuarantineProvider", "ReleaseProvider"])
async def test_a_provider_or_tenant_that_no_one_knows_is_not_found(peer: Peer, method: str, tenant: str) -> None:
    request = getattr(pb, f"{method}Request")(provider_id="nope", tenant=tenant)
    if method == "QuarantineProvider":
        request.seconds = 60
    error = (await operate(peer, method, request)).error
    assert isinstance(error, NotFound)
    assert error.reason == ("TENANT_UNKNOWN" if tenant else "PROVIDER_UNKNOWN")


@pytest.mark.parametrize(
    ("request_", "field", "reason"),
    [
        (pb.QuarantineProviderRequest(provider_id="a"), "seconds", "SECONDS"),
        (pb.QuarantineProviderRequest(provider_id="a", seconds=604_801), "seconds", "SECONDS"),
        (pb.QuarantineProviderRequest(provider_id="*", seconds=1), "provider_id", "PROVIDER_NAME"),
        (pb.QuarantineProviderRequest(provider_id="a", seconds=1, tenant="t" * 64), "tenant", "TENANT"),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_its_field(
    peer: Peer, request_: Message, field: str, reason: str
) -> None:
    error = (await operate(peer, "QuarantineProvider", request_)).error
    assert isinstance(error, InvalidArgument)
    assert [(each.field, each.reason) for each in error.violations] == [(field, reason)]


async def test_what_the_contract_does_not_know_is_refused(peer: Peer) -> None:
    data = pb.ReleaseProviderRequest(provider_id="a").SerializeToString() + b"\x98\x06\x01"
    error = (await peer.call("/contextbroker.v1.OperatorService/ReleaseProvider", data)).error
    assert isinstance(error, InvalidArgument)
    assert error.reason == "UNKNOWN_FIELD"


async def test_a_drained_broker_finishes_what_runs_and_takes_no_more(
    broker: Broker, peer: Peer, connect: Callable[[], Awaitable[Peer]]
) -> None:
    provider, other = await peer.attach("a"), await connect()
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    ask = await provider.hear_ask()
    assert await drained(other) == 1
    drain = await provider.hear()
    assert isinstance(drain, Draining)
    assert drain.remaining_ms == 300_000
    refused = (await other.compose()).error
    assert isinstance(refused, Unavailable)
    assert refused.reason == "DRAINING"
    health = await health_pb2_grpc.HealthStub(other.channel).Check(health_pb2.HealthCheckRequest())
    assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert await drained(other) == 1
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    await provider.say(LaneEnded(ask.query_id))
    assert lanes((await composing).composition()) == {"a": "COMPLETE"}
    ended = await provider.ended()
    assert isinstance(ended, Unavailable)
    assert ended.reason == "STOPPING"
    assert await drained(other) == 0
    await asyncio.wait_for(broker.stop(grace=1000), SAFETY)


async def test_a_stop_does_not_wait_for_what_a_drain_would(broker: Broker, peer: Peer) -> None:
    provider = await peer.attach("a")
    composing = asyncio.create_task(peer.compose(collect_timeout=300.0))
    await provider.hear_ask()
    await drained(peer)
    assert isinstance(await provider.hear(), Draining)
    await asyncio.wait_for(broker.stop(grace=0.1), SAFETY)
    assert isinstance((await composing).error, Unavailable)
    assert isinstance(await provider.ended(), Unavailable)


class TestTenants:
    @pytest.fixture
    def broker_config(self, tmp_path: Path) -> Config:
        return Identities(tmp_path).config()

    @pytest.fixture
    async def known(self, broker: Broker) -> AsyncIterator[Callable[[str], Known]]:
        async with grpc.aio.insecure_channel(broker.address) as channel:
            yield lambda subject: Known(channel, bearer(subject))

    async def test_an_operator_acts_on_the_tenant_that_it_names_and_on_no_other(
        self, known: Callable[[str], Known]
    ) -> None:
        await known("red-search").attach("search")
        await known("search").attach("search")
        request = pb.QuarantineProviderRequest(provider_id="search", seconds=60, tenant="red")
        assert (await operate(known("runs"), "QuarantineProvider", request)).error is None
        assert (await known("red-asks").providers())["search"].quarantined_seconds == 60
        assert (await known("asks").providers())["search"].quarantined_seconds == 0
        released = pb.ReleaseProviderRequest(provider_id="search", tenant="red")
        assert (await operate(known("runs"), "ReleaseProvider", released)).error is None
        assert (await known("red-asks").providers())["search"].quarantined_seconds == 0

    @pytest.mark.parametrize("subject", ["search", "asks"])
    async def test_who_is_no_operator_drains_nothing(self, known: Callable[[str], Known], subject: str) -> None:
        error = (await operate(known(subject), "DrainBroker", pb.DrainBrokerRequest())).error
        assert isinstance(error, PermissionDenied)
        assert (await known("asks").compose(inline_lanes=INLINE, no_providers=True)).error is None
