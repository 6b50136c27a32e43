"""The tables, as the newest migration leaves them; a test holds the two against each other."""

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
    Column("head", LargeBinary, nullable=False),
    Index("compositions_by_time", "tenant", "made_at", "composition_id"),
    # Retention reads over all tenants.
    Index("compositions_by_age", "made_at"),
)


def _of_composition(*others: Column[int] | Column[str] | Column[bool] | Column[bytes] | Index, name: str) -> Table:
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
    )


PARTS = _of_composition(
    Column("place", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    name="parts",
)

LANES = _of_composition(
    Column("provider", Text, primary_key=True),
    Column("made_at", BigInteger, nullable=False),
    Column("end", Text, nullable=False),
    Column("violation", Text, nullable=False),
    Column("offered", Integer, nullable=False),
    Column("admitted", Integer, nullable=False),
    Column("placed", Integer, nullable=False),
    Column("tokens_placed", BigInteger, nullable=False),
    Index("lanes_by_provider", "tenant", "provider", "made_at"),
    name="lanes",
)

FRAMES = _of_composition(
    Column("place", Integer, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("frame_id", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("source", Text, nullable=False, server_default=""),
    Column("document", Text, nullable=False, server_default=""),
    Index("frames_by_id", "tenant", "frame_id", "provider"),
    Index("frames_by_document", "tenant", "document", "composition_id"),
    name="frames",
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
