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

from durable_adk.errors import StoreUnavailableError

_SQLSTATES = ("08", "40", "53", "55", "57")
"""PostgreSQL's classes of what passes: connection, rollback, resources, locks, operator."""

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


def unavailable(cause: object) -> StoreUnavailableError:
    """The error for a store that does not answer."""
    return StoreUnavailableError(f"The session store does not answer: {cause}")


def _passes(error: DBAPIError) -> bool:
    state = str(getattr(error.orig, "sqlstate", None) or "")
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
    state = str(getattr(error, "sqlstate", None) or "")
    return state.startswith(_SQLSTATES) or type(error).__name__ in _BROKEN
