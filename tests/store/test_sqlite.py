"""Promise: a file that is locked, full or damaged is said to be so in bounded time, and loses nothing that was kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from broker.store import statements
from broker.store.engine import StoreUnavailable
from broker.store.migrating import migrate
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from tests.store.values import kept


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    made = SqliteEngine(tmp_path / "store.db", wait_seconds=0.2)
    await migrate(made)
    yield made
    await made.close()


async def test_another_writer_is_waited_for_and_then_named(engine: SqliteEngine, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="database is locked"):
        await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    # Readers need not wait for it.
    assert await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False) is None
    other.execute("ROLLBACK")
    other.close()
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)


async def test_a_full_disk_is_named_and_what_was_kept_stays(engine: SqliteEngine) -> None:
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    # Of the connection that writes.
    await engine.run(_cap, write=True)
    with pytest.raises(StoreUnavailable, match="full"):
        await engine.run(lambda c: statements.record(c, kept("c2", parts=[bytes(1_000_000)])), write=True)
    assert await engine.run(lambda c: statements.parts(c, "acme", "c1"), write=False) == [b"one", b"two"]
    assert await engine.run(lambda c: statements.head(c, "acme", "c2"), write=False) is None


async def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(b"this is no database, and it is long enough to be seen not to be one" * 100)
    engine = SqliteEngine(file)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await migrate(engine)
    await engine.close()
    assert file.read_bytes().startswith(b"this is no database")


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "nowhere" / "store.db")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await migrate(engine)
    await engine.close()


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1)])
async def test_a_commit_is_as_durable_as_configured(tmp_path: Path, synchronous: str, number: int) -> None:
    engine = SqliteEngine(tmp_path / "store.db", synchronous=synchronous)
    assert await engine.run(lambda c: c.execute(text("PRAGMA synchronous")).scalar(), write=False) == number
    assert await engine.run(lambda c: c.execute(text("PRAGMA journal_mode")).scalar(), write=False) == "wal"
    await engine.close()


async def test_whoever_gives_up_does_not_undo_a_commit(engine: SqliteEngine) -> None:
    began, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(connection: Connection) -> None:
        statements.record(connection, kept("c1"))
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)

    running = asyncio.ensure_future(engine.run(work, write=True))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go.set()
    # Behind the commit, in the one thread that writes; a reader of its own could still be before it.
    assert await engine.run(lambda c: statements.head(c, "acme", "c1"), write=True) is not None


async def test_a_search_that_takes_too_long_is_ended_and_holds_up_no_commit(engine: SqliteEngine) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    searching = asyncio.ensure_future(engine.run(lambda c: c.execute(text(endless)).scalar(), write=False))
    await asyncio.sleep(0)
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    with pytest.raises(StoreUnavailable, match="interrupted"):
        await searching
    assert await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False) is not None


async def test_a_file_that_was_taken_away_keeps_nothing_and_its_successor_is_used(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    assert await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False) is not None
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"store.db{end}").unlink()
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await engine.run(lambda c: statements.record(c, kept("c2")), write=True)
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c3")), write=True)
    # A reader has the old one open, too.
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False)
    assert await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False) is None
    assert await engine.run(lambda c: statements.head(c, "acme", "c3"), write=False) is not None


WRITER = """
import asyncio, sys
from pathlib import Path
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from tests.store.values import kept

async def main():
    store = Store(SqliteEngine(Path(sys.argv[1])), now=lambda: 0.0, wait_seconds=10)
    await store.start()
    async def keep(worker):
        n = 0
        while True:
            name = f"{sys.argv[2]}-{worker}-{n}"
            await store.record(kept(name))
            sys.stdout.write(name + "\\n")
            sys.stdout.flush()
            n += 1
    await asyncio.gather(*(keep(worker) for worker in range(4)))

asyncio.run(main())
"""


@pytest.mark.parametrize("round_", range(5))
async def test_nothing_that_was_said_to_be_kept_is_lost_with_the_process(tmp_path: Path, round_: int) -> None:
    said = await asyncio.to_thread(_killed_after, 40 + round_ * 7, tmp_path / "store.db", str(round_))
    store = Store(SqliteEngine(tmp_path / "store.db"), now=lambda: 0.0, wait_seconds=10)
    await store.start()
    try:
        missing = [name for name in said if await store.composition("acme", name) is None]
        assert (len(said) >= 40, missing) == (True, [])
    finally:
        await store.close()


def _killed_after(lines: int, file: Path, prefix: str) -> list[str]:
    """What a process said that it kept until it was killed, and what it had said by the time that it was dead."""
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), str(root / "protos"), os.environ.get("PYTHONPATH", "")])
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file), prefix],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as writer:
        assert writer.stdout is not None
        try:
            for line in writer.stdout:
                said.append(line.strip())
                if len(said) == lines:
                    writer.send_signal(signal.SIGKILL)
        finally:
            writer.kill()
    return said


def _cap(connection: Connection) -> None:
    pages = connection.execute(text("PRAGMA page_count")).scalar()
    connection.execute(text(f"PRAGMA max_page_count = {pages}"))
