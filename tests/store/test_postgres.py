"""Promise: a server that is away or slow is said to be so in bounded time, and is used again once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import Connection, text

from broker.store.committing import AWAY_SECONDS
from broker.store.engine import StoreUnavailable, StoreUnusable
from broker.store.migrating import migrate
from broker.store.postgres import PostgresEngine
from broker.store.store import Store
from tests.store import postgres
from tests.store.values import kept


@pytest.fixture
async def engine(postgres_database: str) -> AsyncIterator[PostgresEngine]:
    made = PostgresEngine(postgres_database, wait_seconds=1, connections=2)
    yield made
    await made.close()


@pytest.fixture
def own_server() -> Iterator[postgres.PostgresServer]:
    """A server that the test may stop."""
    with postgres.running() as server:
        yield server


async def test_a_server_that_goes_away_and_comes_back(own_server: postgres.PostgresServer) -> None:
    store = Store(PostgresEngine(own_server.dsn(), wait_seconds=2), now=lambda: 0.0, wait_seconds=2)
    await store.start()
    try:
        await store.record(kept("before"))
        await asyncio.to_thread(own_server.stop, "immediate")
        with pytest.raises(StoreUnavailable):
            await store.record(kept("meanwhile"))
        # No one else pays for it: the failure is told without trying.
        with pytest.raises(StoreUnavailable):
            await store.record(kept("meanwhile too"))
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(10 * AWAY_SECONDS):
            while True:
                try:
                    await store.record(kept("after"))
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
        assert await store.head("acme", "before") is not None
        assert await store.head("acme", "after") is not None
    finally:
        await store.close()


async def test_a_slow_transaction_is_given_up_and_its_connection_never_used_again(engine: PostgresEngine) -> None:
    def slow(connection: Connection) -> None:
        connection.execute(text("SET SESSION application_name = 'poisoned'"))
        connection.execute(text("SELECT pg_sleep(30)"))

    with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
        await engine.run(slow, write=True)
    names = [await engine.run(_name, write=False) for _ in range(6)]
    assert names == ["context-broker"] * 6


async def test_one_that_may_be_patient_is_waited_for(engine: PostgresEngine) -> None:
    await engine.run(lambda c: c.execute(text("SELECT pg_sleep(1.5)")), write=True, patient=True)
    with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
        await engine.run(lambda c: c.execute(text("SELECT pg_sleep(1.5)")), write=True)


async def test_a_cancelled_transaction_keeps_nothing_and_poisons_nothing(engine: PostgresEngine) -> None:
    await engine.run(lambda c: c.execute(text("CREATE TABLE t (x int)")), write=True)
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        loop.call_soon(began.set)
        connection.execute(text("SELECT pg_sleep(30)"))

    running = asyncio.create_task(engine.run(work, write=True))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(4):
        assert await engine.run(lambda c: c.execute(text("SELECT count(*) FROM t")).scalar(), write=False) == 0


async def test_an_empty_pool_is_waited_for_and_then_named(engine: PostgresEngine) -> None:
    hold = [asyncio.create_task(engine.run(lambda c: c.execute(text("SELECT pg_sleep(30)")), write=True)) for _ in "ab"]
    results = await asyncio.gather(engine.run(_name, write=False), *hold, return_exceptions=True)
    assert all(isinstance(result, StoreUnavailable) for result in results)
    assert await engine.run(_name, write=False) == "context-broker"


async def test_what_only_reads_cannot_write(engine: PostgresEngine) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"):
        await engine.run(lambda c: c.execute(text("CREATE TABLE t (x int)")), write=False)


async def test_two_that_start_together_migrate_once(postgres_database: str) -> None:
    engines = [PostgresEngine(postgres_database, wait_seconds=20) for _ in range(3)]
    await asyncio.gather(*(migrate(engine) for engine in engines))
    for engine in engines:
        await engine.close()


async def test_no_server_at_all_is_named_without_its_password() -> None:
    engine = PostgresEngine("postgresql://broker:hunter2@127.0.0.1:9/x", wait_seconds=2)
    with pytest.raises(StoreUnavailable) as failure:
        await engine.run(_name, write=False)
    assert "127.0.0.1:9/x" in str(failure.value)
    assert "hunter2" not in str(failure.value) + engine.name
    await engine.close()


def test_an_address_that_is_none_is_refused_without_showing_it() -> None:
    with pytest.raises(StoreUnusable) as failure:
        PostgresEngine("hunter2 is no address")
    assert "hunter2" not in str(failure.value)


def _name(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_setting('application_name')")).scalar())
