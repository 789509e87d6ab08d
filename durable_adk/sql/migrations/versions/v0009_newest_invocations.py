"""Indexes for invocations by their ids, and for the newest of an app or of a user."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("invocations_by_id", "invocations", ["invocation_id"])
    op.create_index("tickets_by_id", "tickets", ["invocation_id"])
    op.create_index("invocations_of_app", "invocations", ["app_name", "update_time"])
    of_user = ["app_name", "user_id", "update_time"]
    op.create_index("invocations_of_user", "invocations", of_user)
