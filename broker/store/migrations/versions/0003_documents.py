"""From which document a frame comes."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds where frames come from. Of those that were kept before, that is not known."""
    for name in ("source", "document"):
        op.add_column("frames", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.create_index("frames_by_document", "frames", ["tenant", "document", "composition_id"])
