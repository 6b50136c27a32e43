"""What another tenant has is, in every answer, what does not exist; what it does changes nothing here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import pytest
from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import operator_service_pb2 as operator
from google.protobuf.message import Message

from broker.config import Config
from broker.core.request import Floor
from broker.core.scores import ScoreScale
from broker.core.strategies import TrustWeighted
from broker.errors import InvalidArgument, NotFound
from broker.rpc.server import Broker
from broker.wire.requests import InlineLane
from tests.rpc.identities import PRINCIPALS, Identities, Known, bearer
from tests.rpc.peers import Answer, frames, lanes, rows

THEIRS, ABSENT = "secret", "sesame"
"""A provider of the red tenant, and one of no one; both names are as long, and both sort behind the others."""


@pytest.fixture
def broker_config(tmp_path: Path) -> Config:
    identities = Identities(tmp_path)
    more = PRINCIPALS["search"].replace('"files"', f'"files", "{THEIRS}", "{ABSENT}"')
    identities.principals(PRINCIPALS | {"search": more})
    return identities.config()


@pytest.fixture
async def known(broker: Broker) -> AsyncIterator[Callable[[str], Known]]:
    channels: list[grpc.aio.Channel] = []

    def make(subject: str) -> Known:
        channel = grpc.aio.insecure_channel(broker.address, options=[("grpc.use_local_subchannel_pool", 1)])
        channels.append(channel)
        return Known(channel, bearer(subject))

    yield make
    for channel in channels:
        await channel.close()


def learnt(answer: Answer, name: str) -> str:
    """All that a caller learns, with the name that it asked about, and what is new each time, taken out."""
    if answer.error is not None:
        details = answer.details.SerializeToString() if answer.details is not None else b""
        told = f"{answer.error.code} {answer.error.reason} {answer.error.message} {details!r} {len(answer.messages)}"
    else:
        composition = answer.composition()
        told = f"{lanes(composition)} {rows(composition)} {composition.prompt}"
    return told.replace(name, "*")


def reporting(composition_id: str) -> bytes:
    observed = pb.FrameAttribution(frame={"provider_id": "own", "frame_id": "a"}, selected=True)
    return pb.ReportAttributionRequest(composition_id=composition_id, frames=[observed]).SerializeToString()


ASKED: dict[str, Callable[[str], dict[str, object]]] = {
    "asked": lambda name: {"providers": [name]},
    "required": lambda name: {"required_providers": [name]},
    "floor": lambda name: {"floors": (Floor(name, "unit", 0.5),)},
    "weight": lambda name: {"strategy": TrustWeighted({name: 2.0})},
    "expected": lambda name: {"expect_pushes": [name]},
    "inline": lambda name: {"inline_lanes": (InlineLane(name, ScoreScale(), ()),)},
    "inline twice": lambda name: {"inline_lanes": (InlineLane(name, ScoreScale(), ()),) * 2},
}


@pytest.mark.parametrize("asked", ASKED)
async def test_a_provider_of_another_tenant_is_one_that_does_not_exist(
    known: Callable[[str], Known], asked: str
) -> None:
    red = await known("red-search").attach(THEIRS, scale=ScoreScale("theirs", 0, 9))
    await known("search").attach("search")
    asks = known("asks")
    answers = [
        learnt(await asks.compose(**{"collect_timeout": 0.02, **ASKED[asked](name)}), name) for name in (THEIRS, ABSENT)
    ]
    assert answers[0] == answers[1]
    assert THEIRS not in answers[0]
    assert not red.call.done()


async def test_a_composition_of_no_one_and_of_another_are_told_alike(known: Callable[[str], Known]) -> None:
    own = known("red-asks")
    red = await own.compose(inline_lanes=(InlineLane("own", ScoreScale(), tuple(frames(("a", 0.5)))),))
    asks, path = known("asks"), "/contextbroker.v1.ContextService/GetComposition"
    theirs = red.composition().composition_id
    told = [
        learnt(await asks.call(path, pb.GetCompositionRequest(composition_id=name).SerializeToString()), name)
        for name in (theirs, "0" * len(theirs))
    ]
    assert told[0] == told[1]
    assert told[0].startswith("NOT_FOUND")
    report = "/contextbroker.v1.ContextService/ReportAttribution"
    reports = [learnt(await asks.call(report, reporting(name)), name) for name in (theirs, "0" * len(theirs))]
    assert reports[0] == reports[1]
    assert reports[0].startswith("NOT_FOUND")
    assert (await own.call(path, pb.GetCompositionRequest(composition_id=theirs).SerializeToString())).error is None


async def test_listing_shows_what_the_tenant_has_and_nothing_else(known: Callable[[str], Known]) -> None:
    asks, red = known("asks"), known("red-asks")
    paths = [
        f"/contextbroker.v1.ContextService/{name}"
        for name in ("ListProviders", "ListCompositions", "GetProviderStatistics")
    ]
    before = [await asks.call(path, b"") for path in paths]
    theirs = await known("red-search").attach(THEIRS)
    composing = await red.composing(providers=[THEIRS])
    await theirs.answer(frames(("r", 0.5)))
    assert (await composing.rest()).error is None
    after = [await asks.call(path, b"") for path in paths]
    assert [answer.error for answer in after] == [None] * 3
    assert [answer.messages for answer in after] == [answer.messages for answer in before]
    seen = [await red.call(path, b"") for path in paths]
    assert all(ours.messages != others.messages for ours, others in zip(seen, after, strict=True))


async def test_pushing_for_another_tenants_request_is_pushing_for_none(known: Callable[[str], Known]) -> None:
    red = await known("red-asks").composing(request_id="theirs", expect_pushes=["search"], collect_timeout=5.0)
    await red.call.read()
    ours = known("search")
    answers = [await ours.push("search", name, frames(("b", 0.5))) for name in ("theirs", "absent")]
    assert [answer.messages for answer in answers] == [answers[0].messages] * 2
    again = [await ours.push("search", name, frames(("b", 0.5))) for name in ("theirs", "absent")]
    assert learnt(again[0], "theirs") == learnt(again[1], "absent")
    await known("red-search").push("search", "theirs", frames(("r", 0.5)))
    assert rows((await red.rest()).composition()) == {("search", "r"): ""}


async def test_the_same_names_are_free_in_every_tenant(known: Callable[[str], Known]) -> None:
    theirs = await known("red-search").attach("search", "one", ScoreScale("theirs", 0, 9))
    ours = await known("search").attach("search", "one")
    red, blue = await known("red-asks").composing(request_id="same"), await known("asks").composing(request_id="same")
    await theirs.answer(frames(("r", 8.0)))
    await ours.answer(frames(("b", 0.5)))
    assert rows((await red.rest()).composition()) == {("search", "r"): ""}
    assert rows((await blue.rest()).composition()) == {("search", "b"): ""}


async def test_a_lie_is_held_against_the_providers_own_tenant_alone(known: Callable[[str], Known]) -> None:
    theirs, ours = await known("red-search").attach("search"), await known("search").attach("search")
    lying = await known("red-asks").composing()
    await theirs.answer(frames(("r", 0.5)) + frames(("r", 0.5), content="another"))
    await lying.rest()
    red, blue = await known("red-asks").providers(), await known("asks").providers()
    assert red["search"].quarantined_seconds > 0
    assert blue["search"].quarantined_seconds == 0
    composing = await known("asks").composing()
    await ours.answer(frames(("b", 0.5)))
    assert lanes((await composing.rest()).composition()) == {"search": "COMPLETE"}


async def test_one_tenants_flapping_replaces_no_session_of_another(known: Callable[[str], Known]) -> None:
    ours = await known("search").attach("search", "one")
    red = known("red-search")
    for _ in range(4):
        await red.attach("search", "one")
    assert not ours.call.done()
    assert len((await known("asks").providers())["search"].instances) == 1


CONTEXT, OPERATOR = "/contextbroker.v1.ContextService/", "/contextbroker.v1.OperatorService/"


async def naming(known: Callable[[str], Known]) -> dict[str, tuple[str, Callable[[str], Message]]]:
    """Every call that may name a tenant, about things of the red one."""
    made = await known("red-asks").compose(
        inline_lanes=(InlineLane("own", ScoreScale(), tuple(frames(("a", 0.5)))),), no_providers=True
    )
    name = made.composition().composition_id
    return {
        "ListProviders": (CONTEXT, lambda tenant: pb.ListProvidersRequest(tenant=tenant)),
        "GetComposition": (CONTEXT, lambda tenant: pb.GetCompositionRequest(composition_id=name, tenant=tenant)),
        "ListCompositions": (CONTEXT, lambda tenant: pb.ListCompositionsRequest(tenant=tenant)),
        "GetProviderStatistics": (CONTEXT, lambda tenant: pb.GetProviderStatisticsRequest(tenant=tenant)),
        "QuarantineProvider": (
            OPERATOR,
            lambda tenant: operator.QuarantineProviderRequest(provider_id=THEIRS, seconds=1, tenant=tenant),
        ),
        "ReleaseProvider": (
            OPERATOR,
            lambda tenant: operator.ReleaseProviderRequest(provider_id=THEIRS, tenant=tenant),
        ),
    }


def test_every_request_that_has_a_tenant_is_tried() -> None:
    services = (
        pb.DESCRIPTOR.services_by_name["ContextService"],
        operator.DESCRIPTOR.services_by_name["OperatorService"],
    )
    methods = [method for service in services for method in service.methods]
    assert {method.name for method in methods if "tenant" in method.input_type.fields_by_name} == {
        "ListProviders", "GetComposition", "ListCompositions", "GetProviderStatistics",
        "QuarantineProvider", "ReleaseProvider",
    }  # fmt: skip


@pytest.mark.parametrize("subject", ["search", "asks"])
async def test_who_is_no_operator_is_told_the_same_of_a_tenant_that_there_is_and_of_none(
    known: Callable[[str], Known], subject: str
) -> None:
    await known("red-search").attach(THEIRS)
    for method, (service, request) in (await naming(known)).items():
        told = [
            learnt(await known(subject).call(service + method, request(tenant).SerializeToString()), "\0")
            for tenant in ("red", "tan")
        ]
        assert told[0] == told[1], method
        assert told[0].startswith("PERMISSION_DENIED"), method


async def test_whoever_names_its_own_tenant_names_none(known: Callable[[str], Known]) -> None:
    asks = known("red-asks")
    for method, (service, request) in (await naming(known)).items():
        if service == CONTEXT:
            answers = [await asks.call(service + method, request(tenant).SerializeToString()) for tenant in ("", "red")]
            assert answers[0].error is None, method
            assert answers[0].messages == answers[1].messages


async def test_an_operator_sees_the_tenant_that_it_names_as_that_tenant_sees_itself(
    known: Callable[[str], Known],
) -> None:
    await known("red-search").attach(THEIRS)
    runs, red = known("runs"), known("red-asks")
    for method, (service, request) in (await naming(known)).items():
        answer = await runs.call(service + method, request("red").SerializeToString())
        assert answer.error is None, method
        if service == CONTEXT:
            assert answer.messages == (await red.call(service + method, request("").SerializeToString())).messages
        missing = await runs.call(service + method, request("").SerializeToString())
        assert isinstance(missing.error, InvalidArgument), method
        assert [(each.field, each.reason) for each in missing.error.violations] == [("tenant", "TENANT")]
        assert "blue, red" in missing.error.message
        unknown = await runs.call(service + method, request("tan").SerializeToString())
        assert isinstance(unknown.error, NotFound), method
        assert unknown.error.reason == "TENANT_UNKNOWN"
        blue = await runs.call(service + method, request("blue").SerializeToString())
        assert blue.error is not None or THEIRS.encode() not in b"".join(blue.messages)
