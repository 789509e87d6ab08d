"""The tables of the SQL session store.

JSON is kept as text, exactly as it was written: a binary JSON type would reorder keys and refuse
some strings (reliability 1j), and no query looks inside. Times are seconds since the epoch.
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
    # With defaults, because workers of the version before do not know these columns.
    Column("waiting", BigInteger, nullable=False, server_default="0"),
    Column("created_epoch", BigInteger, nullable=False, server_default="0"),
    Column("retried", BigInteger, nullable=False, server_default="0"),
    # For pages of listings: of an app, and of one of its users.
    Index("sessions_of_app", "app_name", "update_time", "user_id", "session_id"),
    Index("sessions_of_user", "app_name", "user_id", "update_time", "session_id"),
    sqlite_with_rowid=False,
)
"""One row a session: a `Head`."""

TOMBSTONES = Table(
    "tombstones",
    METADATA,
    *_session_key(),
    Column("epoch", BigInteger, nullable=False),
    Column("delete_time", Double, nullable=False),
    sqlite_with_rowid=False,
)
"""One row a session that was deleted, until one of its name is created: the last epoch of its
lease, so that the epochs of a name never go back."""

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
"""The log: an `Entry` a row."""

INVOCATIONS = Table(
    "invocations",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger),
    Column("error", Text),
    # With defaults, because workers of the version before do not know these columns.
    Column("pauses", BigInteger, nullable=False, server_default="0"),
    Column("update_time", Double, nullable=False, server_default="0"),
    Index("invocations_newest", "app_name", "status", "update_time"),
    sqlite_with_rowid=False,
)
"""One row an invocation: an `InvocationRecord`."""

STATE = Table(
    "state",
    METADATA,
    *_session_key(),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("initial", Text),
    sqlite_with_rowid=False,
)
"""One row a state key, prefix included. User keys have session_id '', app keys also user_id ''.
So a commit writes only the keys it touches, and writers of other keys never meet. A session's own
key has its `initial` value too, if the session was created with one."""

NOTES = Table(
    "notes",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    # Ordered by code point everywhere; a PostgreSQL database has an order of its own.
    Column("name", Text().with_variant(Text(collation="C"), "postgresql"), primary_key=True),
    Column("body", Text, nullable=False),
)
"""One row a note. Not stored in the key's index as the others are: a body may have megabytes."""

TICKETS = Table(
    "tickets",
    METADATA,
    *_session_key(),
    Column("invocation_id", Text, primary_key=True),
    Column("place", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("ttl", Double),
    Column("expires_at", Double),
    Column("message", Text),
    Column("since", Double),
    Column("ahead", BigInteger),
)
"""One row an invocation that waits for its session's lease: a `Ticket`, and the user's event if the
active invocation may hear it: not read with the others, nor stored in the key's index, for its
size."""

POSTGRES_METADATA = MetaData()
"""What is only in PostgreSQL: with SQLite other files have it."""

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
    # Without a list of what is not in the index yet, which every search would have to read.
    Index(
        "memories_words",
        "words",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    ),
)
"""One row a memory, with the different words that it is found by."""

CREDENTIALS = Table(
    "credentials",
    POSTGRES_METADATA,
    Column("owner", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("key_id", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),
)
"""One row a credential, encrypted; owner and name are hashes."""
