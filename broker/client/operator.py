"""The client of whoever runs a broker: providers that sit out or are released, and a broker that drains."""

# A timeout here is the call's deadline, which the broker is told of; cancelling from outside would say less.
# ruff: noqa: ASYNC109

from __future__ import annotations

from contextbroker.v1 import operator_service_pb2 as pb

from broker.client.calls import parsed
from broker.client.context import ContextClient
from broker.core.names import provider_name_problem
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.typed import require

QUARANTINE = "/contextbroker.v1.OperatorService/QuarantineProvider"
RELEASE = "/contextbroker.v1.OperatorService/ReleaseProvider"
DRAIN = "/contextbroker.v1.OperatorService/DrainBroker"

LONGEST = 604_800
"""Seconds that a provider may be made to sit out: a week."""


class OperatorClient(ContextClient):
    """Acts on a broker, from an event loop; its credential needs the role ``operator``.

    It takes what :class:`~broker.client.ContextClient` takes, raises what that raises, and lists what that lists.
    """

    async def quarantine(self, provider: str, seconds: int, *, tenant: str = "", timeout: float | None = 10.0) -> int:
        """Lets a provider sit out: it is not asked, and its lanes end ``QUARANTINED``.

        Args:
            provider: The provider.
            seconds: For how long, 1 to :data:`LONGEST`.
            tenant: Whose provider it is; empty: of the caller's own tenant.
            timeout: Seconds that the call may take.

        Returns:
            Seconds that it sits out from now: more than asked where it already did so for longer.

        Raises:
            NotFound: The tenant knows no such provider (``PROVIDER_UNKNOWN``).
            BrokerError: As the class says.
        """
        require(("seconds", seconds, int))
        if not 1 <= seconds <= LONGEST:
            text = f"{seconds} is out of range; give 1 to {LONGEST}"
            raise InvalidArgument.of([FieldViolation("seconds", "OUT_OF_RANGE", text)])
        _check(provider, tenant)
        request = pb.QuarantineProviderRequest(provider_id=provider, seconds=seconds, tenant=tenant)
        data = await self._ask(QUARANTINE, request.SerializeToString(), timeout)
        return parsed(pb.QuarantineProviderResponse, data).quarantined_seconds

    async def release(self, provider: str, *, tenant: str = "", timeout: float | None = 10.0) -> int:
        """Ends a provider's quarantine, and forgets the lies and failures that led to it.

        Args:
            provider: The provider.
            tenant: Whose provider it is; empty: of the caller's own tenant.
            timeout: Seconds that the call may take.

        Returns:
            Seconds that it would still have sat out; 0: it did not.

        Raises:
            NotFound: The tenant knows no such provider (``PROVIDER_UNKNOWN``).
            BrokerError: As the class says.
        """
        _check(provider, tenant)
        request = pb.ReleaseProviderRequest(provider_id=provider, tenant=tenant)
        data = await self._ask(RELEASE, request.SerializeToString(), timeout)
        return parsed(pb.ReleaseProviderResponse, data).remaining_seconds

    async def drain(self, *, timeout: float | None = 10.0) -> int:
        """Has the broker take no new requests and tell its providers; running requests finish, and it goes on running.

        Args:
            timeout: Seconds that the call may take; it does not wait for the running requests.

        Returns:
            Requests that still run. Ask again to see them end.

        Raises:
            BrokerError: As the class says.
        """
        data = await self._ask(DRAIN, pb.DrainBrokerRequest().SerializeToString(), timeout)
        return parsed(pb.DrainBrokerResponse, data).in_flight


def _check(provider: str, tenant: str) -> None:
    require(("provider", provider, str), ("tenant", tenant, str))
    if problem := provider_name_problem(provider):
        raise InvalidArgument.of([FieldViolation("provider", "PROVIDER_NAME", problem)])
    if len(tenant.encode(errors="replace")) > 63 or tenant != tenant.encode(errors="ignore").decode():
        raise InvalidArgument.of([FieldViolation("tenant", "TENANT", "give at most 63 bytes of text")])
