"""Initial state of sessions, for a rewind to before the first message."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; the initial state of older sessions is unknown."""
    op.add_column("state", sa.Column("initial", sa.Text))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("state", "initial")
