"""Creates and upgrades a database's tables."""

import threading

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from durable_adk.sessions.sql.schema_version import SchemaVersion

HEAD = "0008"
"""The newest version in `migrations/versions`; versions increase."""

_LOCK = 0x61646B  # arbitrary, but equal in all processes

_TURN = threading.Lock()
"""Serializes migrations within the process, because Alembic keeps its context in globals."""


def schema(connection: Connection) -> SchemaVersion:
    """Read the version of the database's tables."""
    options = {"version_table": "durable_adk_version"}
    found = MigrationContext.configure(connection, opts=options).get_current_revision()
    return SchemaVersion(found, HEAD)


def migrate(connection: Connection) -> None:
    """Create or upgrade the tables, in the connection's transaction.

    Concurrent processes are serialized by SQLite's write lock or a PostgreSQL advisory lock, held
    until the commit; the later one finds nothing left to do.

    Raises:
        InvalidRequestError: The database was written by a newer version of this package.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    schema(connection).require_known()
    config = Config()
    config.set_main_option("script_location", "durable_adk.sessions.sql:migrations")
    config.attributes["connection"] = connection
    with _TURN:
        command.upgrade(config, HEAD)
