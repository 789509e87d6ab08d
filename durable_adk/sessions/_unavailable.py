"""Telling a database that does not answer from a mistake."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, TimeoutError as PoolTimeout

from durable_adk.errors import StoreUnavailableError

_SQLSTATES = ("08", "40", "53", "55", "57")
"""PostgreSQL's classes of what passes: connection, rollback, resources, locks, operator."""


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


def unavailable(cause: object) -> StoreUnavailableError:
    """The error for a store that does not answer."""
    return StoreUnavailableError(f"The session store does not answer: {cause}")


def _passes(error: DBAPIError) -> bool:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return (
        isinstance(error, (OperationalError, InterfaceError))
        or error.connection_invalidated
        or state.startswith(_SQLSTATES)
    )
