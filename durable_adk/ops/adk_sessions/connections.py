"""Connections to a SQLite or PostgreSQL database of google-adk."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, Executable, RowMapping, create_engine
from sqlalchemy.exc import SQLAlchemyError

from durable_adk.errors import StoreUnavailableError
from durable_adk.sql.database import make_engine
from durable_adk.sql.database_url import file_of, shown

T = TypeVar("T")
Row = dict[str, Any]
"""A database row by column names."""


def as_rows(found: Iterable[RowMapping]) -> list[Row]:
    """Convert the rows of a SQLAlchemy result."""
    return [{str(name): value for name, value in one.items()} for one in found]


_FETCHED = 20
"""Rows per round trip."""
_SETTINGS = {"application_name": "durable-adk sessions"}


class Connections(Protocol):
    """Runs SQLAlchemy's synchronous code in transactions."""

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction, which is rolled back if it raises."""
        ...

    def stream(self, query: Executable) -> AsyncGenerator[list[Row]]:
        """Yield the rows of a query in batches, on one connection."""
        ...


@contextmanager
def _explained(url: URL) -> Generator[None]:
    """Convert errors of the database or its driver to StoreUnavailableError, with the URL."""
    try:
        yield
    except Exception as error:
        kinds = (SQLAlchemyError, sqlite3.Error, OSError)
        if not isinstance(error, kinds) and not type(error).__module__.startswith("asyncpg."):
            raise
        cause = getattr(error, "orig", None) or error
        raise StoreUnavailableError(f"The database {shown(url)} cannot be used: {cause}") from error


class _SqliteFile:
    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = create_engine(URL.create("sqlite", database=url.database))

    async def run(self, work: Callable[[Connection], T]) -> T:
        def transaction() -> T:
            with self._engine.begin() as connection:
                return work(connection)

        with _explained(self._url):
            return await asyncio.to_thread(transaction)

    async def stream(self, query: Executable) -> AsyncGenerator[list[Row]]:
        with _explained(self._url), self._engine.connect() as connection:
            found = (await asyncio.to_thread(connection.execute, query)).mappings()
            while rows := await asyncio.to_thread(found.fetchmany, _FETCHED):
                yield as_rows(rows)

    async def close(self) -> None:
        self._engine.dispose()


class _PostgresServer:
    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = make_engine(url, _SETTINGS, patient=True, pool_pre_ping=True)

    async def run(self, work: Callable[[Connection], T]) -> T:
        with _explained(self._url):
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)

    async def stream(self, query: Executable) -> AsyncGenerator[list[Row]]:
        with _explained(self._url):
            async with self._engine.connect() as connection, connection.stream(query) as found:
                while rows := await found.mappings().fetchmany(_FETCHED):
                    yield as_rows(rows)

    async def close(self) -> None:
        await self._engine.dispose()


@asynccontextmanager
async def connected(url: URL) -> AsyncGenerator[Connections]:
    """Connect to a database; the first statement creates a missing SQLite file.

    Using the connections raises StoreUnavailableError if the database fails.

    Raises:
        InvalidRequestError: PostgreSQL's driver is not installed.
    """
    made = _PostgresServer(url) if file_of(url) is None else _SqliteFile(url)
    try:
        yield made
    finally:
        await made.close()
