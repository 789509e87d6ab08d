"""Tombstones and creation epochs of sessions, reserved events, and progress of the queues."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table and add the columns; workers of the previous version do not set them."""
    op.create_table(
        "tombstones",
        sa.Column("app_name", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("delete_time", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    for name in ("created_epoch", "retried"):
        column = sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        op.add_column("sessions", column)
    op.add_column("tickets", sa.Column("since", sa.Double))
    op.add_column("tickets", sa.Column("ahead", sa.BigInteger))
    # Give withdrawals a time, so that they expire; the previous version stored none and kept them.
    since = sa.text("UPDATE notes SET body = :now WHERE kind = 'withdrawn' AND body = 'true'")
    op.execute(since.bindparams(now=str(int(time.time()))))
