"""What a broker that runs is made of: how its parts are made, changed, drained and stopped, and in which order."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc.aio

from broker.auth.authenticator import Authenticator
from broker.config import Config
from broker.core.request import Policy
from broker.core.scores import ScoreScale
from broker.gather.collect import Collector
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry
from broker.gather.tenants import Tenant, Tenants
from broker.rpc.callers import Callers
from broker.rpc.composing import Composer
from broker.rpc.conduct import conduct_rules, report_circuit
from broker.rpc.context_service import CONTEXT_SERVICE, ContextService
from broker.rpc.handlers import Serving
from broker.rpc.listening import options
from broker.rpc.observing import Observing
from broker.rpc.operating import Operating
from broker.rpc.operator_service import OPERATOR_SERVICE, OperatorService
from broker.rpc.provider_service import PROVIDER_SERVICE, ProviderService
from broker.rpc.quotas import Quotas
from broker.rpc.recording import Recorder
from broker.rpc.records import Records
from broker.rpc.reranking import Rerankers
from broker.rpc.standard import Health, reflection_handlers
from broker.store.store import Store
from broker.wire.reading import BatchFrames

LAST_WORDS = 0.25
"""Seconds that calls get to hand over their status once all work is done; what still runs then is cut."""


class Running:
    """One broker from its start to its stop; :class:`broker.rpc.server.Broker` is what its user sees of it."""

    def __init__(
        self,
        config: Config,
        configured: dict[str, ScoreScale | None],
        policy: Policy,
        rerankers: Rerankers,
        callers: Callers,
        store: Store | None,
        observing: Observing,
    ) -> None:
        clock = asyncio.get_running_loop()
        self._clock = clock
        self._callers = callers
        self._config = config
        self._configured = configured
        self._watching: asyncio.Task[None] | None = None
        self._metrics = observing.metrics
        self.serving = Serving(
            first_message_seconds=config.server.first_message_seconds,
            stall_seconds=config.server.stall_seconds,
            max_message_bytes=config.limits.max_message_bytes,
            callers=callers,
            quotas=Quotas(config.limits, clock.time),
            observing=observing,
        )
        self._pushes = pushes = Pushes(
            clock, max_bytes=config.limits.push_hold_bytes, tenant_bytes=config.limits.tenant_push_hold_bytes
        )
        self.tenants = Tenants(self._tenant)
        self._store = store
        self._rerankers = rerankers
        self._recorder = Recorder(
            store, required=config.store.required, content=config.store.content, observing=observing
        )
        self._draining: asyncio.Task[None] | None = None
        self.context_service = ContextService(
            composer=self._composer(policy),
            records=Records(store, self.serving),
            tenants=self.tenants,
            serving=self.serving,
            config=config,
        )
        self.provider_service = ProviderService(
            tenants=self.tenants, pushes=pushes, serving=self.serving, config=config
        )
        operator_service = OperatorService(tenants=self.tenants, serving=self.serving, drain=self.drain)
        services = (CONTEXT_SERVICE, PROVIDER_SERVICE, OPERATOR_SERVICE)
        self.health = Health(services, self.serving)
        self.operating = Operating(config.admin, observing, figures=self._figures, ready=self._ready)
        self.server = grpc.aio.server(options=options(config))
        self.server.add_generic_rpc_handlers(
            (
                self.context_service.handlers(),
                self.provider_service.handlers(),
                operator_service.handlers(),
                self.health.handlers(),
                *reflection_handlers(services, self.serving),
            )
        )

    def _tenant(self, name: str) -> Tenant:
        """A tenant that calls for the first time."""
        config = self._config
        registry = Registry(self._configured, shared=_shared(config))
        conduct = Conduct(
            self._clock, conduct_rules(config.conduct), on_open=partial(report_circuit, self._metrics, name)
        )
        fabric = LocalFabric(self._clock, registry, self._pushes)
        collector = Collector(
            fabric=fabric,
            conduct=conduct,
            clock=self._clock,
            read=partial(BatchFrames, max_bytes=config.limits.max_frame_bytes),
            lane_bytes=config.limits.lane_bytes,
            hedges=_hedges(config),
        )
        return Tenant(name=name, registry=registry, fabric=fabric, conduct=conduct, collector=collector)

    def _composer(self, policy: Policy) -> Composer:
        return Composer(
            tenants=self.tenants,
            rerankers=self._rerankers,
            recorder=self._recorder,
            serving=self.serving,
            config=self._config,
            policy=policy,
        )

    def reload(
        self, config: Config, configured: dict[str, ScoreScale | None], policy: Policy, authenticator: Authenticator
    ) -> None:
        """Takes another configuration, in one step of the loop.

        Raises:
            ConfigError: A provider that is attached has another scale than it would have; nothing has changed then.
        """
        shared, limits = _shared(config), config.limits
        for tenant in self.tenants.all():
            tenant.registry.check_configured(configured, shared)
        self._config, self._configured = config, configured
        for name in configured:
            self._metrics.providers.learn(name)
        for tenant in self.tenants.all():
            tenant.registry.configure(configured, shared)
            tenant.collector.configure(
                read=partial(BatchFrames, max_bytes=limits.max_frame_bytes),
                lane_bytes=limits.lane_bytes,
                hedges=_hedges(config),
            )
        self._pushes.configure(max_bytes=limits.push_hold_bytes, tenant_bytes=limits.tenant_push_hold_bytes)
        self.serving.quotas.configure(limits)
        self.provider_service.configure(config)
        self.context_service.configure(self._composer(policy), config)
        self._callers.configure(authenticator)

    def watch(self) -> None:
        """Watches the callers' credentials from now on."""
        self._watching = asyncio.create_task(self._callers.watch(), name="broker-callers")

    def drain(self) -> int:
        """Begins to drain, once: not ready, no new compositions, providers told; how many requests still run."""
        if self._draining is None:
            self.health.not_serving()
            self.context_service.drain()
            # No process waits for its end, so what runs has all the time that it could have asked for.
            self._draining = asyncio.create_task(
                self.tenants.stop(self._config.limits.max_collect_seconds), name="broker-drain"
            )
        return sum(len(tenant.requests) for tenant in self.tenants.all())

    async def stop(self, grace: float) -> None:
        """Each thing once what depends on it has ended, all within the grace."""
        self.health.not_serving()
        self.context_service.drain()
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.wait([self._draining])
        # The port stays open meanwhile, so that new calls hear why they are refused and where else to go.
        await asyncio.gather(self.tenants.stop(grace), self.serving.idle(grace))
        self.provider_service.close()
        self.health.close()
        await self.server.stop(LAST_WORDS if grace > 0 else None)
        await self._rerankers.close()
        await self.serving.tasks.wait(LAST_WORDS)
        if self._store is not None:
            await self._store.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self.operating.close()

    def _ready(self) -> str:
        """Why no new requests are taken, for any thread."""
        if self._watching is None:
            return "starting"
        return "" if self.health.serving else "draining"

    def _figures(self) -> dict[str, float]:
        """What can be measured, by the names of :data:`broker.telemetry.metrics.GAUGES`."""
        store = self._store
        return {
            **self.serving.quotas.figures(),
            **self._pushes.figures(),
            "ready": not self._ready(),
            "store_pending": 0 if store is None else store.pending,
            "store_away": store is not None and store.away,
        }


def configured_providers(config: Config) -> dict[str, ScoreScale | None]:
    """The providers that are known from the start, in lane order."""
    scales = {name: None if known.scale is None else known.scale.value() for name, known in config.providers.items()}
    for shared in config.ranking.shared_scales:
        # What is configured of one is configured of all; the settings see to it that it is the same.
        scale = next(filter(None, (scales.get(name) for name in shared.providers)), None)
        scales |= dict.fromkeys(shared.providers, scale)
    first = config.ranking.lane_order
    return {name: scales.get(name) for name in (*first, *sorted(scales.keys() - set(first)))}


def _shared(config: Config) -> list[tuple[str, tuple[str, ...]]]:
    """Scales that several providers share, with their providers."""
    return [(scale.id, scale.providers) for scale in config.ranking.shared_scales]


def _hedges(config: Config) -> dict[str, float]:
    """After how many seconds a second instance is asked, of the providers where one is."""
    return {name: known.hedge_seconds for name, known in config.providers.items() if known.hedge_seconds is not None}
