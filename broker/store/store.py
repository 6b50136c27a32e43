"""The store: keeps compositions and what became of them, on any engine.

Compositions that arrive together are committed together: each caller waits until its own is committed, and a commit is
what takes time. A database that is away is tried again at most once a second, and whoever comes meanwhile is told at
once: a store that is down must not cost every answer its whole patience.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import structlog
from sqlalchemy import Connection

from broker.core.records import Filter, Observation, ProviderStatistics
from broker.store import statements
from broker.store.engine import Engine, StoreUnavailable, StoreUnusable
from broker.store.frames import same_text
from broker.store.migrating import migrate
from broker.store.values import Head, KeptComposition, Mark

T = TypeVar("T")

BATCH = 64
"""Compositions to a commit."""

QUEUE = 1000
"""Compositions that wait for a commit."""

AWAY_SECONDS = 1.0
"""How long a database that failed is left alone."""

FORGET_BATCH = 500
"""Compositions that are forgotten in one transaction: others wait for it."""

log = structlog.get_logger("broker.store")


class _Waiting(NamedTuple):
    kept: KeptComposition
    done: asyncio.Future[None]


class Store:
    """Keeps compositions. Start it once, close it once.

    Attributes:
        keep_compositions: How many are kept of each tenant; None: any number.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        now: Callable[[], float],
        wait_seconds: float = 2.0,
        keep_seconds: float | None = None,
        keep_compositions: int | None = None,
        forget_every: float = 60.0,
    ) -> None:
        """Opens nothing yet.

        Args:
            engine: The database.
            now: Seconds since the epoch.
            wait_seconds: What :meth:`record` gets.
            keep_seconds: How long compositions are kept; None: for ever.
            keep_compositions: How many are kept of each tenant; None: any number.
            forget_every: Seconds between two times at which old ones are forgotten; sooner where there are too many.
        """
        self._engine = engine
        self._now = now
        self._wait_seconds = wait_seconds
        self._keep_seconds = keep_seconds
        self.keep_compositions = keep_compositions
        self._forget_every = forget_every
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: StoreUnavailable | None = None
        self._away_until = 0.0
        self._migrated = False
        self._since_forgetting = 0
        self._grown = asyncio.Event()

    @property
    def name(self) -> str:
        """The database, for people."""
        return self._engine.name

    @property
    def pending(self) -> int:
        """Compositions that wait for a commit."""
        return len(self._waiting)

    @property
    def away(self) -> bool:
        """Whether the database could not be used when it was last tried."""
        return self._failure is not None

    async def start(self) -> None:
        """Brings the database to this version and begins to keep.

        Raises:
            StoreUnavailable: It cannot be used now. It is begun all the same: what comes next tries again.
            StoreUnusable: It cannot be used by this version.
        """
        try:
            await self._migrate()
        except StoreUnavailable as failure:
            self._begin()
            self._failed(failure)
            raise
        self._begin()

    def _begin(self) -> None:
        self._tasks = [asyncio.create_task(self._commit(), name="store-commit")]
        if self._keep_seconds is not None or self.keep_compositions is not None:
            self._tasks.append(asyncio.create_task(self._forget(), name="store-forget"))

    async def close(self, seconds: float = 2.0) -> None:
        """Commits what waits, for at most ``seconds``, then lets go of the database; idempotent."""
        if self._tasks:
            waiting = [waiting.done for waiting in self._waiting]
            if waiting:
                await asyncio.wait(waiting, timeout=seconds)
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._tasks = []
        await self._engine.close()

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
            raise StoreUnavailable(f"{self.name}: {QUEUE} compositions wait to be kept")
        waiting = _Waiting(kept, loop.create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        seconds = min(seconds, self._wait_seconds)
        try:
            async with asyncio.timeout(seconds):
                await waiting.done
        except TimeoutError:
            raise StoreUnavailable(f"{self.name}: nothing was committed within {max(0.0, seconds):.3g} s") from None

    async def head(self, tenant: str, composition_id: str) -> Head | None:
        """See :func:`broker.store.statements.head`; raises StoreUnavailable."""
        return await self._asked(tenant, lambda c: statements.head(c, tenant, composition_id))

    async def composition(self, tenant: str, composition_id: str) -> tuple[Head, list[bytes]] | None:
        """A composition with its parts; None: the tenant has none of that id. Raises StoreUnavailable."""

        def work(connection: Connection) -> tuple[Head, list[bytes]] | None:
            found = statements.head(connection, tenant, composition_id)
            return None if found is None else (found, statements.parts(connection, tenant, composition_id))

        return await self._asked(tenant, work)

    async def page(self, tenant: str, wanted: Filter, after: Mark | None, limit: int) -> tuple[list[Head], Mark | None]:
        """A page of compositions, newest first, and where the next one starts; None: this was the last.

        Raises:
            StoreUnavailable: The database cannot be used now.
        """
        found = await self._asked(tenant, lambda c: statements.heads(c, tenant, wanted, after, limit + 1))
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], Mark(last.made_at, last.composition_id)

    async def attribute(
        self, tenant: str, composition_id: str, observations: Sequence[Observation], reported_by: str
    ) -> list[Observation] | None:
        """Adds what was seen of a composition's frames, all of it or nothing.

        Returns:
            The observations of frames that the composition did not place: then nothing was added. None: the tenant has
            no composition of that id.

        Raises:
            StoreUnavailable: The database cannot be used now.
        """
        at = self._micros(self._now())

        def work(connection: Connection) -> list[Observation] | None:
            if statements.head(connection, tenant, composition_id) is None:
                return None
            placed = statements.placed(connection, tenant, composition_id)
            strangers = [seen for seen in observations if (seen.provider, same_text(seen.frame_id)) not in placed]
            if not strangers:
                statements.attribute(connection, tenant, composition_id, observations, reported_by, at)
            return strangers

        return await self._asked(tenant, work, write=True)

    async def statistics(self, tenant: str, made_from: int, made_before: int) -> list[ProviderStatistics]:
        """See :func:`broker.store.statements.statistics`; raises StoreUnavailable."""
        return await self._asked(tenant, lambda c: statements.statistics(c, tenant, made_from, made_before))

    async def _asked(self, tenant: str, work: Callable[[Connection], T], *, write: bool = False) -> T:
        # One thing that a tenant asks at a time: what it asks at once waits for itself, and not others for it.
        async with self._turns[tenant]:
            return await self._engine.run(work, write=write)

    async def _commit(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._keep(batch)
            finally:
                for waiting in batch:
                    if not waiting.done.done():
                        waiting.done.set_exception(StoreUnavailable(f"{self.name}: it was closed"))

    async def _keep(self, batch: list[_Waiting], *, alone: bool = False) -> None:
        """Keeps what waits together; ``alone``: of one that made that fail, and may be kept already."""

        def work(connection: Connection) -> None:
            kept = [waiting.kept for waiting in batch]
            if not alone or statements.head(connection, kept[0].tenant, kept[0].composition_id) is None:
                statements.record(connection, *kept)

        try:
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
            log.error("a composition could not be kept", store=self.name, traceback=traceback.format_exc())  # noqa: TRY400
            _end(batch, StoreUnavailable(f"{self.name}: a composition could not be kept: {type(fault).__name__}"))
        else:
            if self._failure is not None:
                log.info("the store is back", store=self.name)
            self._failure = None
            self._since_forgetting += len(batch)
            if self.keep_compositions is not None and self._since_forgetting >= max(BATCH, self.keep_compositions // 4):
                self._grown.set()
            _end(batch, None)

    async def _migrate(self) -> None:
        if not self._migrated:
            await migrate(self._engine)
            self._migrated = True

    def _failed(self, failure: StoreUnavailable | StoreUnusable) -> StoreUnavailable:
        if self._failure is None:
            log.warning("the store is away", store=self.name, why=str(failure))
        # What is there when it is back may be another database, or an empty one.
        self._migrated = False
        self._failure = StoreUnavailable(str(failure))
        self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
        return self._failure

    async def _forget(self) -> None:
        while True:
            self._since_forgetting = 0
            self._grown.clear()
            try:
                while await self._engine.run(self._forget_some, write=True) == FORGET_BATCH:
                    pass
            except StoreUnavailable as failure:
                log.warning("nothing could be forgotten; it is tried again", store=self.name, why=str(failure))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._forget_every):
                    await self._grown.wait()

    def _forget_some(self, connection: Connection) -> int:
        forgotten = 0
        if self._keep_seconds is not None:
            before = self._micros(self._now() - self._keep_seconds)
            forgotten = statements.forget(connection, before, FORGET_BATCH)
        if self.keep_compositions is not None and forgotten < FORGET_BATCH:
            forgotten += statements.forget_beyond(connection, self.keep_compositions, FORGET_BATCH - forgotten)
        return forgotten

    @staticmethod
    def _micros(seconds: float) -> int:
        return round(seconds * 1_000_000)


def _end(batch: list[_Waiting], failure: StoreUnavailable | None) -> None:
    for waiting in batch:
        if waiting.done.done():  # Its caller has given up.
            continue
        if failure is None:
            waiting.done.set_result(None)
        else:
            waiting.done.set_exception(failure)
            # Whoever gave up will not ask for it.
            waiting.done.exception()
