"""Sessions with their events, invocations, state, notes and queue; memories and credentials."""

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
    """Create the tables; with SQLite, memories and credentials are in other files."""
    _create_sessions()
    _create_invocations()
    _create_queue()
    if op.get_context().dialect.name == "postgresql":
        _create_memories_and_credentials()


def _create_sessions() -> None:
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
        sa.Column("waiting", sa.BigInteger, nullable=False),
        sa.Column("created_epoch", sa.BigInteger, nullable=False),
        sa.Column("retried", sa.BigInteger, nullable=False),
        sa.Column("cancellations", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("awaiting_message", sa.Text),
        sqlite_with_rowid=False,
    )
    of_app = ["app_name", "update_time", "user_id", "session_id"]
    of_user = ["app_name", "user_id", "update_time", "session_id"]
    op.create_index("sessions_of_app", "sessions", of_app)
    op.create_index("sessions_of_user", "sessions", of_user)
    _create_tombstones()
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
        "state",
        *_session_key(),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("initial", sa.Text),
        sqlite_with_rowid=False,
    )


def _create_tombstones() -> None:
    op.create_table(
        "tombstones",
        *_session_key(),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("delete_time", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )


def _create_invocations() -> None:
    op.create_table(
        "invocations",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", sa.Text, nullable=False),
        sa.Column("start_seq", sa.BigInteger, nullable=False),
        sa.Column("end_seq", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("pauses", sa.BigInteger, nullable=False),
        sa.Column("update_time", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("invocations_newest", "invocations", ["app_name", "status", "update_time"])
    op.create_index("invocations_of_app", "invocations", ["app_name", "update_time"])
    by_user = ["app_name", "user_id", "update_time"]
    op.create_index("invocations_of_user", "invocations", by_user)
    op.create_index("invocations_by_id", "invocations", ["invocation_id"])
    by_code_point = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "notes",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", by_code_point, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )


def _create_queue() -> None:
    op.create_table(
        "tickets",
        *_session_key(),
        sa.Column("invocation_id", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", sa.Text, nullable=False),
        sa.Column("ttl", sa.Double),
        sa.Column("expires_at", sa.Double),
        sa.Column("message", sa.Text),
        sa.Column("since", sa.Double),
        sa.Column("ahead", sa.BigInteger),
    )
    op.create_index("tickets_by_id", "tickets", ["invocation_id"])


def _create_memories_and_credentials() -> None:
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
    op.create_table(
        "credentials",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
