"""Bringing a database's tables to the version this code expects."""

import threading

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from durable_adk.sessions.sql.schema_version import SchemaVersion

HEAD = "0008"
"""The newest version in `migrations/versions`; they count up."""

_LOCK = 0x61646B  # any number that all processes agree on

_TURN = threading.Lock()
"""Alembic keeps its context in globals, so two stores of one process must not migrate at once."""


def schema(connection: Connection) -> SchemaVersion:
    """What is there."""
    options = {"version_table": "durable_adk_version"}
    found = MigrationContext.configure(connection, opts=options).get_current_revision()
    return SchemaVersion(found, HEAD)


def migrate(connection: Connection) -> None:
    """Create or upgrade the tables, in the connection's transaction.

    Processes that do it at the same time take turns: SQLite's writing transaction or PostgreSQL's
    advisory lock is held until the commit, and the later one then finds nothing left to do.

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
