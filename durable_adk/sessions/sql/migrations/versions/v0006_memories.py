"""Memories in PostgreSQL; with SQLite they are in a separate file."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    if op.get_context().dialect.name != "postgresql":
        return
    op.create_table(
        "memories",
        sa.Column("number", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("app_name", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("entry_id", sa.Text, nullable=False),
        sa.Column("said_at", sa.Text, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("words", sa.ARRAY(sa.Text), nullable=False),
        sa.UniqueConstraint("app_name", "user_id", "session_id", "entry_id", name="memories_entry"),
    )
    op.create_index(
        "memories_words",
        "memories",
        ["words"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )


def downgrade() -> None:
    """Drop the table with its data."""
    if op.get_context().dialect.name == "postgresql":
        op.drop_table("memories")
