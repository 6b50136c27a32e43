"""ContextService: what orchestrators call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import grpc
from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import DecodeError, Message

from broker import __version__
from broker.core.handles import RankingPlugin
from broker.core.strategies import CATALOGUE, name_of
from broker.errors import Unimplemented
from broker.gather.fabric import Fabric, InstanceStatus
from broker.gather.registry import KnownProvider, Registry
from broker.rpc.composing import Composer
from broker.rpc.handlers import Method, Serving, handler, unary
from broker.rpc.validation import check
from broker.settings import Config
from broker.wire.batches import malformed
from broker.wire.listings import ListedInstance, ListedProvider, ListedStrategy, providers_message, strategies_message

CONTEXT_SERVICE = pb.DESCRIPTOR.services_by_name["ContextService"].full_name


class ContextService:
    """Compose, and the lists; :class:`~broker.rpc.composing.Composer` does the composing."""

    def __init__(
        self,
        *,
        composer: Composer,
        fabric: Fabric,
        registry: Registry,
        serving: Serving,
        config: Config,
        plugins: Mapping[str, RankingPlugin],
    ) -> None:
        """Serves what ``composer`` composes, and lists what ``fabric``, ``registry`` and ``plugins`` hold."""
        self._composer = composer
        self._fabric = fabric
        self._registry = registry
        self._serving = serving
        self._config = config
        self._plugins = plugins

    def handlers(self) -> grpc.GenericRpcHandler:
        """What serves it."""
        methods: dict[str, Method] = {
            "Compose": self._composer.serve,
            "ListProviders": unary(self._list_providers, self._serving),
            "ListStrategies": unary(self._list_strategies, self._serving),
            "GetComposition": self._not_built("GetComposition", pb.GetCompositionRequest),
            "ListCompositions": self._not_built("ListCompositions", pb.ListCompositionsRequest),
            "ReportAttribution": self._not_built("ReportAttribution", pb.ReportAttributionRequest),
        }
        return grpc.method_handlers_generic_handler(
            CONTEXT_SERVICE, {name: handler(name, method, self._serving) for name, method in methods.items()}
        )

    async def _list_providers(self, data: bytes) -> bytes:
        _parsed(pb.ListProvidersRequest, data)
        instances: dict[str, list[InstanceStatus]] = {}
        for instance in self._fabric.instances():
            instances.setdefault(instance.key.provider, []).append(instance)
        listed = (self._listed(known, instances.get(known.name, [])) for known in self._registry.known())
        return providers_message(listed).SerializeToString()

    def _listed(self, known: KnownProvider, instances: list[InstanceStatus]) -> ListedProvider:
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
            quarantined_seconds=math.ceil(self._fabric.quarantined(known.name)),
            last_seen=max(seen, default=None),
        )

    async def _list_strategies(self, data: bytes) -> bytes:
        _parsed(pb.ListStrategiesRequest, data)
        return strategies_message(sorted(self._strategies(), key=lambda listed: listed.name)).SerializeToString()

    def _strategies(self) -> Iterator[ListedStrategy]:
        ranking = self._config.ranking
        default = name_of(ranking.strategy)
        for info in CATALOGUE.values():
            yield ListedStrategy(
                name=info.name,
                description=info.description,
                compares_raw_scores=info.compares_raw_scores,
                parameters=info.parameters,
                default=info.name == default,
                allowed=info.name not in ranking.forbidden_strategies,
                version=__version__,
            )
        for plugin in self._plugins.values():
            yield ListedStrategy(
                name=plugin.name,
                description=plugin.description,
                compares_raw_scores=False,
                parameters=plugin.parameters,
                default=plugin.name == default,
                version=plugin.version,
            )

    def _not_built(self, name: str, request: type[Message]) -> Method:
        async def answer(data: bytes) -> bytes:
            _parsed(request, data)
            raise Unimplemented("NOT_BUILT", f"{name} is not built in this version: compositions are not recorded yet")

        return unary(answer, self._serving)


def _parsed(kind: type[Message], data: bytes) -> None:
    """Holds bytes against a message's form and constraints.

    Raises:
        InvalidArgument: They do not parse (``MALFORMED``), or break a constraint.
    """
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise malformed(kind.DESCRIPTOR.name) from None
    check(message)
