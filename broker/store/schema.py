"""The tables, as the newest migration leaves them; a test holds the two against each other.

A composition is one row, which is what keeps it cheap: its parts and its frames are packed, and what frames are sought
by is one column of fingerprints (:mod:`broker.store.frames`). What is sought by stands before what is long: a search
then reads the beginning of each row alone.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from broker.store.values import Head

METADATA = MetaData()

COMPOSITIONS = Table(
    "compositions",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("composition_id", Text, primary_key=True),
    Column("request_id", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("fingerprints", LargeBinary, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("frames", LargeBinary, nullable=False),
    Column("parts", LargeBinary, nullable=False),
    Index("compositions_by_time", "tenant", "made_at", "composition_id"),
    # Retention reads over all tenants.
    Index("compositions_by_age", "made_at"),
)

HEAD = tuple(COMPOSITIONS.c[name] for name in Head.__struct_fields__)
"""The columns of a :class:`~broker.store.values.Head`, in its order."""


def _of_composition(*others: Column[int] | Column[str] | Column[bool], name: str) -> Table:
    return Table(
        name,
        METADATA,
        Column("tenant", Text, primary_key=True),
        Column("composition_id", Text, primary_key=True),
        *others,
        ForeignKeyConstraint(
            ["tenant", "composition_id"],
            ["compositions.tenant", "compositions.composition_id"],
            ondelete="CASCADE",
            name=f"{name}_of_composition",
        ),
        # Rows are short and found by their key: one tree instead of two.
        sqlite_with_rowid=False,
    )


LANES = _of_composition(
    Column("provider", Text, primary_key=True),
    Column("end", Text, nullable=False),
    Column("violation", Text, nullable=False),
    Column("offered", Integer, nullable=False),
    Column("admitted", Integer, nullable=False),
    Column("placed", Integer, nullable=False),
    Column("tokens_placed", BigInteger, nullable=False),
    name="lanes",
)

ATTRIBUTIONS = _of_composition(
    Column("provider", Text, primary_key=True),
    Column("frame_id", Text, primary_key=True),
    Column("selected", Boolean, nullable=False),
    Column("rendered", Boolean, nullable=False),
    Column("cited", Boolean, nullable=False),
    Column("reported_by", Text, nullable=False),
    Column("reported_at", BigInteger, nullable=False),
    name="attributions",
)
