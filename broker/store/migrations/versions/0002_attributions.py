"""What became of placed frames."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the table of observations."""
    op.create_table(
        "attributions",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("composition_id", sa.Text, primary_key=True),
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("frame_id", sa.Text, primary_key=True),
        sa.Column("selected", sa.Boolean, nullable=False),
        sa.Column("rendered", sa.Boolean, nullable=False),
        sa.Column("cited", sa.Boolean, nullable=False),
        sa.Column("reported_by", sa.Text, nullable=False),
        sa.Column("reported_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "composition_id"],
            ["compositions.tenant", "compositions.composition_id"],
            ondelete="CASCADE",
            name="attributions_of_composition",
        ),
    )
