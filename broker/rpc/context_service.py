"""ContextService: what orchestrators call."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Iterator
from functools import partial

import grpc
from contextbroker.v1 import context_service_pb2 as pb

from broker import __version__
from broker.auth.caller import Caller
from broker.core.strategies import CATALOGUE, name_of, params_of
from broker.gather.fabric import InstanceStatus
from broker.gather.registry import KnownProvider
from broker.gather.tenants import Tenant, Tenants
from broker.rpc.composing import Composer
from broker.rpc.handlers import Method, Serving, handler, unary
from broker.rpc.records import Records
from broker.rpc.streams import Stream
from broker.rpc.validation import parsed
from broker.settings import Config
from broker.wire.listings import ListedInstance, ListedProvider, ListedStrategy, fill_providers, strategies_message

CONTEXT_SERVICE = pb.DESCRIPTOR.services_by_name["ContextService"].full_name


LISTED_AT_ONCE = 50
"""Providers and instances that are listed before others get their turn: each takes some 20 µs."""


class ContextService:
    """The lists; :class:`~broker.rpc.composing.Composer` composes, :class:`~broker.rpc.records.Records` remembers."""

    def __init__(
        self,
        *,
        composer: Composer,
        records: Records,
        tenants: Tenants,
        serving: Serving,
        config: Config,
    ) -> None:
        """Serves what ``composer`` composes, and lists what a caller's tenant and ``config`` hold."""
        self._composer = composer
        self._records = records
        self._tenants = tenants
        self._serving = serving
        self._config = config
        self._listing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._draining = False

    def configure(self, composer: Composer, config: Config) -> None:
        """Has other requests served by another composer; those that run go on with theirs."""
        self._composer, self._config = composer, config
        if self._draining:
            composer.drain()

    def drain(self) -> None:
        """Takes no new requests from now on; running ones go on."""
        self._draining = True
        self._composer.drain()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What serves it."""
        methods: dict[str, Method] = {
            "Compose": self._compose,
            "ListProviders": self._list_providers,
            "ListStrategies": unary(self._list_strategies, self._serving),
            **self._records.methods(),
        }
        return grpc.method_handlers_generic_handler(
            CONTEXT_SERVICE, {name: handler(name, method, self._serving) for name, method in methods.items()}
        )

    def _compose(self, stream: Stream) -> Awaitable[None]:
        return self._composer.serve(stream)

    async def _list_providers(self, stream: Stream) -> None:
        await unary(partial(self._providers_of, stream.caller), self._serving)(stream)

    async def _providers_of(self, caller: Caller, data: bytes) -> bytes:
        request = parsed(pb.ListProvidersRequest, data)
        tenant = self._tenants.of(self._serving.callers.tenant_of(caller, request.tenant))
        # One of a tenant's lists is made at a time: what its own providers make long holds up no one else.
        async with self._listing[tenant.name]:
            found = tenant.fabric.instances()
            instances: dict[str, list[InstanceStatus]] = {}
            for instance in found:
                instances.setdefault(instance.key.provider, []).append(instance)
            listed = [_listed(tenant, known, instances.get(known.name, [])) for known in tenant.registry.known()]
            message = pb.ListProvidersResponse()
            for step, _ in enumerate(fill_providers(message, listed), 1):
                if step % LISTED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return message.SerializeToString()

    async def _list_strategies(self, data: bytes) -> bytes:
        parsed(pb.ListStrategiesRequest, data)
        return strategies_message(sorted(self._strategies(), key=lambda listed: listed.name)).SerializeToString()

    def _strategies(self) -> Iterator[ListedStrategy]:
        ranking = self._config.ranking
        default, params = name_of(ranking.strategy), params_of(ranking.strategy)
        for info in CATALOGUE.values():
            yield ListedStrategy(
                name=info.name,
                description=info.description,
                compares_raw_scores=info.compares_raw_scores,
                parameters=info.parameters,
                default=info.name == default,
                allowed=info.name not in ranking.forbidden_strategies,
                version=__version__,
                default_params=params if info.name == default else {},
            )
        for plugin in self._composer.plugins.values():
            yield ListedStrategy(
                name=plugin.name,
                description=plugin.description,
                compares_raw_scores=False,
                parameters=plugin.parameters,
                default=plugin.name == default,
                version=plugin.version,
                default_params=params if plugin.name == default else {},
            )


def _listed(tenant: Tenant, known: KnownProvider, instances: list[InstanceStatus]) -> ListedProvider:
    seen = [instance.last_seen for instance in instances]
    if known.last_seen is not None:
        seen.append(known.last_seen)
    return ListedProvider(
        provider=known.name,
        instances=tuple(
            ListedInstance(
                instance=instance.key.instance,
                session=instance.key.session,
                version=instance.version,
                in_flight=instance.in_flight,
                max_in_flight=instance.max_in_flight,
                last_seen=instance.last_seen,
            )
            for instance in instances
        ),
        kinds=known.kinds,
        scale=known.scale,
        quarantined_seconds=math.ceil(tenant.fabric.quarantined(known.name)),
        last_seen=max(seen, default=None),
        circuit_open_seconds=math.ceil(tenant.conduct.circuit_open(known.name)),
    )
