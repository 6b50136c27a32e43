"""Promise: a database comes to this version whole or stays as it was, and one from a newer version is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from broker.core.records import Filter, Observation
from broker.store import statements
from broker.store.engine import Engine, StoreUnusable
from broker.store.migrating import MIGRATIONS, migrate
from broker.store.schema import METADATA
from tests.store.values import kept

FIRST_FAILS = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0003"


def upgrade() -> None:
    op.create_table("half_way", sa.Column("x", sa.Integer))
    op.execute("INSERT INTO there_is_no_such_table VALUES (1)")
"""


async def test_the_tables_are_those_that_the_statements_are_written_for(engine: Engine) -> None:
    await migrate(engine)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, METADATA))

    assert await engine.run(differences, write=False) == []


async def test_migrating_again_changes_nothing(engine: Engine) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    await migrate(engine)
    assert await engine.run(lambda c: statements.parts(c, "acme", "c1"), write=False) == [b"one", b"two"]


async def test_what_the_version_before_kept_is_there_after_the_upgrade(engine: Engine) -> None:
    await migrate(engine, to="0001")
    await engine.run(lambda c: statements.record(c, kept("c1", frames=())), write=True)
    columns = "tenant, composition_id, place, provider, frame_id, reason"
    row = text(f"INSERT INTO frames ({columns}) VALUES ('acme', 'c1', 0, 'a', 'f1', '')")
    await engine.run(lambda c: c.execute(row), write=True)
    await migrate(engine)
    heads = await engine.run(lambda c: statements.heads(c, "acme", Filter(), None, 10), write=False)
    assert [head.composition_id for head in heads] == ["c1"]
    assert await engine.run(lambda c: statements.placed(c, "acme", "c1"), write=False) == {("a", "f1")}
    seen = [Observation("a", "f1", selected=True)]
    await engine.run(lambda c: statements.attribute(c, "acme", "c1", seen, "agent", 1), write=True)
    (found,) = await engine.run(lambda c: statements.statistics(c, "acme", 0, 2**62), write=False)
    assert found.selected == 1


async def test_a_newer_version_is_refused_by_name_and_left_alone(engine: Engine) -> None:
    await migrate(engine)
    await engine.run(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '7777'")), write=True)
    with pytest.raises(StoreUnusable, match=r"has the schema 7777, and this version knows schemas up to 0003"):
        await migrate(engine)
    assert await engine.run(_version, write=False) == "7777"


async def test_a_step_that_fails_half_way_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "100% migrations"
    shutil.copytree(MIGRATIONS, broken, ignore=shutil.ignore_patterns("__pycache__"))
    (broken / "versions" / "9999_fails.py").write_text(FIRST_FAILS)
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    with pytest.raises(StoreUnusable, match=r"from schema 0003 to head, and is as it was"):
        await migrate(engine, migrations=broken)
    tables = await engine.run(lambda c: inspect(c).get_table_names(), write=False)
    assert "half_way" not in tables
    assert await engine.run(_version, write=False) == "0003"
    # This version serves it as before.
    await migrate(engine)
    assert await engine.run(lambda c: statements.parts(c, "acme", "c1"), write=False) == [b"one", b"two"]


async def test_no_table_at_all_where_the_first_upgrade_fails(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, broken, ignore=shutil.ignore_patterns("__pycache__"))
    (broken / "versions" / "9999_fails.py").write_text(FIRST_FAILS)
    with pytest.raises(StoreUnusable, match="from schema none to head"):
        await migrate(engine, migrations=broken)
    assert await engine.run(lambda c: inspect(c).get_table_names(), write=False) == []


def _version(connection: Connection) -> str:
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())
