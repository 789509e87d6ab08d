"""Paused invocations, and an index to find them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the two columns and the index; quick for any number of rows, as none is rewritten."""
    for column in (
        sa.Column("pauses", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("update_time", sa.Double, nullable=False, server_default="0"),
    ):
        op.add_column("invocations", column)
    op.create_index("invocations_newest", "invocations", ["app_name", "status", "update_time"])


def downgrade() -> None:
    """Drop the index and the columns."""
    op.drop_index("invocations_newest", "invocations")
    op.drop_column("invocations", "update_time")
    op.drop_column("invocations", "pauses")
