"""Telling a database that does not answer from a mistake."""

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
"""PostgreSQL's classes of what passes: connection, a server that is not the primary one or has run
out of patience, rollback, resources, locks, operator. So does a password that is refused, or a
database that is missing, to a process that has been in it before: somebody is changing the one, or
putting the other back."""

_REMEDIES = {
    "28": "Check the user and the password in the URL, and that the server lets them in from here.",
    "3D": "Make the database first (`createdb NAME`), or correct the name in the URL.",
    "42501": "Let a user that may make tables run `durable-adk db upgrade` once.",
}
"""What to do about what a process is told at its start."""

_BROKEN = ("InterfaceError", "InternalClientError")
"""asyncpg's errors without such a state; what is set up wrongly is of other, derived classes."""


@contextmanager
def translated() -> Generator[None]:
    """Raise a database's silence as StoreUnavailableError; other errors pass."""
    try:
        yield
    except DBAPIError as error:
        if not _passes(error):
            raise
        # Without the statement and its values: they are the user's, and errors travel far.
        raise unavailable(error.orig) from error
    except (sqlite3.OperationalError, PoolTimeout, OSError) as error:
        raise unavailable(error) from error
    except Exception as error:
        if not _breaks_off(error):
            raise
        raise unavailable(error) from error


@contextmanager
def misconfigured(store: str) -> Generator[None]:
    """Raise what will be refused again and again as InvalidRequestError; other errors pass.

    Args:
        store: The database's URL, to be shown.
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


def unavailable(cause: object) -> StoreUnavailableError:
    """The error for a store that does not answer."""
    return StoreUnavailableError(f"The session store does not answer: {cause}")


def _state_of(error: Exception) -> str:
    """PostgreSQL's code of what has happened; "": there is none."""
    said = getattr(error, "orig", None) or error
    return str(getattr(said, "sqlstate", None) or "")


def _passes(error: DBAPIError) -> bool:
    state = _state_of(error)
    return (
        isinstance(error, (OperationalError, InterfaceError))
        or error.connection_invalidated
        or state.startswith(_SQLSTATES)
        # The driver's own confusion, of a connection that breaks in the middle of a message.
        or (isinstance(error, InternalError) and not state)
    )


def _breaks_off(error: Exception) -> bool:
    """Whether it is what asyncpg itself raises of a connection that breaks, or is refused for now.

    SQLAlchemy translates none of it while it sets a new connection up. asyncpg need not be
    installed, so its classes are known by their names.
    """
    if not type(error).__module__.startswith("asyncpg."):
        return False
    return _state_of(error).startswith(_SQLSTATES) or type(error).__name__ in _BROKEN
