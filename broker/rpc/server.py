"""The daemon's life: start, serve, drain, stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial

import grpc.aio
import structlog

from broker.config import Config, load
from broker.core.request import Policy
from broker.core.scores import ScoreScale
from broker.gather.collect import Collector
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry
from broker.plugins import rerankers, strategies
from broker.rpc.composing import Composer
from broker.rpc.context_service import CONTEXT_SERVICE, ContextService
from broker.rpc.credentials import seal_key, server_credentials
from broker.rpc.handlers import Serving
from broker.rpc.listening import open_port, options
from broker.rpc.provider_service import PROVIDER_SERVICE, ProviderService
from broker.rpc.reranking import Rerankers, rerankers_of
from broker.rpc.standard import Health, reflection_handlers
from broker.telemetry import logs
from broker.wire.batches import split_batch
from broker.wire.frames import read_frame

log = structlog.get_logger("broker.rpc")

LAST_WORDS = 0.25
"""Seconds that calls get to hand over their status once all work is done; what still runs then is cut."""


class Broker:
    """A broker in this process: started once, stopped once.

    Attributes:
        config: What it was made with.
        address: ``host:port`` once started; empty before.
    """

    def __init__(self, config: Config | None = None) -> None:
        """Reads secrets and certificates, loads rerankers and plugins, and opens nothing yet.

        A plugin that ranks passes the gate first (:mod:`broker.gate`), which takes about a second.

        Args:
            config: Its configuration; None: the environment's and its file's, over the defaults.

        Raises:
            ConfigError: The configuration, a secret, a certificate, a reranker or a plugin cannot be used.
        """
        self.config = config if config is not None else load()
        self.address = ""
        self._credentials = server_credentials(self.config.server)
        self._configured = _configured(self.config)
        self._policy = Policy(
            seal_key=seal_key(self.config.render.seal_key_file, trial=self.config.server.loopback),
            lane_order=self.config.ranking.lane_order,
            plugins=strategies.allowed(self.config.ranking.plugins, self.config.ranking.strategy),
        )
        self._rerankers = rerankers_of(self.config, rerankers.allowed(self.config.ranking.rerankers))
        self._running: _Running | None = None

    async def start(self) -> str:
        """Opens the port and serves.

        Returns:
            The address, with the port that was bound.

        Raises:
            OSError: The address cannot be bound; ``EADDRINUSE`` where it is taken.
        """
        running = _Running(self.config, self._configured, self._policy, self._rerankers)
        self.address = open_port(running.server, self.config.server.listen, self._credentials)
        await running.fabric.start()
        await running.server.start()
        self._running = running
        log.info("serving", address=self.address, tls=self._credentials is not None)
        return self.address

    async def stop(self, grace: float | None = None) -> None:
        """Drains and stops: not ready, no new compositions, providers told, running calls finished, port closed.

        Args:
            grace: Seconds that running calls get; None: as configured. 0 ends them at once.
        """
        running, self._running = self._running, None
        if running is not None:
            await running.stop(self.config.server.grace_seconds if grace is None else grace)
            log.info("stopped", address=self.address)


class _Running:
    """What a started broker is made of."""

    def __init__(
        self, config: Config, configured: dict[str, ScoreScale | None], policy: Policy, rerankers: Rerankers
    ) -> None:
        clock = asyncio.get_running_loop()
        self.serving = Serving(
            first_message_seconds=config.server.first_message_seconds,
            stall_seconds=config.server.stall_seconds,
            max_message_bytes=config.limits.max_message_bytes,
        )
        shared = [(scale.id, scale.providers) for scale in config.ranking.shared_scales]
        registry = Registry(configured, shared=shared)
        pushes = Pushes(clock, max_bytes=config.limits.push_hold_bytes)
        self.fabric = LocalFabric(clock, registry, pushes)
        collector = Collector(
            fabric=self.fabric,
            conduct=Conduct(clock),
            clock=clock,
            split=split_batch,
            read=partial(read_frame, max_bytes=config.limits.max_frame_bytes),
        )
        self.composer = Composer(
            collector=collector,
            registry=registry,
            rerankers=rerankers,
            serving=self.serving,
            config=config,
            policy=policy,
        )
        self._rerankers = rerankers
        context_service = ContextService(
            composer=self.composer,
            fabric=self.fabric,
            registry=registry,
            serving=self.serving,
            config=config,
            plugins=policy.plugins,
        )
        self.provider_service = ProviderService(
            fabric=self.fabric, pushes=pushes, serving=self.serving, limits=config.limits
        )
        services = (CONTEXT_SERVICE, PROVIDER_SERVICE)
        self.health = Health(services, self.serving)
        self.server = grpc.aio.server(options=options(config))
        self.server.add_generic_rpc_handlers(
            (
                context_service.handlers(),
                self.provider_service.handlers(),
                self.health.handlers(),
                *reflection_handlers(services),
            )
        )

    async def stop(self, grace: float) -> None:
        """Each thing once what depends on it has ended, all within the grace."""
        self.health.not_serving()
        self.composer.drain()
        # The port stays open meanwhile, so that new calls hear why they are refused and where else to go.
        await asyncio.gather(self.fabric.stop(grace), self.serving.idle(grace))
        self.provider_service.close()
        self.health.close()
        await self.server.stop(LAST_WORDS if grace > 0 else None)
        await self._rerankers.close()
        await self.serving.tasks.wait(LAST_WORDS)


def _configured(config: Config) -> dict[str, ScoreScale | None]:
    """The providers that are known from the start, in lane order."""
    scales = {name: None if known.scale is None else known.scale.value() for name, known in config.providers.items()}
    for shared in config.ranking.shared_scales:
        # What is configured of one is configured of all; the settings see to it that it is the same.
        scale = next(filter(None, (scales.get(name) for name in shared.providers)), None)
        scales |= dict.fromkeys(shared.providers, scale)
    first = config.ranking.lane_order
    return {name: scales.get(name) for name in (*first, *sorted(scales.keys() - set(first)))}


async def serve(config: Config, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once.

    This is for a process of the daemon's own: it sets up the process's log and its signals. :class:`Broker` does
    neither.

    Args:
        config: The configuration.
        on_ready: Called with the address once calls are taken.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: A secret or a certificate cannot be used.
        OSError: The address cannot be bound; ``EADDRINUSE`` where it is taken.
    """
    logs.configure(config.log.level, config.log.format)
    broker = Broker(config)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def on_signal(number: int) -> None:
        if stopping.is_set():
            # Whoever asks twice does not want to wait for anything, not for a thread that composes either.
            os._exit(128 + number)
        log.info("stopping", signal=signal.Signals(number).name, grace_seconds=config.server.grace_seconds)
        stopping.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        address = await broker.start()
        if on_ready is not None:
            on_ready(address)
        await stopping.wait()
    finally:
        await broker.stop()
        for number in signals:
            loop.remove_signal_handler(number)
    return 0


def run(config: Config, *, on_ready: Callable[[str], None] | None = None) -> int:
    """:func:`serve`, with its arguments, answer and errors, on a loop of its own: uvloop's where there is one."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    else:
        factory = new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(serve(config, on_ready=on_ready))
