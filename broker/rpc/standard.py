"""The two services that every gRPC tool expects: health, and reflection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from broker.errors import NotFound
from broker.rpc.handlers import Serving, first_message, handler, only_message, sized, unary
from broker.rpc.streams import Stream
from broker.wire.batches import malformed

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
READINESS = "readiness"
"""What probes that cannot ask for the empty name ask for."""

REFLECTION = reflection.SERVICE_NAME
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


T = TypeVar("T", bound=Message)


class Health:
    """grpc.health.v1.Health, through the same handlers as all else: the packaged one never answers an empty call.

    Everything is served, or nothing is: a broker that drains is ready for no service. (The stubs of grpc_health are
    older than its List, hence the ignored errors.)
    """

    def __init__(self, services: Iterable[str], serving: Serving) -> None:
        self._services = frozenset(("", READINESS, *services))
        self._serving = serving
        self._status: int = _SERVING
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def serving(self) -> bool:
        """Whether it says SERVING."""
        return self._status == _SERVING

    def not_serving(self) -> None:
        """Says NOT_SERVING from now on, to watchers at once."""
        self._status = _NOT_SERVING
        self._changed.set()

    def close(self) -> None:
        """Ends all watches: the server is about to stop."""
        self._closed.set()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What serves it."""
        return grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": handler("Health.Check", unary(self._check, self._serving), self._serving),
                "List": handler("Health.List", unary(self._list, self._serving), self._serving),
                "Watch": handler("Health.Watch", self._watch, self._serving),
            },
        )

    async def _check(self, data: bytes) -> bytes:
        service = _parse(health_pb2.HealthCheckRequest, data).service
        if service not in self._services:
            raise NotFound(
                "SERVICE_UNKNOWN", f"no service is called {service[:64]!a}; see reflection for those that are"
            )
        return health_pb2.HealthCheckResponse(status=self._status).SerializeToString()

    async def _list(self, data: bytes) -> bytes:
        _parse(health_pb2.HealthListRequest, data)  # type: ignore[attr-defined]
        statuses = {service: health_pb2.HealthCheckResponse(status=self._status) for service in self._services}
        listed: bytes = health_pb2.HealthListResponse(statuses=statuses).SerializeToString()  # type: ignore[attr-defined]
        return listed

    async def _watch(self, stream: Stream) -> None:
        service = _parse(health_pb2.HealthCheckRequest, await only_message(stream, self._serving)).service
        known = service in self._services
        await stream.send(self._message(known))
        await self._changed.wait()
        if known:
            await stream.send(self._message(known))
        await self._closed.wait()

    def _message(self, known: bool) -> bytes:
        return health_pb2.HealthCheckResponse(status=self._status if known else _UNKNOWN).SerializeToString()


def _parse(kind: type[T], data: bytes) -> T:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise malformed(kind.DESCRIPTOR.name) from None


def reflection_handlers(services: Iterable[str], serving: Serving) -> tuple[grpc.GenericRpcHandler, ...]:
    """What serves reflection, under the name that tools ask for first and under the older one.

    The two protocols differ in nothing but the package's name.
    """
    servicer = reflection.aio.ReflectionServicer((*services, HEALTH, REFLECTION))

    async def requests(stream: Stream) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        data: bytes | None = await first_message(stream, serving)
        while data is not None:
            yield _parse(reflection_pb2.ServerReflectionRequest, sized(data, serving))
            data = await stream.receive()

    async def reflect(stream: Stream) -> None:
        answers: Any = servicer.ServerReflectionInfo(requests(stream), None)
        async for answer in answers:
            await stream.send(answer.SerializeToString())

    method = handler("Reflection", reflect, serving)
    return tuple(
        grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": method})
        for name in (REFLECTION_V1, REFLECTION)
    )
