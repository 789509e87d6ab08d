"""Notes of invocations, and the queue of invocations for a session."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def _session_key() -> list[sa.Column[str]]:
    return [
        sa.Column("app_name", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
    ]


def upgrade() -> None:
    """Create the two tables, and add the column that counts a session's tickets."""
    by_code_point = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "notes",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", by_code_point, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "tickets",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("ttl", sa.Double),
        sa.Column("expires_at", sa.Double),
        sa.Column("message", sa.Text),
    )
    waiting = sa.Column("waiting", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("sessions", waiting)


def downgrade() -> None:
    """Drop the column and the tables with their data."""
    op.drop_column("sessions", "waiting")
    op.drop_table("tickets")
    op.drop_table("notes")
