"""Runs the store's statements on a connection: bare on SQLite, by SQLAlchemy on PostgreSQL."""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Executable
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

Values = Mapping[str, Any]
"""Values of a statement's parameters by name."""

DIALECT = SQLiteDialect_pysqlite(paramstyle="named")
"""SQLite's."""

T = TypeVar("T")


class TableConnection(Protocol):
    """A connection within a transaction."""

    dialect: str
    """The database's name, as SQLAlchemy spells it."""

    def rows(self, statement: Executable, values: Values) -> Iterator[Any]:
        """Yield the rows of a query: tuples with an attribute for each column, and `_asdict`.

        The caller must read or drop the iterator before the transaction ends.
        """
        ...

    def change(self, statement: Executable, values: Values | Sequence[Values]) -> int:
        """Run a statement, or one for each of several rows; return the number of changed rows."""
        ...


class AlchemyConnection:
    """A connection of SQLAlchemy's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect.name

    def rows(self, statement: Executable, values: Values) -> Iterator[Any]:
        """See `TableConnection`."""
        return iter(self._connection.execute(statement, values))

    def change(self, statement: Executable, values: Values | Sequence[Values]) -> int:
        """See `TableConnection`."""
        return self._connection.execute(statement, values).rowcount


class SqliteConnection:
    """A connection of the driver's, which takes a fifth of the calls of one of SQLAlchemy's.

    SQLAlchemy only compiles the statements, once for each object: most are built at import.
    """

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cursors = list[sqlite3.Cursor]()

    def rows(self, statement: Executable, values: Values) -> Iterator[Any]:
        """See `TableConnection`."""
        text, fixed = _compiled(statement, tuple(values) if statement.is_dml else ())
        found = self._connection.execute(text, {**fixed, **values})
        self._cursors.append(found)
        return map(_row_type(tuple(column[0] for column in found.description)), found)

    @property
    def in_transaction(self) -> bool:
        """Whether there is a transaction; SQLite may have undone it, as on a full disk."""
        return self._connection.in_transaction

    @contextmanager
    def savepoint(self) -> Generator["SqliteConnection"]:
        """Run the block within the transaction; what it raises undoes only its own changes."""
        self._connection.execute("SAVEPOINT own")
        try:
            with closing(SqliteConnection(self._connection)) as within:
                yield within
        except Exception:
            if self.in_transaction:
                self._connection.execute("ROLLBACK TO own")
                self._connection.execute("RELEASE own")
            raise
        self._connection.execute("RELEASE own")

    def close(self) -> None:
        """End all queries: an open one would keep the connection's view of the database."""
        for cursor in self._cursors:
            cursor.close()

    def change(self, statement: Executable, values: Values | Sequence[Values]) -> int:
        """See `TableConnection`."""
        rows = (values,) if isinstance(values, Mapping) else values
        text, fixed = _compiled(statement, tuple(rows[0]))
        return self._connection.executemany(text, [{**fixed, **row} for row in rows]).rowcount


def in_transaction(
    connection: sqlite3.Connection, work: Callable[[SqliteConnection], T], begin: str = "BEGIN"
) -> T:
    """Run `work` in a transaction, which is rolled back if it or the commit raises.

    Args:
        connection: A connection without an isolation level, so that the driver begins none.
        work: The function to run.
        begin: ``BEGIN``, or ``BEGIN IMMEDIATE`` to take the write lock first: a transaction that
            reads first and then finds the lock taken can only fail.
    """
    try:
        connection.execute(begin)
        with closing(SqliteConnection(connection)) as within:
            result = work(within)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


_texts = WeakKeyDictionary[Executable, dict[tuple[str, ...], tuple[str, Values]]]()
"""What was compiled, by statement: those that were built for one call take it with them."""


def _compiled(statement: Executable, names: tuple[str, ...]) -> tuple[str, Values]:
    """Return a statement's text, and the values that it was built with.

    Args:
        statement: The statement; equal ones that are other objects are compiled again.
        names: For a change, the names of its values, among them those of the columns to set.
    """
    known = _texts.get(statement)
    if known is None:
        known = _texts.setdefault(statement, {})
    found = known.get(names)
    if found is None:
        found = known[names] = _compile(cast("ClauseElement", statement), names)
    return found


def _compile(statement: ClauseElement, names: tuple[str, ...]) -> tuple[str, Values]:
    options: dict[str, Any] = {"dialect": DIALECT, "column_keys": names or None}
    compiled = statement.compile(**options)
    if "[POSTCOMPILE" in str(compiled):  # IN: a parameter for each value
        options["compile_kwargs"] = {"render_postcompile": True}
        compiled = statement.compile(**options)
    return str(compiled), cast("SQLCompiler", compiled).params


@cache
def _row_type(columns: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    return namedtuple("Row", columns, rename=True)._make  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]: columns vary
