"""Initial state of sessions, for a rewind to before the first message."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; what older sessions were created with is not known any more."""
    op.add_column("state", sa.Column("initial", sa.Text))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("state", "initial")
