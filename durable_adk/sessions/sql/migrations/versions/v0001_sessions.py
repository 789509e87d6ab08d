"""Sessions with their events, invocations and state."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _session_key() -> list[sa.Column[str]]:
    return [
        sa.Column("app_name", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
    ]


def upgrade() -> None:
    """Create the four tables."""
    op.create_table(
        "sessions",
        *_session_key(),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("create_time", sa.Double, nullable=False),
        sa.Column("update_time", sa.Double, nullable=False),
        sa.Column("lease_invocation_id", sa.Text),
        sa.Column("lease_epoch", sa.BigInteger, nullable=False),
        sa.Column("lease_ttl", sa.Double),
        sa.Column("lease_expires_at", sa.Double),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        *_session_key(),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("invocation_id", sa.Text, nullable=False),
        sa.Column("timestamp", sa.Double, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint(
            "app_name", "user_id", "session_id", "event_id", name="events_event_id"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "invocations",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("start_seq", sa.BigInteger, nullable=False),
        sa.Column("end_seq", sa.BigInteger),
        sa.Column("error", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "state",
        *_session_key(),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the tables with their data."""
    for table in ("state", "invocations", "events", "sessions"):
        op.drop_table(table)
