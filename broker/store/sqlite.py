"""SQLite: one file, one connection that writes, one thread that owns it.

Write-ahead logging, so that whoever reads does not wait for whoever writes: reading has a connection and a thread of
its own. (In memory there is one of both.) ``synchronous`` is FULL unless configured otherwise: a commit that has
returned outlives the power too, not only the process. A transaction that writes says so at its start (BEGIN IMMEDIATE):
one that begins to write half-way can be refused whatever the timeout. Transactions are the driver's: SQLAlchemy is told
of one that lasts as long as its connection, since all that it does when one begins and ends takes longer than the rest.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.pool import StaticPool

from broker.store.engine import StoreUnavailable
from broker.store.worker import Worker

T = TypeVar("T")

STEPS = 10_000
"""Steps of SQLite's own between two looks at the clock: some tenths of a millisecond."""


class SqliteEngine:
    """A database in a file, or in memory."""

    def __init__(self, file: Path | None, *, wait_seconds: float = 2.0, synchronous: str = "FULL") -> None:
        """Opens nothing yet.

        Args:
            file: The file, made where there is none; None: in memory, gone with the process.
            wait_seconds: How long another process may hold the file, and how long reading may take.
            synchronous: ``FULL``, or ``NORMAL``: the last commits may be lost with the power.
        """
        self._file = file
        self._writer = _Owner(self.name, file, wait_seconds, synchronous)
        self._reader = self._writer if file is None else _Owner(self.name, file, wait_seconds, synchronous)

    @property
    def name(self) -> str:
        """Where it is."""
        return "SQLite in memory" if self._file is None else f"SQLite {self._file}"

    def run(self, work: Callable[[Connection], T], *, write: bool, patient: bool = False) -> Awaitable[T]:
        """See :meth:`broker.store.engine.Engine.run`; what writes is always waited for."""
        owner = self._writer if write else self._reader
        # What has begun in the thread is committed there, whether or not anyone still waits for it.
        return owner.thread.run(owner.run, work, write, patient)

    async def close(self) -> None:
        """Waits for what runs, then closes the file; idempotent."""
        for owner in (self._reader, self._writer):
            await asyncio.to_thread(owner.close)


class _Owner:
    """One connection, and the thread that owns it."""

    def __init__(self, name: str, file: Path | None, wait_seconds: float, synchronous: str) -> None:
        self._name = name
        self._file = file
        self._wait_seconds = wait_seconds
        self._synchronous = synchronous
        self._connection: Connection | None = None
        self._driver: sqlite3.Connection | None = None
        self._read_until: float | None = None
        self._opened: tuple[int, int] | None = None
        self.thread = Worker("store")
        # Errors show what was to be kept unless told not to.
        self._engine = create_engine("sqlite://", creator=self._connect, poolclass=StaticPool, hide_parameters=True)

    def run(self, work: Callable[[Connection], T], write: bool, patient: bool) -> T:
        self._read_until = None if write or patient else time.monotonic() + self._wait_seconds
        try:
            done = self._in_transaction(work, "BEGIN IMMEDIATE" if write else "BEGIN")
        except (DataError, IntegrityError, sqlite3.DataError, sqlite3.IntegrityError):
            # A fault in what is to be kept, not of the database.
            raise
        except DBAPIError as error:
            raise StoreUnavailable(f"{self._name}: {error.orig}") from None
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self._name}: {error}") from None
        self._check_file()
        return done

    def close(self) -> None:
        self.thread.close()
        self._let_go()
        self._engine.dispose()

    def _in_transaction(self, work: Callable[[Connection], T], begin: str) -> T:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
                self._connection.begin()
            driver = self._driver
            assert driver is not None, "it is connected"
            # As scripts are, it is done in one step: other threads are let in once, and not before each part of it.
            driver.executescript(begin)
            done = work(self._connection)
            driver.commit()
        except BaseException:
            # In whatever state it is now, the next transaction begins with another.
            self._let_go()
            raise
        return done

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _check_file(self) -> None:
        """Whether the file is still the one at its place: what is kept in one that was removed is gone with us.

        Raises:
            StoreUnavailable: It is not; the one that is there, or a new one, is opened the next time.
        """
        if self._file is not None and _identity(self._file) != self._opened:
            self._let_go()
            self._engine.dispose()
            raise StoreUnavailable(f"{self._name}: the file was removed or replaced while it was in use")

    def _connect(self) -> sqlite3.Connection:
        # Made in the thread that owns it. Without an isolation level the driver begins nothing by itself.
        connection = sqlite3.connect(
            self._file or ":memory:", timeout=self._wait_seconds, isolation_level=None, check_same_thread=False
        )
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {self._synchronous}",
            "foreign_keys = ON",
            # Damage is found before it is answered with.
            "cell_size_check = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(self._too_long, STEPS)
        self._opened = None if self._file is None else _identity(self._file)
        self._driver = connection
        return connection

    def _too_long(self) -> bool:
        """Whether what runs has had its time: a search through everything must not keep others waiting."""
        return self._read_until is not None and time.monotonic() > self._read_until


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file is at a place; None: there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
