"""Everything that a broker checks before it opens a port."""

from __future__ import annotations

import asyncio
import os

from broker.auth.parts import Kind
from broker.auth.principals import parse_principals
from broker.auth.remarks import remarks
from broker.auth.tokens import parse_tokens
from broker.config import Config
from broker.settings.auth import CREDENTIALS, Auth


def check_startable(config: Config) -> list[str]:
    """Makes a broker of a configuration as ``serve`` does, and lets it go again; no port is opened, no store reached.

    Returns:
        What is odd, though ``serve`` would start with it.

    Raises:
        ConfigError: ``serve`` would end with it.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from broker.rpc.server import Broker
    from broker.telemetry import logs

    logs.configure("warning", config.log.format)

    async def make() -> None:
        # Rerankers that are asked over a network have a loop.
        broker = Broker(config)
        broker.assembled()
        await broker.stop()

    asyncio.run(make())
    return _remarks(config.auth)


def _remarks(auth: Auth) -> list[str]:
    if auth.principals_file is None:
        return []
    kinds = frozenset(Kind(part) for part in auth.parts if part in CREDENTIALS)
    principals = parse_principals(auth.principals_file.read_bytes(), kinds)
    tokens = None if auth.tokens_file is None else parse_tokens(auth.tokens_file.read_bytes()).values()
    return list(remarks(principals, tokens))
