"""Whether a broker serves, by the health protocol that every gRPC tool speaks."""

# A timeout here is the call's deadline, which the broker is told of; cancelling from outside would say less.
# ruff: noqa: ASYNC109

from __future__ import annotations

from typing import Any

import grpc

from broker.client.access import Access
from broker.client.calls import parsed
from broker.client.channel import check_timeout, open_channel, translated
from broker.client.handshakes import explained_soon

CHECK = "/grpc.health.v1.Health/Check"


async def health(address: str, service: str = "", *, timeout: float | None = 5.0, **access: Any) -> str:
    """What a broker says of itself, without a credential.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        service: A service's name; empty: the broker as a whole.
        timeout: Seconds that the call may take.
        access: As the clients take it.

    Returns:
        ``SERVING`` or ``NOT_SERVING``.

    Raises:
        NotFound: It has no such service (``SERVICE_UNKNOWN``).
        BrokerError: It cannot be reached, or as the clients' constructors.
        ModuleNotFoundError: The package ``grpcio-health-checking`` is not installed.
    """
    from grpc_health.v1 import health_pb2

    check_timeout(timeout)
    brought = Access(**access)
    channel = open_channel(address, brought)
    try:
        call: Any = channel.unary_unary(CHECK)
        data = await call(health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout=timeout)
    except grpc.RpcError as error:
        raise await explained_soon(translated(error, address), address, brought) from None
    finally:
        await channel.close()
    status = parsed(health_pb2.HealthCheckResponse, data).status
    return health_pb2.HealthCheckResponse.ServingStatus.Name(status)
