"""Distinguishes an unavailable database from permanent errors."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
    TimeoutError as PoolTimeout,
)

from durable_adk.errors import InvalidRequestError, StoreUnavailableError

_SQLSTATES = ("08", "25006", "25P03", "28", "3D", "40", "53", "55", "57")
"""PostgreSQL's codes and classes of transient errors: connection, a server that is not the primary,
idle timeout, rollback, resources, locks, operator intervention. A rejected password (28) and a
missing database (3D) are transient for a process that was connected before: the password is being
changed, or the database is being restored."""

_REMEDIES = {
    "28": "Check the user and the password in the URL, and that the server lets them in from here.",
    "3D": "Make the database first (`createdb NAME`), or correct the name in the URL.",
    "42501": "Let a user that may make tables run `durable-adk db upgrade` once.",
}
"""Remedies for errors at the start of a process, by code or class."""

_BROKEN = ("InterfaceError", "InternalClientError")
"""asyncpg's transient errors without a code; configuration errors have other, derived classes."""


@contextmanager
def translated(store: str = "session store") -> Generator[None]:
    """Raise errors that retries or an operator can end as StoreUnavailableError; others pass.

    Args:
        store: The store's name in the message.
    """
    try:
        yield
    except DBAPIError as error:
        if not _passes(error):
            raise
        # Omit the statement and its values: they are user data, and errors may be shown anywhere.
        raise unavailable(error.orig, store) from error
    except (sqlite3.OperationalError, PoolTimeout, OSError) as error:
        raise unavailable(error, store) from error
    except Exception as error:
        if not _breaks_off(error) and not _is_damaged(error):
            raise
        raise unavailable(error, store) from error


@contextmanager
def misconfigured(store: str) -> Generator[None]:
    """Raise configuration errors, which no retry can fix, as InvalidRequestError.

    Other errors pass.

    Args:
        store: The database's URL for the message, without secrets.
    """
    try:
        yield
    except Exception as error:
        state = _state_of(error)
        remedy = next((text for code, text in _REMEDIES.items() if state.startswith(code)), None)
        if remedy is None:
            raise
        said = getattr(error, "orig", None) or error
        raise InvalidRequestError(f"{store}: {said}. {remedy}") from error


def unavailable(cause: object, store: str = "session store") -> StoreUnavailableError:
    """Build the error for a store that does not respond."""
    return StoreUnavailableError(f"The {store} does not answer: {cause}")


def _state_of(error: Exception) -> str:
    """Return PostgreSQL's error code (SQLSTATE); "" if there is none."""
    said = getattr(error, "orig", None) or error
    return str(getattr(said, "sqlstate", None) or "")


def _passes(error: DBAPIError) -> bool:
    state = _state_of(error)
    return (
        isinstance(error, (OperationalError, InterfaceError))
        or error.connection_invalidated
        or state.startswith(_SQLSTATES)
        # The driver's internal error when a connection breaks in the middle of a message.
        or (isinstance(error, InternalError) and not state)
        or _is_damaged(error.orig)
    )


def _is_damaged(error: object) -> bool:
    """Return whether SQLite reports that the file is damaged, or not a database at all.

    Such an error is of the class itself; all others are of derived classes.
    """
    return type(error) is sqlite3.DatabaseError


def _breaks_off(error: Exception) -> bool:
    """Return whether asyncpg raised the error for a broken or temporarily refused connection.

    SQLAlchemy does not translate these errors while it opens a connection. asyncpg is an optional
    dependency, so its classes are recognized by name.
    """
    if not type(error).__module__.startswith("asyncpg."):
        return False
    return _state_of(error).startswith(_SQLSTATES) or type(error).__name__ in _BROKEN
