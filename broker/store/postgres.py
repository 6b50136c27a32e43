"""PostgreSQL: a pool of connections, through asyncpg.

Every transaction has the same time, connecting and waiting for a connection included, unless it is told to be patient.
One that did not end in it, or was cancelled, leaves its connection in an unknown state: that connection is closed and
never given to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine

from broker.store.engine import StoreUnavailable, StoreUnusable

T = TypeVar("T")


class PostgresEngine:
    """A database on a server."""

    def __init__(self, dsn: str, *, wait_seconds: float = 2.0, connections: int = 5) -> None:
        """Connects to nothing yet.

        Args:
            dsn: ``postgresql://user:password@host:port/database``.
            wait_seconds: What a transaction gets.
            connections: Most that are open at once.

        Raises:
            StoreUnusable: The address cannot be read.
        """
        try:
            url = make_url(dsn).set(drivername="postgresql+asyncpg")
        except ArgumentError:
            # The text of the error shows the address, and the address holds a password.
            raise StoreUnusable("the address is no postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from None
        self._name = f"PostgreSQL {url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"
        self._wait_seconds = wait_seconds
        self._engine = create_async_engine(
            url,
            # Errors show what was to be kept unless told not to.
            hide_parameters=True,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=wait_seconds,
            # A server that was started again has forgotten our connections: one is tried before it is used.
            pool_pre_ping=True,
            connect_args={"timeout": wait_seconds, "server_settings": {"application_name": "context-broker"}},
        )

    @property
    def name(self) -> str:
        """Which server and database."""
        return self._name

    async def run(self, work: Callable[[Connection], T], *, write: bool, patient: bool = False) -> T:
        """See :meth:`broker.store.engine.Engine.run`."""
        try:
            async with asyncio.timeout(self._wait_seconds) as limit, self._engine.connect() as connection:
                if not write:
                    await connection.execution_options(postgresql_readonly=True)
                async with connection.begin():
                    if patient:
                        limit.reschedule(None)
                    return await connection.run_sync(work)
        except (TimeoutError, PoolTimeout):
            raise StoreUnavailable(f"{self._name}: no answer within {self._wait_seconds:g} s") from None
        except (DataError, IntegrityError):
            # A fault in what is to be kept, not of the database.
            raise
        except DBAPIError as error:
            raise StoreUnavailable(f"{self._name}: {_cause(error)}") from None
        except OSError as error:
            raise StoreUnavailable(f"{self._name}: {error.strerror or error}") from None

    async def close(self) -> None:
        """Closes every connection; idempotent."""
        await self._engine.dispose()


def _cause(error: DBAPIError) -> str:
    """The server's first line: the others may show what was stored."""
    lines = str(error.orig).splitlines()
    return lines[0] if lines else type(error.orig).__name__
