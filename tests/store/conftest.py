"""Every engine, real and empty, for the tests of the store."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from broker.store.engine import Engine
from broker.store.postgres import PostgresEngine
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from tests.store import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    with postgres.running() as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: postgres.PostgresServer) -> str:
    """The address of an empty database."""
    return postgres_server.create(f"test_{uuid.uuid4().hex}")


@pytest.fixture(params=["sqlite", "sqlite in memory", "postgres"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    """Every engine, empty: what is tested with it holds on each."""
    made: Engine
    if request.param == "postgres":
        made = PostgresEngine(request.getfixturevalue("postgres_database"), wait_seconds=20)
    else:
        made = SqliteEngine(tmp_path / "store.db" if request.param == "sqlite" else None)
    yield made
    await made.close()


class Now:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
async def store(engine: Engine, now: Callable[[], float]) -> AsyncIterator[Store]:
    made = Store(engine, now=now, wait_seconds=10)
    await made.start()
    yield made
    await made.close()
