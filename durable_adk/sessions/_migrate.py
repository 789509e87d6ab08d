"""Bringing a database's tables to the version this code expects."""

import threading

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection, text

from durable_adk.errors import InvalidRequestError

HEAD = "0004"
"""The newest version in `migrations/versions`."""

_LOCK = 0x61646B  # any number that all processes agree on

_TURN = threading.Lock()
"""Alembic keeps its context in globals, so two stores of one process must not migrate at once."""


def is_current(connection: Connection) -> bool:
    """Whether nothing needs to be done."""
    options = {"version_table": "durable_adk_version"}
    return MigrationContext.configure(connection, opts=options).get_current_revision() == HEAD


def migrate(connection: Connection) -> None:
    """Create or upgrade the tables, in the connection's transaction.

    Processes that do it at the same time take turns: SQLite's writing transaction or PostgreSQL's
    advisory lock is held until the commit, and the later one then finds nothing left to do.

    Raises:
        InvalidRequestError: The database was written by a newer version of this package.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = Config()
    config.set_main_option("script_location", "durable_adk.sessions:migrations")
    config.attributes["connection"] = connection
    try:
        with _TURN:
            command.upgrade(config, HEAD)
    except CommandError as error:
        raise InvalidRequestError(
            f"The session database is of a version that this package does not know: {error}"
        ) from error
