"""Health and reflection answer as the tools that use them expect."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from broker.errors import NotFound
from broker.rpc.server import Broker
from broker.rpc.standard import READINESS, REFLECTION, REFLECTION_V1
from tests.rpc.peers import Peer

SERVICES = tuple(f"contextbroker.v1.{name}Service" for name in ("Context", "Provider", "Operator"))
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize("service", ["", READINESS, *SERVICES])
async def test_a_served_service_is_serving(peer: Peer, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(peer.channel)
    assert (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status == SERVING


async def test_all_services_are_listed(peer: Peer) -> None:
    answer = await peer.call("/grpc.health.v1.Health/List", b"")
    listed = health_pb2.HealthListResponse.FromString(answer.messages[0])
    assert {name: status.status for name, status in listed.statuses.items()} == dict.fromkeys(
        ("", READINESS, *SERVICES), SERVING
    )


async def test_an_unknown_service_is_not_found(peer: Peer) -> None:
    request = health_pb2.HealthCheckRequest(service="nope").SerializeToString()
    answer = await peer.call("/grpc.health.v1.Health/Check", request)
    assert isinstance(answer.error, NotFound)


async def test_a_watch_hears_of_the_stop_and_ends(broker: Broker, peer: Peer) -> None:
    stub = health_pb2_grpc.HealthStub(peer.channel)
    known = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICES[0]))
    unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nope"))
    assert (await known.read()).status == SERVING
    assert (await unknown.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    # A watch is no work that a stop waits for.
    stopping = asyncio.create_task(asyncio.wait_for(broker.stop(grace=1000), 30))
    assert (await known.read()).status == NOT_SERVING
    assert await known.read() is grpc.aio.EOF
    assert await unknown.read() is grpc.aio.EOF
    await stopping


@pytest.mark.parametrize("service", [REFLECTION, REFLECTION_V1])
async def test_reflection_lists_and_describes(peer: Peer, service: str) -> None:
    call = peer.channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {found.name for found in (await call.read()).list_services_response.service}
    assert listed >= {*SERVICES, "grpc.health.v1.Health"}
    await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICES[0]))
    assert (await call.read()).file_descriptor_response.file_descriptor_proto
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
