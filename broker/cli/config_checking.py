"""Everything that a broker checks before it opens a port."""

from __future__ import annotations

import asyncio
import os

from broker.config import Config


def check_startable(config: Config) -> None:
    """Makes a broker of a configuration as ``serve`` does, and lets it go again; no port is opened, no store reached.

    Raises:
        ConfigError: ``serve`` would end with it.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from broker.rpc.server import Broker
    from broker.telemetry import logs

    logs.configure("warning", config.log.format)

    async def make() -> None:
        # Rerankers that are asked over a network have a loop.
        await Broker(config).stop()

    asyncio.run(make())
