"""The daemon's life: start, serve, reload, stop."""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from broker import __version__
from broker.config import Config, load
from broker.config.changes import changed, check_reloadable
from broker.core.request import Policy
from broker.core.strategies import PluginStrategy
from broker.plugins import rerankers, strategies
from broker.rpc.callers import Callers
from broker.rpc.core_log import hold_lines_back
from broker.rpc.credentials import seal_key
from broker.rpc.keeping import started, store_of
from broker.rpc.listening import open_port
from broker.rpc.observing import Observing
from broker.rpc.policy import authenticator_of
from broker.rpc.reranking import rerankers_of
from broker.rpc.running import Running, configured_providers
from broker.rpc.tls import server_credentials
from broker.rpc.tracing import tracing_of
from broker.telemetry.metrics import Metrics
from broker.tokenizers.loading import counters_of

log = structlog.get_logger("broker.rpc")


class Broker:
    """A broker in this process: started once, stopped once.

    Attributes:
        config: What it was made with.
        address: ``host:port`` once started; empty before.
        admin_address: The same of the HTTP port for operators; empty where there is none.
    """

    def __init__(self, config: Config | None = None) -> None:
        """Reads secrets and certificates, loads rerankers and plugins, and opens nothing yet.

        A plugin that ranks passes the gate first (:mod:`broker.gate`), which takes about a second.

        Args:
            config: Its configuration; None: the environment's and its file's, over the defaults.

        Raises:
            ConfigError: The configuration, a secret, a certificate, a reranker, a tokenizer or a plugin cannot be used.
        """
        self.config = config if config is not None else load()
        self.address = self.admin_address = ""
        hold_lines_back()
        self._credentials = server_credentials(self.config.server)
        self._authenticator = authenticator_of(self.config)
        self._configured = configured_providers(self.config)
        self._policy = Policy(
            seal_key=seal_key(self.config.render.seal_key_file, trial=self.config.server.loopback),
            lane_order=self.config.ranking.lane_order,
            max_frames=self.config.limits.max_frames,
            plugins=strategies.allowed(self.config.ranking.plugins, self.config.ranking.strategy),
            counters=counters_of(self.config.tokenizers),
        )
        self._store = store_of(self.config.store)
        self._rerankers = rerankers_of(self.config, rerankers.allowed(self.config.ranking.rerankers))
        metrics = Metrics(version=__version__, providers=self._configured, most_providers=self.config.admin.providers)
        self._observing = Observing(metrics, tracing_of(self.config.traces))
        self._running: Running | None = None

    def assembled(self) -> Running:
        """All parts of it, put together on the running loop; nothing is opened."""
        return Running(
            self.config,
            self._configured,
            self._policy,
            self._rerankers,
            Callers(self._authenticator),
            self._store,
            self._observing,
        )

    async def start(self) -> str:
        """Opens the port and serves.

        Returns:
            The address, with the port that was bound.

        Raises:
            OSError: The address cannot be bound; ``EADDRINUSE`` where it is taken.
            ConfigError: The store cannot be used.
        """
        running = self.assembled()
        self.address = open_port(running.server, self.config.server.listen, self._credentials)
        running.operating.open()
        try:
            if self._store is not None:
                await started(self._store, self.config.store)
            await running.server.start()
        except BaseException:
            await running.operating.close()
            raise
        running.watch()
        self._running, self.admin_address = running, running.operating.address
        log.info("serving", address=self.address, tls=self._credentials is not None, admin=self.admin_address or None)
        return self.address

    async def reload(self, config: Config) -> list[str]:
        """Takes another configuration while it runs: all of it, or nothing.

        Requests that run go on under the old one. The files that say who may call are read again in any case.

        Args:
            config: The configuration from now on.

        Returns:
            The keys that have changed, as ``section.key``.

        Raises:
            ConfigError: It cannot be used, or a key has changed that needs a new start; nothing has changed then.
        """
        keys = changed(self.config, config)
        check_reloadable(keys)
        authenticator = await asyncio.to_thread(authenticator_of, config)
        plugins, strategy = self._policy.plugins, config.ranking.strategy
        if isinstance(strategy, PluginStrategy) and strategy != self.config.ranking.strategy:
            plugins = await asyncio.to_thread(strategies.allowed, config.ranking.plugins, strategy)
        policy = replace(
            self._policy,
            lane_order=config.ranking.lane_order,
            max_frames=config.limits.max_frames,
            plugins=plugins,
        )
        if self._running is not None:
            self._running.reload(config, configured_providers(config), policy, authenticator)
        self.config, self._policy, self._authenticator = config, policy, authenticator
        return keys

    async def stop(self, grace: float | None = None) -> None:
        """Drains and stops: not ready, no new compositions, providers told, running calls finished, port closed.

        Args:
            grace: Seconds that running calls get; None: as configured. 0 ends them at once.
        """
        running, self._running = self._running, None
        if running is not None:
            await running.stop(self.config.server.grace_seconds if grace is None else grace)
            log.info("stopped", address=self.address)
