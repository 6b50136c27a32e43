"""A composition in one row, with its frames and parts packed."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op
from msgspec import msgpack

revision = "0004"
down_revision = "0003"

AT_ONCE = 50
"""Compositions that are carried over at once: the rows of one may be some megabytes."""

Key = tuple[str, str]
"""Tenant and id of a composition."""

_ITEM = 1 << 3 | 2
_BATCHES = {3 << 3 | 2: b"\x0a", 4 << 3 | 2: b"\x12", 5 << 3 | 2: b"\x1a"}
"""Tag of an item in a part, by the tag of the batch that it stood in."""

_MOVED = ("compositions", "parts", "lanes", "frames", "attributions")
_INDICES = {
    "compositions_by_time": "compositions",
    "compositions_by_age": "compositions",
    "lanes_by_provider": "lanes",
    "frames_by_id": "frames",
    "frames_by_document": "frames",
}


def upgrade() -> None:
    """Makes the tables anew and carries every row over."""
    for index, table in _INDICES.items():
        op.drop_index(index, table)
    # What refers to a table goes on to, under its new name.
    for table in _MOVED:
        op.rename_table(table, f"{table}_before")
    compositions, lanes, attributions = _make_tables()
    connection = op.get_bind()
    known = sa.MetaData()
    before = {name: sa.Table(f"{name}_before", known, autoload_with=connection) for name in _MOVED}
    for rows in _packed(connection, before["compositions"], before["parts"], before["frames"]):
        connection.execute(compositions.insert(), rows)
    for made in (lanes, attributions):
        names = [column.name for column in made.columns]
        own = sa.select(*(before[made.name].c[name] for name in names))
        connection.execute(made.insert().from_select(names, own))
    # The compositions last: while others refer to them, they would be forgotten with them.
    for table in reversed(_MOVED):
        op.drop_table(f"{table}_before")
    op.create_index("compositions_by_time", "compositions", ["tenant", "made_at", "composition_id"])
    op.create_index("compositions_by_age", "compositions", ["made_at"])


def _make_tables() -> tuple[sa.Table, sa.Table, sa.Table]:
    compositions = op.create_table(
        "compositions",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("composition_id", sa.Text, primary_key=True),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("fingerprints", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("frames", sa.LargeBinary, nullable=False),
        sa.Column("parts", sa.LargeBinary, nullable=False),
    )
    lanes = _of_composition(
        "lanes",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("end", sa.Text, nullable=False),
        sa.Column("violation", sa.Text, nullable=False),
        sa.Column("offered", sa.Integer, nullable=False),
        sa.Column("admitted", sa.Integer, nullable=False),
        sa.Column("placed", sa.Integer, nullable=False),
        sa.Column("tokens_placed", sa.BigInteger, nullable=False),
    )
    attributions = _of_composition(
        "attributions",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("frame_id", sa.Text, primary_key=True),
        sa.Column("selected", sa.Boolean, nullable=False),
        sa.Column("rendered", sa.Boolean, nullable=False),
        sa.Column("cited", sa.Boolean, nullable=False),
        sa.Column("reported_by", sa.Text, nullable=False),
        sa.Column("reported_at", sa.BigInteger, nullable=False),
    )
    return compositions, lanes, attributions


def _of_composition(name: str, *others: sa.schema.SchemaItem) -> sa.Table:
    return op.create_table(
        name,
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("composition_id", sa.Text, primary_key=True),
        *others,
        sa.ForeignKeyConstraint(
            ["tenant", "composition_id"],
            ["compositions.tenant", "compositions.composition_id"],
            ondelete="CASCADE",
            name=f"{name}_of_composition",
        ),
        sqlite_with_rowid=False,
    )


def _packed(
    connection: sa.Connection, compositions: sa.Table, parts: sa.Table, frames: sa.Table
) -> Iterator[list[dict[str, Any]]]:
    """Rows of the new table, some at once, in the order of their keys."""
    following = sa.select(compositions).order_by(*_key(compositions)).limit(AT_ONCE)
    last = ("", "")
    while True:
        after = following.where(sa.tuple_(*_key(compositions)) > last)
        rows = [dict(row) for row in connection.execute(after).mappings()]
        if not rows:
            return
        first, last = last, (rows[-1]["tenant"], rows[-1]["composition_id"])
        own_parts = _by_composition(connection, parts, ("data",), first, last)
        own_frames = _by_composition(connection, frames, ("provider", "frame_id", "reason", "source"), first, last)
        for row in rows:
            own = (row["tenant"], row["composition_id"])
            groups = _grouped(own_frames[own])
            row["fingerprints"], row["frames"] = _fingerprints(groups), msgpack.encode(groups)
            row["parts"] = msgpack.encode([_part(data) for (data,) in own_parts[own]])
        yield rows


def _key(table: sa.Table) -> tuple[sa.Column[Any], sa.Column[Any]]:
    return table.c.tenant, table.c.composition_id


def _by_composition(
    connection: sa.Connection, table: sa.Table, columns: Iterable[str], after: Key, until: Key
) -> Mapping[Key, list[Any]]:
    """What stands in columns of a table, by composition, for those whose keys are in a range; each in its order."""
    key = sa.tuple_(*_key(table))
    rows = sa.select(*_key(table), *(table.c[name] for name in columns)).where(key > after, key <= until)
    found: dict[Key, list[Any]] = defaultdict(list)
    for tenant, composition_id, *values in connection.execute(rows.order_by(*_key(table), table.c.place)):
        found[tenant, composition_id].append(values)
    return found


def _part(message: bytes) -> bytes:
    """A message of an answer, which held a batch of one kind in field 3, 4 or 5, as a part with its items in 1, 2 or 3.

    What is not of that form could not be read before, and stays as it is.
    """
    if not message or message[0] not in _BATCHES:
        return message
    size, at = _varint(message, 1)
    if at + size != len(message):
        return message
    pieces: list[bytes] = []
    tag = _BATCHES[message[0]]
    while at < len(message):
        if message[at] != _ITEM:
            return message
        size, start = _varint(message, at + 1)
        pieces += (tag, message[at + 1 : start + size])
        at = start + size
    return b"".join(pieces) if at == len(message) else message


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of protobuf's, and where what follows it begins; behind the end of the data it is 0."""
    number = shift = 0
    for place in range(at, len(data)):
        number |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return number, place + 1
    return 0, len(data) + 1


def _grouped(frames: Iterable[Any]) -> list[tuple[str, str, list[str]]]:
    """Provider, reason, and of each frame its id and its source."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for provider, frame_id, reason, path in frames:
        groups[provider, reason] += (frame_id, _source(path, frame_id))
    return [(provider, reason, texts) for (provider, reason), texts in groups.items()]


def _source(path: str, frame_id: str) -> str:
    """A source of that path, which was kept without what led into the document, or is the path of the id."""
    if path == _path(frame_id):
        return ""
    # What has no path at all, and what would lose more of it when it is read.
    return f"./{path}" if path.startswith("./") else path or "#"


def _fingerprints(groups: Iterable[tuple[str, str, list[str]]]) -> bytes:
    prints: set[int] = set()
    for provider, reason, texts in groups:
        documents = {source or frame_id for frame_id, source in zip(texts[::2], texts[1::2], strict=True)}
        names = {*texts[::2], *(_path(document).rpartition("/")[2] for document in documents)}
        names |= {f"{provider}\0{reason}", f"\0{reason}", f"{provider}\0", "\0"}
        prints.update(crc32(name.encode()) & 0xFFFFFF | (not reason) << 24 for name in names)
    return struct.pack(f"<{len(prints)}I", *prints)


def _path(source: str) -> str:
    return source.partition("#")[0].removeprefix("./").rstrip("/")
