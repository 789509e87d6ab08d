"""Tables of the SQL session store.

JSON is stored as text, exactly as it was written: a binary JSON type would reorder keys and reject
some strings, and no query inspects it. Times are seconds since the epoch.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Double,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()


def _session_key() -> list[Column[str]]:
    return [
        Column("app_name", Text, primary_key=True),
        Column("user_id", Text, primary_key=True),
        Column("session_id", Text, primary_key=True),
    ]


SESSIONS = Table(
    "sessions",
    METADATA,
    *_session_key(),
    Column("revision", BigInteger, nullable=False),
    Column("create_time", Double, nullable=False),
    Column("update_time", Double, nullable=False),
    Column("lease_invocation_id", Text),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("lease_ttl", Double),
    Column("lease_expires_at", Double),
    Column("waiting", BigInteger, nullable=False),
    Column("created_epoch", BigInteger, nullable=False),
    Column("retried", BigInteger, nullable=False),
    Column("cancellations", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("awaiting_message", Text),
    # For pages of an app's or a user's listing.
    Index("sessions_of_app", "app_name", "update_time", "user_id", "session_id"),
    Index("sessions_of_user", "app_name", "user_id", "update_time", "session_id"),
    sqlite_with_rowid=False,
)
"""One row per session: a `Head`."""

TOMBSTONES = Table(
    "tombstones",
    METADATA,
    *_session_key(),
    Column("epoch", BigInteger, nullable=False),
    Column("delete_time", Double, nullable=False),
    sqlite_with_rowid=False,
)
"""One row per deleted session, until a session of the same name is created: the epoch with which
that session begins, so that the epochs of a name never decrease."""

EVENTS = Table(
    "events",
    METADATA,
    *_session_key(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Text, nullable=False),
    Column("invocation_id", Text, nullable=False),
    Column("timestamp", Double, nullable=False),
    Column("digest", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("app_name", "user_id", "session_id", "event_id", name="events_event_id"),
    sqlite_with_rowid=False,
)
"""One row per event: an `Entry`."""

INVOCATIONS = Table(
    "invocations",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("lease_owner", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger),
    Column("error", Text),
    Column("pauses", BigInteger, nullable=False),
    Column("update_time", Double, nullable=False),
    Index("invocations_newest", "app_name", "status", "update_time"),
    Index("invocations_of_app", "app_name", "update_time"),
    Index("invocations_of_user", "app_name", "user_id", "update_time"),
    Index("invocations_by_id", "invocation_id"),
    sqlite_with_rowid=False,
)
"""One row per invocation: an `InvocationRecord`."""

STATE = Table(
    "state",
    METADATA,
    *_session_key(),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("initial", Text),
    sqlite_with_rowid=False,
)
"""One row per state key, prefix included. User keys have session_id '', app keys also user_id ''.
A commit writes only the keys it touches, so writers of different keys do not conflict. A session's
own key also has its `initial` value, if the session was created with one."""

NOTES = Table(
    "notes",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    # Order by code point everywhere; a PostgreSQL database has its own default collation.
    Column("name", Text().with_variant(Text(collation="C"), "postgresql"), primary_key=True),
    Column("body", Text, nullable=False),
)
"""One row per note. Unlike other tables it keeps its rowid: a body of megabytes does not belong in
the key's index."""

TICKETS = Table(
    "tickets",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("lease_owner", Text, nullable=False),
    Column("ttl", Double),
    Column("expires_at", Double),
    Column("message", Text),
    Column("since", Double),
    Column("ahead", BigInteger),
    Index("tickets_by_id", "invocation_id"),
)
"""One row per invocation that is queued for its session's lease: a `Ticket`, and the user's event
if it may be delivered as steering. Because of its size, the event is not read with the other
columns, and the table keeps its rowid."""

POSTGRES_METADATA = MetaData()
"""Tables that exist only in PostgreSQL; with SQLite, their data is in other files."""

MEMORIES = Table(
    "memories",
    POSTGRES_METADATA,
    Column("number", BigInteger, Identity(), primary_key=True),
    Column("app_name", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("entry_id", Text, nullable=False),
    Column("said_at", Text, nullable=False),
    Column("entry", Text, nullable=False),
    Column("words", ARRAY(Text), nullable=False),
    UniqueConstraint("app_name", "user_id", "session_id", "entry_id", name="memories_entry"),
    # No pending list of entries to be indexed, which every search would have to scan.
    Index(
        "memories_words",
        "words",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    ),
)
"""One row per memory, with the distinct words by which a search finds it."""

CREDENTIALS = Table(
    "credentials",
    POSTGRES_METADATA,
    Column("owner", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("key_id", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),
)
"""One row per credential, encrypted; owner and name are hashes."""
