"""Compositions, their lanes, and what became of every frame."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _of_composition(name: str, *others: sa.schema.SchemaItem) -> None:
    op.create_table(
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
    )


def upgrade() -> None:
    """Makes the first tables."""
    op.create_table(
        "compositions",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("composition_id", sa.Text, primary_key=True),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
    )
    op.create_index("compositions_by_time", "compositions", ["tenant", "made_at", "composition_id"])
    op.create_index("compositions_by_age", "compositions", ["made_at"])
    _of_composition(
        "parts",
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    _of_composition(
        "lanes",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("end", sa.Text, nullable=False),
        sa.Column("violation", sa.Text, nullable=False),
        sa.Column("offered", sa.Integer, nullable=False),
        sa.Column("admitted", sa.Integer, nullable=False),
        sa.Column("placed", sa.Integer, nullable=False),
        sa.Column("tokens_placed", sa.BigInteger, nullable=False),
    )
    op.create_index("lanes_by_provider", "lanes", ["tenant", "provider", "made_at"])
    _of_composition(
        "frames",
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("frame_id", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("frames_by_id", "frames", ["tenant", "frame_id", "provider"])
