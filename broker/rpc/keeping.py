"""From the configuration of the store to a store."""

from __future__ import annotations

import time
from importlib.util import find_spec

from broker.errors import ConfigError
from broker.rpc.credentials import private
from broker.settings import Keeping
from broker.store.engine import Engine, StoreUnavailable, StoreUnusable
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store

MEMORY_COMPOSITIONS = 1000
"""Compositions kept in memory where the configuration does not say: some megabytes, with the audits of usual ones."""

DAY = 86_400.0


def store_of(keeping: Keeping) -> Store | None:
    """The store as configured, not started; None: nothing is kept.

    Raises:
        ConfigError: The file of the address cannot be read, is readable by all, or holds no address.
    """
    if keeping.kind == "none":
        return None
    count = keeping.keep_compositions
    if keeping.kind == "memory" and count is None:
        count = MEMORY_COMPOSITIONS
    return Store(
        _engine(keeping),
        now=time.time,
        wait_seconds=keeping.wait_seconds,
        keep_seconds=keeping.keep_days * DAY,
        keep_compositions=count,
    )


async def started(store: Store, keeping: Keeping) -> None:
    """Starts a store.

    Raises:
        ConfigError: It cannot be used at all; or not now, where that is a matter of this machine's files or a store is
            required. A server that is only away is tried again with every composition.
    """
    try:
        await store.start()
    except StoreUnusable as error:
        raise ConfigError(f"store: {error}") from None
    except StoreUnavailable as error:
        if keeping.required or keeping.kind != "postgresql":
            await store.close()
            raise ConfigError(f"store: {error}") from None


def _engine(keeping: Keeping) -> Engine:
    if keeping.kind != "postgresql":
        file = keeping.file if keeping.kind == "sqlite" else None
        return SqliteEngine(file, wait_seconds=keeping.wait_seconds, synchronous=keeping.synchronous.upper())
    assert keeping.dsn_file is not None, "the settings see to it"
    dsn = private(keeping.dsn_file, "store.dsn_file").decode(errors="replace").strip()
    # Its driver is an extra, and the module does not import without.
    for name in ("asyncpg", "greenlet"):
        if find_spec(name) is None:
            text = f"store.kind is 'postgresql', which needs {name}: pip install 'context-broker[postgres]'"
            raise ConfigError(text)
    from broker.store.postgres import PostgresEngine

    try:
        return PostgresEngine(dsn, wait_seconds=keeping.wait_seconds, connections=keeping.connections)
    except StoreUnusable as error:
        raise ConfigError(f"store.dsn_file: {keeping.dsn_file}: {error}") from None
