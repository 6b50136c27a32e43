"""OperatorService: how operators act on a running broker."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import grpc
import structlog
from contextbroker.v1 import operator_service_pb2 as pb
from google.protobuf.message import DecodeError, Message

from broker.auth.caller import Caller
from broker.errors import NotFound
from broker.gather.tenants import Tenant, Tenants
from broker.rpc.handlers import Method, Serving, handler, only_message
from broker.rpc.streams import Stream
from broker.rpc.validation import check
from broker.wire.batches import malformed
from broker.wire.strict import refuse_unknown_fields

OPERATOR_SERVICE = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name

log = structlog.get_logger("broker.rpc")

Asked = TypeVar("Asked", bound=Message)


class OperatorService:
    """What operators call. Everything that one does is in the log, with its name."""

    def __init__(self, *, tenants: Tenants, serving: Serving, drain: Callable[[], int]) -> None:
        """Acts on the providers of ``tenants``; ``drain`` begins to drain the broker and counts what still runs."""
        self._tenants = tenants
        self._serving = serving
        self._drain = drain

    def handlers(self) -> grpc.GenericRpcHandler:
        """What serves it."""
        methods = {
            "QuarantineProvider": self._method(pb.QuarantineProviderRequest, self._quarantine),
            "ReleaseProvider": self._method(pb.ReleaseProviderRequest, self._release),
            "DrainBroker": self._method(pb.DrainBrokerRequest, self._drain_broker),
        }
        return grpc.method_handlers_generic_handler(
            OPERATOR_SERVICE, {name: handler(name, method, self._serving) for name, method in methods.items()}
        )

    def _method(self, kind: type[Asked], act: Callable[[Asked, Stream], Message]) -> Method:
        async def method(stream: Stream) -> None:
            request = _read(kind, await only_message(stream, self._serving))
            self._serving.work()
            await stream.send(act(request, stream).SerializeToString())

        return method

    def _quarantine(self, request: pb.QuarantineProviderRequest, stream: Stream) -> Message:
        tenant = self._tenant(stream.caller, request.tenant, request.provider_id)
        tenant.fabric.quarantine(request.provider_id, float(request.seconds))
        self._serving.observing.metrics.quarantined(request.provider_id)
        seconds = math.ceil(tenant.fabric.quarantined(request.provider_id))
        log.warning(
            "an operator lets a provider sit out",
            provider=request.provider_id,
            tenant=tenant.name,
            seconds=seconds,
            operator=stream.caller.subject,
        )
        return pb.QuarantineProviderResponse(quarantined_seconds=seconds)

    def _release(self, request: pb.ReleaseProviderRequest, stream: Stream) -> Message:
        tenant = self._tenant(stream.caller, request.tenant, request.provider_id)
        seconds = math.ceil(tenant.fabric.quarantined(request.provider_id))
        tenant.fabric.release(request.provider_id)
        tenant.conduct.forgive(request.provider_id)
        log.warning(
            "an operator released a provider",
            provider=request.provider_id,
            tenant=tenant.name,
            remaining_seconds=seconds,
            operator=stream.caller.subject,
        )
        return pb.ReleaseProviderResponse(remaining_seconds=seconds)

    def _drain_broker(self, _: pb.DrainBrokerRequest, stream: Stream) -> Message:
        in_flight = self._drain()
        log.warning("an operator drains the broker", in_flight=in_flight, operator=stream.caller.subject)
        return pb.DrainBrokerResponse(in_flight=in_flight)

    def _tenant(self, caller: Caller, named: str, provider: str) -> Tenant:
        """The tenant that is meant, which knows that provider.

        Raises:
            NotFound: It does not (``PROVIDER_UNKNOWN``).
            BrokerError: As :func:`broker.auth.tenants.tenant_of`.
        """
        name = self._serving.callers.tenant_of(caller, named)
        tenant = self._tenants.of(name)
        if tenant.registry.get(provider) is None:
            where = f" in tenant {name!a}" if name else ""
            text = f"no provider {provider!a} is registered{where}; see ListProviders for those that are"
            raise NotFound("PROVIDER_UNKNOWN", text)
        return tenant


def _read(kind: type[Asked], data: bytes) -> Asked:
    """A request that its schema allows.

    Raises:
        InvalidArgument: It does not parse (``MALFORMED``), holds what the contract does not know (``UNKNOWN_FIELD``),
            or breaks a constraint.
    """
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise malformed(kind.DESCRIPTOR.name) from None
    refuse_unknown_fields(message)
    check(message)
    return message
