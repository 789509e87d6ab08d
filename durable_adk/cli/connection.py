"""The session store of a command."""

import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from durable_adk.cli.commands.options import ConnectionOptions
from durable_adk.errors import InvalidRequestError, SchemaOutdatedError, StoreUnavailableError
from durable_adk.sessions.database_session_service import (
    DatabaseSessionService,
    SqliteSessionService,
)
from durable_adk.settings import Settings, read_settings
from durable_adk.sql.database_url import shown

TARGETS = "targets.json"
"""File in the data folder; see `CliConnection.targets`."""


@dataclass(frozen=True, kw_only=True)
class CliConnection(ConnectionOptions):
    """The connection that options select; the environment replaces options that are None."""

    settings: Settings = field(default_factory=partial(read_settings, Settings))

    @property
    def data_folder(self) -> Path:
        """The path of the data folder, which may not exist."""
        return (self.data_dir or self.settings.data_dir).expanduser().absolute()

    @property
    def store_url(self) -> str:
        """A database URL, or the path of a SQLite file."""
        return self.store or self.settings.store or str(self.data_folder / "sessions.db")

    @property
    def targets(self) -> dict[str, str]:
        """Targets of the apps that ran on the embedded server, by app name."""
        try:
            targets: dict[str, str] = json.loads((self.data_folder / TARGETS).read_text())
        except (OSError, ValueError):  # not created yet
            return {}
        return targets

    @property
    def databases(self) -> list[str]:
        """`store_url`, then other databases in the settings; all have the same tables."""
        named = (self.settings.memory, self.settings.credentials)
        return list(
            dict.fromkeys([self.store_url, *(one for one in named if one and "://" in one)])
        )

    @property
    def arguments(self) -> list[str]:
        """The options that connect another command to the same store."""
        store = self.store and without_password(self.store_url)
        named = {"--store": store, "--data-dir": self.data_dir}
        return [text for name, value in named.items() if value for text in (name, str(value))]

    @asynccontextmanager
    async def sessions(self, *, existing: bool = False) -> AsyncGenerator[DatabaseSessionService]:
        """Open the session store, with its tables.

        Args:
            existing: Whether to refuse to create a store.

        Raises:
            InvalidRequestError: There is no store, or it cannot be used.
            StoreUnavailableError: The store cannot be opened.
        """
        if existing:
            _check_exists(self.store_url)
        async with self.database(self.store_url) as sessions:
            try:
                await sessions.prepare()
            except SchemaOutdatedError:
                raise  # the error names the store, and the command that upgrades it
            except (StoreUnavailableError, SQLAlchemyError, sqlite3.Error, OSError) as error:
                raise StoreUnavailableError(
                    f"The session store {_where(self.store_url)} cannot be opened: {_reason(error)}"
                ) from error
            yield sessions

    @asynccontextmanager
    async def database(self, url: str) -> AsyncGenerator[DatabaseSessionService]:
        """Open one of `databases`, without checking its tables.

        Raises:
            InvalidRequestError: The database is not supported.
        """
        remote = "://" in url
        sessions = DatabaseSessionService(url) if remote else SqliteSessionService(_path(url))
        try:
            yield sessions
        finally:
            await sessions.close()


def _where(url: str) -> str:
    return without_password(url) if "://" in url else str(_path(url))


def _reason(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, StoreUnavailableError) else None
    return str(cause or getattr(error, "orig", None) or error)


def _path(url: str) -> Path:
    return Path(url).expanduser().absolute()


def _check_exists(url: str) -> None:
    """Raise InvalidRequestError for a SQLite file that does not exist."""
    path = _path(url)
    if "://" in url or path.is_file():
        return
    if path.is_dir():
        raise InvalidRequestError(f"{path} is a folder; name the store's file with --store.")
    raise InvalidRequestError(
        f"There is no session store at {path}; run this command in the folder that the agent was "
        "run in, or name the store with --store or --data-dir."
    )


def without_password(url: str) -> str:
    """Return a database URL or a path for display, without its password."""
    return shown(url) if "://" in url else url
