"""Promise: a database comes to this version whole or stays as it was, and one from a newer version is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from contextbroker.v1 import composition_pb2 as pb
from sqlalchemy import Connection, inspect, text

from broker.core.records import Filter, Observation
from broker.store import frames, searching, statements
from broker.store.engine import Engine, StoreUnusable
from broker.store.migrating import MIGRATIONS, migrate
from broker.store.schema import METADATA
from broker.store.values import Head
from tests.store.values import KeptFrame, kept

FIRST_FAILS = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0005"


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


BEFORE = """
INSERT INTO compositions VALUES ('acme', 'c1', 'r1', 'agent', 7, 'round_robin', :head);
INSERT INTO compositions VALUES ('rival', 'c1', 'r2', '', 8, 'round_robin', :head);
INSERT INTO parts VALUES ('acme', 'c1', 0, :first);
INSERT INTO parts VALUES ('acme', 'c1', 1, :second);
INSERT INTO lanes VALUES ('acme', 'c1', 'a', 7, 'COMPLETE', '', 2, 2, 1, 9)
"""
FRAMES_BEFORE = {
    "0001": """
INSERT INTO frames VALUES ('acme', 'c1', 0, 'a', 'docs/f1.md#L1', '');
INSERT INTO frames VALUES ('acme', 'c1', 1, 'a', 'f2', 'OVER_BUDGET')
""",
    "0003": """
INSERT INTO frames VALUES ('acme', 'c1', 0, 'a', 'docs/f1.md#L1', '', '/srv/docs/f1.md', 'f1.md');
INSERT INTO frames VALUES ('acme', 'c1', 1, 'a', 'f2', 'OVER_BUDGET', 'f2', 'f2');
INSERT INTO frames VALUES ('acme', 'c1', 2, 'a', 'f3', 'INVALID', './f4', 'f4');
INSERT INTO frames VALUES ('acme', 'c1', 3, 'a', 'f5', 'INVALID', '', '');
INSERT INTO attributions VALUES ('acme', 'c1', 'a', 'docs/f1.md#L1', true, true, false, 'agent', 9)
""",
}


@pytest.mark.parametrize("version", [*FRAMES_BEFORE])
async def test_what_an_earlier_version_kept_is_there_after_the_upgrade(engine: Engine, version: str) -> None:
    await migrate(engine, to=version)
    values = {"head": b"head", "first": b"one", "second": b"two"}

    def keep(connection: Connection) -> None:
        for statement in (BEFORE + ";" + FRAMES_BEFORE[version]).split(";"):
            connection.execute(text(statement), {name: values[name] for name in values if f":{name}" in statement})

    await engine.run(keep, write=True)
    await migrate(engine)
    found = await engine.run(lambda c: statements.head(c, "acme", "c1"), write=False)
    assert found == Head("c1", "r1", "agent", 7, "round_robin", b"head")
    assert await engine.run(lambda c: statements.parts(c, "acme", "c1"), write=False) == [b"one", b"two"]
    assert await engine.run(lambda c: statements.parts(c, "rival", "c1"), write=False) == []
    assert await engine.run(lambda c: statements.placed(c, "acme", "c1"), write=False) == {("a", "docs/f1.md#L1")}
    seen = [Observation("a", "docs/f1.md#L1", selected=True)]
    await engine.run(lambda c: statements.attribute(c, "acme", "c1", seen, "agent", 1), write=True)
    (figures,) = await engine.run(lambda c: statements.statistics(c, "acme", 0, 2**62), write=False)
    assert (figures.selected, figures.rendered, figures.answered, figures.tokens_placed) == (1, version > "0001", 1, 9)
    # Where frames come from is known since 0003.
    documents = {"f2", "f3", "f5", "docs/f1.md#L1"} | ({"docs/f1.md", "f1.md", "./f4"} if version == "0003" else set())
    asked = documents | {"f1.md", "srv", "f4.md", "docs/f1.md", "f1", "other"}
    if version == "0001":
        documents -= {"f3", "f5"}
    assert {name for name in asked if await _is_found(engine, Filter(document=name))} == documents
    assert await _is_found(engine, Filter(reason="OVER_BUDGET", frame_id="f2", provider="a"))
    assert not await _is_found(engine, Filter(frame_id="f2", placed=True))


async def test_what_an_earlier_version_kept_has_the_fingerprints_of_this_one(engine: Engine) -> None:
    own = [
        KeptFrame("a", "docs/f1.md#L1", "", "file:///srv/docs/f1.md"),
        KeptFrame("a", "", "OVER_BUDGET", "./docs/f1.md/"),
        KeptFrame("b", "T-17", "INVALID"),
    ]
    many = [kept(f"c{n}", frames=own if n % 2 else []) for n in range(450)]
    await migrate(engine, to="0004")
    await engine.run(lambda c: statements.record(c, *many), write=True)
    await engine.run(
        lambda c: c.execute(text("UPDATE compositions SET fingerprints = :none"), {"none": b""}), write=True
    )
    await migrate(engine)
    rows = await engine.run(
        lambda c: c.execute(text("SELECT composition_id, fingerprints FROM compositions")).all(), write=False
    )
    prints = {each.composition_id: frames.fingerprints(frames.grouped(each.frames)) for each in many}
    assert {name: _as_set(data) for name, data in rows} == {name: _as_set(prints[name]) for name in prints}


def _as_set(fingerprints: bytes) -> set[bytes]:
    return {fingerprints[start : start + 8] for start in range(0, len(fingerprints), 8)}


async def test_the_parts_of_an_earlier_version_are_read_as_parts_of_this_one(engine: Engine) -> None:
    """They were messages of an answer, each with a batch: of frames in field 3, of citations in 4, of rows in 5."""
    frames = [pb.Placed(position=1, rendered="x" * 300), pb.Placed(position=2)]
    citations = [pb.Citation(label="one", position=1)]
    rows = [pb.AuditRow(frame_id=str(number)) for number in range(100)]
    was: list[bytes] = []
    for number, items in ((3, frames), (4, citations), (5, rows), (5, [])):
        batch = b"".join(_field(1, item.SerializeToString()) for item in items)
        was.append(_field(number, batch))
    damaged = [b"", b"\x1a", b"\x1a\x80", was[0][:-1], was[0] + b"\0", b"\x1a\x02\x0a\x05", b"\x1a\x02\x12\x00"]
    await migrate(engine, to="0003")

    def keep(connection: Connection) -> None:
        connection.execute(text(BEFORE.split(";", maxsplit=1)[0]), {"head": b""})
        for place, data in enumerate(was + damaged):
            connection.execute(text("INSERT INTO parts VALUES ('acme', 'c1', :at, :data)"), {"at": place, "data": data})

    await engine.run(keep, write=True)
    await migrate(engine)
    parts = await engine.run(lambda c: statements.parts(c, "acme", "c1"), write=False)
    read = [pb.Part.FromString(part) for part in parts[: len(was)]]
    assert read == [pb.Part(placed=frames), pb.Part(citations=citations), pb.Part(audit=rows), pb.Part()]
    assert parts[len(was) :] == damaged


def _field(number: int, data: bytes) -> bytes:
    """Bytes as a field of a message."""
    size, length = len(data), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


async def _is_found(engine: Engine, wanted: Filter) -> bool:
    return bool((await engine.run(lambda c: searching.turn(c, "acme", wanted, None, 9), write=False)).heads)


async def test_a_newer_version_is_refused_by_name_and_left_alone(engine: Engine) -> None:
    await migrate(engine)
    await engine.run(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '7777'")), write=True)
    with pytest.raises(StoreUnusable, match=r"has the schema 7777, and this version knows schemas up to 0005"):
        await migrate(engine)
    assert await engine.run(_version, write=False) == "7777"


async def test_a_step_that_fails_half_way_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "100% migrations"
    shutil.copytree(MIGRATIONS, broken, ignore=shutil.ignore_patterns("__pycache__"))
    (broken / "versions" / "9999_fails.py").write_text(FIRST_FAILS)
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1")), write=True)
    with pytest.raises(StoreUnusable, match=r"from schema 0005 to head, and is as it was"):
        await migrate(engine, migrations=broken)
    tables = await engine.run(lambda c: inspect(c).get_table_names(), write=False)
    assert "half_way" not in tables
    assert await engine.run(_version, write=False) == "0005"
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
