"""What only the PostgreSQL store has to care for."""

import asyncio

import pytest
from sqlalchemy import make_url

from durable_adk.errors import StoreUnavailableError
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.migrate import HEAD, SchemaVersion

CALLERS = 5


async def test_of_calls_at_once_one_migrates(monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: Alembic's turn is a lock of threads; a second migration in the loop would stop it."""
    database = PostgresDatabase(make_url("postgresql://nowhere/none"))
    begun: list[int] = []
    active: list[int] = []

    async def migrate() -> None:
        begun.append(len(active))
        active.append(1)
        for _ in range(10):  # another one that may begin does so now
            await asyncio.sleep(0)
        active.pop()
        if len(begun) == 1:
            raise ConnectionResetError("in the middle of it")

    async def nothing(_: object) -> SchemaVersion:
        return SchemaVersion(None, HEAD)

    monkeypatch.setattr(database, "_migrate", migrate)
    monkeypatch.setattr(database, "_schema", nothing)
    calls = [database.prepare() for _ in range(CALLERS)]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in ended] == [StoreUnavailableError] + [type(None)] * (CALLERS - 1)
    assert begun == [0, 0], "the second one only when the first has ended"
    await database.close()
