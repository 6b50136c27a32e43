"""The store: keeps compositions and what became of them, on any engine, until they are forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from broker.core.records import Filter, Observation, ProviderStatistics
from broker.store import searching, statements
from broker.store.committing import BATCH, Committer
from broker.store.engine import Engine, StoreUnavailable
from broker.store.frames import same_text
from broker.store.values import Head, KeptComposition, Mark

T = TypeVar("T")

FORGET_BATCH = 500
"""Compositions that are forgotten in one transaction: others wait for it."""

log = structlog.get_logger("broker.store")


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
        self._keep_seconds = keep_seconds
        self.keep_compositions = keep_compositions
        self._forget_every = forget_every
        self._committer = Committer(engine, wait_seconds=wait_seconds, committed=self._grew)
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._searches: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._forgetting: asyncio.Task[None] | None = None
        self._since_forgetting = 0
        self._grown = asyncio.Event()

    @property
    def name(self) -> str:
        """The database, for people."""
        return self._engine.name

    @property
    def pending(self) -> int:
        """Compositions that wait for a commit."""
        return self._committer.pending

    @property
    def away(self) -> bool:
        """Whether the database could not be used when it was last tried."""
        return self._committer.away

    async def start(self) -> None:
        """Brings the database to this version and begins to keep.

        Raises:
            StoreUnavailable: It cannot be used now. It is begun all the same: what comes next tries again.
            StoreUnusable: It cannot be used by this version.
        """
        try:
            await self._committer.start()
        except StoreUnavailable:
            self._begin()
            raise
        self._begin()

    def _begin(self) -> None:
        if self._keep_seconds is not None or self.keep_compositions is not None:
            self._forgetting = asyncio.create_task(self._forget(), name="store-forget")

    async def close(self, seconds: float = 2.0) -> None:
        """Commits what waits, for at most ``seconds``, then lets go of the database; idempotent."""
        await self._committer.close(seconds)
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.wait([self._forgetting])
            self._forgetting = None
        await self._engine.close()

    def record(self, kept: KeptComposition, seconds: float = math.inf) -> Coroutine[Any, Any, None]:
        """See :meth:`broker.store.committing.Committer.record`; raises StoreUnavailable."""
        return self._committer.record(kept, seconds)

    async def head(self, tenant: str, composition_id: str) -> Head | None:
        """See :func:`broker.store.statements.head`; raises StoreUnavailable."""
        return await self._asked(tenant, lambda c: statements.head(c, tenant, composition_id))

    async def composition(self, tenant: str, composition_id: str) -> tuple[Head, list[bytes]] | None:
        """A composition with its parts; None: the tenant has none of that id. Raises StoreUnavailable."""

        def work(connection: Connection) -> tuple[Head, list[bytes]] | None:
            found = statements.head(connection, tenant, composition_id)
            return None if found is None else (found, statements.parts(connection, tenant, composition_id))

        return await self._asked(tenant, work)

    async def page(
        self, tenant: str, wanted: Filter, after: Mark | None, limit: int, seconds: float = searching.PAGE_SECONDS
    ) -> tuple[list[Head], Mark | None]:
        """See :func:`broker.store.searching.page`; raises StoreUnavailable."""

        async def asked(turn: Callable[[Connection], T]) -> T:
            # A tenant's searches take turns among themselves: whatever else it asks waits for one of them at most.
            async with self._searches[tenant]:
                return await self._asked(tenant, turn)

        return await searching.page(asked, tenant, wanted, after, limit, seconds)

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

    def _grew(self, count: int) -> None:
        """So many were committed."""
        self._since_forgetting += count
        if self.keep_compositions is not None and self._since_forgetting >= max(BATCH, self.keep_compositions // 4):
            self._grown.set()

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
