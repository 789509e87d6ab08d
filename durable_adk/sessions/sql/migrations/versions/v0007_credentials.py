"""Credentials in PostgreSQL; with SQLite they are files."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    if op.get_context().dialect.name != "postgresql":
        return
    op.create_table(
        "credentials",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop the table with its data."""
    if op.get_context().dialect.name == "postgresql":
        op.drop_table("credentials")
