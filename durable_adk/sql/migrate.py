"""Creates and upgrades a database's tables, and knows their version."""

import shlex
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Text, column, inspect, select, table, text

from durable_adk.errors import InvalidRequestError, SchemaOutdatedError

HEAD = "0001"
"""The newest version in `migrations/versions`; versions increase."""

SCRIPTS = "durable_adk.sql:migrations"
"""Where Alembic finds the migrations."""

_VERSIONS = table("durable_adk_version", column("version_num", Text))
"""Alembic's table."""

_LOCK = 0x61646B  # arbitrary, but equal in all processes

_TURN = threading.Lock()
"""Serializes migrations within the process, because Alembic keeps its context in globals."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The tables' version and the version that this package needs; versions increase."""

    found: str | None
    """The found version; None if there are no tables."""
    needed: str

    @property
    def empty(self) -> bool:
        """Whether the database has none of our tables."""
        return self.found is None

    @property
    def current(self) -> bool:
        """Whether the tables have the needed version."""
        return self.found == self.needed

    @property
    def newer(self) -> bool:
        """Whether the tables have a later version than this package knows."""
        return self.found is not None and self.found > self.needed

    def require_known(self) -> None:
        """Reject tables of a later version.

        Raises:
            InvalidRequestError: The tables have such a version.
        """
        if self.newer:
            raise InvalidRequestError(
                f"The database's tables are of version {self.found}, and this package knows those "
                f"up to {self.needed}; install the package that made them, or a newer one."
            )

    def require_current(self, store: str) -> None:
        """Reject tables of any other version.

        Args:
            store: The database's URL for the message, without secrets.

        Raises:
            SchemaOutdatedError: The tables have an older version, and can be upgraded.
            InvalidRequestError: See `require_known`.
        """
        self.require_known()
        if not self.current:
            raise SchemaOutdatedError(
                f"The database's tables are of version {self.found}, and this package needs "
                f"{self.needed}. Run: durable-adk db upgrade --store {shlex.quote(store)}"
            )


def schema(connection: Connection) -> SchemaVersion:
    """Read the version of the database's tables."""
    if not inspect(connection).has_table(_VERSIONS.name):
        return SchemaVersion(None, HEAD)
    return SchemaVersion(connection.scalar(select(_VERSIONS.c.version_num)), HEAD)


def load() -> None:
    """Import Alembic, which takes a while: call this before a lock is taken for `migrate`."""
    _alembic()


def _alembic() -> tuple[Any, Any]:
    """Return Alembic's commands and a new configuration.

    Imported when needed: only an upgrade uses it, and it takes a tenth of a worker's start.
    """
    return import_module("alembic.command"), import_module("alembic.config").Config()


def migrate(connection: Connection) -> None:
    """Create or upgrade the tables, in the connection's transaction.

    Concurrent processes are serialized by SQLite's write lock or a PostgreSQL advisory lock, held
    until the commit; the later one finds nothing left to do.

    Raises:
        InvalidRequestError: A newer release wrote the database.
    """
    load()
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    schema(connection).require_known()
    command, config = _alembic()
    config.set_main_option("script_location", SCRIPTS)
    config.attributes["connection"] = connection
    with _TURN:
        command.upgrade(config, HEAD)
