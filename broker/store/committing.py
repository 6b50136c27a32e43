"""Committing compositions: each caller waits until its own is committed, and a commit is what takes time.

So those that arrive while one runs are committed together by the next. A database that is away is tried again at most
once a second, and whoever comes meanwhile is told at once: a store that is down must not cost every answer its whole
patience.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable

import structlog
from sqlalchemy import Connection

from broker.store import statements
from broker.store.engine import Engine, StoreUnavailable, StoreUnusable
from broker.store.migrating import migrate
from broker.store.values import KeptComposition

BATCH = 64
"""Compositions to a commit."""

QUEUE = 1000
"""Compositions that wait for a commit."""

AWAY_SECONDS = 1.0
"""How long a database that failed is left alone."""

Waiting = tuple[KeptComposition, asyncio.Future[None]]
"""A composition, and what its caller waits for."""

log = structlog.get_logger("broker.store")


class Committer:
    """Commits compositions to one database, which it brings to this version first. Start it once, close it once."""

    def __init__(self, engine: Engine, *, wait_seconds: float, committed: Callable[[int], None]) -> None:
        """Opens nothing yet.

        Args:
            engine: The database.
            wait_seconds: What :meth:`record` gets.
            committed: Called with the number of compositions of every commit.
        """
        self._engine = engine
        self._wait_seconds = wait_seconds
        self._committed = committed
        self._waiting: list[Waiting] = []
        self._idle: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: StoreUnavailable | None = None
        self._away_until = 0.0
        self._migrated = False

    @property
    def pending(self) -> int:
        """Compositions that wait for a commit."""
        return len(self._waiting)

    @property
    def away(self) -> bool:
        """Whether the database could not be used when it was last tried."""
        return self._failure is not None

    async def start(self) -> None:
        """Brings the database to this version and begins to commit.

        Raises:
            StoreUnavailable: It cannot be used now. It is begun all the same: what comes next tries again.
            StoreUnusable: It cannot be used by this version.
        """
        try:
            await self._migrate()
        except StoreUnavailable as failure:
            self._failed(failure)
            self._begin()
            raise
        self._begin()

    async def close(self, seconds: float) -> None:
        """Commits what waits, for at most ``seconds``; idempotent."""
        if self._task is None:
            return
        if self._waiting:
            await asyncio.wait([done for _, done in self._waiting], timeout=seconds)
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def record(self, kept: KeptComposition, seconds: float = math.inf) -> None:
        """Keeps a composition; returns when it is committed.

        Args:
            kept: The composition.
            seconds: How long its caller can wait, where that is less than everyone gets.

        Raises:
            StoreUnavailable: It is not known to be kept. It may still be committed.
        """
        loop = asyncio.get_running_loop()
        if self._failure is not None and loop.time() < self._away_until:
            raise self._failure
        if len(self._waiting) >= QUEUE:
            raise StoreUnavailable(f"{self._engine.name}: {QUEUE} compositions wait to be kept")
        done = loop.create_future()
        self._waiting.append((kept, done))
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        seconds = max(0.0, min(seconds, self._wait_seconds))
        late = loop.call_later(seconds, self._late, done, seconds)
        try:
            await done
        finally:
            late.cancel()

    def _late(self, done: asyncio.Future[None], seconds: float) -> None:
        if not done.done():
            done.set_exception(StoreUnavailable(f"{self._engine.name}: nothing was committed within {seconds:.3g} s"))

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._commit(), name="store-commit")

    async def _commit(self) -> None:
        while True:
            while not self._waiting:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            batch = self._waiting[:BATCH]
            del self._waiting[:BATCH]
            try:
                await self._keep(batch)
            except BaseException:
                _end(batch, StoreUnavailable(f"{self._engine.name}: it was closed"))
                raise

    async def _keep(self, batch: list[Waiting], *, alone: bool = False) -> None:
        """Keeps what waits together; ``alone``: of one that made that fail, and may be kept already."""

        def work(connection: Connection) -> None:
            kept, _ = zip(*batch, strict=True)
            if not alone or statements.head(connection, kept[0].tenant, kept[0].composition_id) is None:
                statements.record(connection, *kept)

        try:
            if not self._migrated:
                await self._migrate()
            await self._engine.run(work, write=True)
        except (StoreUnavailable, StoreUnusable) as failure:
            _end(batch, self._failed(failure))
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others must still be kept
            if not alone:
                # One that cannot be kept must not take the others with it.
                for waiting in batch:
                    await self._keep([waiting], alone=True)
                return
            # As text, and not as exc_info: a renderer might add local variables, and those hold what was composed.
            traced = traceback.format_exc()
            log.error("a composition could not be kept", store=self._engine.name, traceback=traced)  # noqa: TRY400
            told = f"{self._engine.name}: a composition could not be kept: {type(fault).__name__}"
            _end(batch, StoreUnavailable(told))
        else:
            if self._failure is not None:
                log.info("the store is back", store=self._engine.name)
            self._failure = None
            self._committed(len(batch))
            for _, done in batch:
                if not done.done():  # Its caller has not given up.
                    done.set_result(None)

    async def _migrate(self) -> None:
        await migrate(self._engine)
        self._migrated = True

    def _failed(self, failure: StoreUnavailable | StoreUnusable) -> StoreUnavailable:
        if self._failure is None:
            log.warning("the store is away", store=self._engine.name, why=str(failure))
        # What is there when it is back may be another database, or an empty one.
        self._migrated = False
        self._failure = StoreUnavailable(str(failure))
        self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
        return self._failure


def _end(batch: list[Waiting], failure: StoreUnavailable) -> None:
    """Tells those that still wait that theirs is not known to be kept."""
    for _, done in batch:
        if not done.done():
            done.set_exception(failure)
            # Whoever gave up will not ask for it.
            done.exception()
