"""Indexes for paged listings of sessions."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the indexes; workers of the previous version need no change."""
    of_app = ["app_name", "update_time", "user_id", "session_id"]
    of_user = ["app_name", "user_id", "update_time", "session_id"]
    op.create_index("sessions_of_app", "sessions", of_app)
    op.create_index("sessions_of_user", "sessions", of_user)


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index("sessions_of_user", "sessions")
    op.drop_index("sessions_of_app", "sessions")
