"""What only the PostgreSQL store has to care for."""

import asyncio
import gc
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import make_url, text

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions import _postgres

CALLERS = 5


class Database:
    """Counts migrations, and how many are under way at once; the first one's connection breaks."""

    def __init__(self) -> None:
        self.begun = self.active = self.most = 0

    @asynccontextmanager
    async def begin(self) -> Any:
        yield SimpleNamespace(run_sync=self._migrate)

    async def _migrate(self, work: object) -> None:
        self.begun += 1
        self.active += 1
        self.most = max(self.most, self.active)
        first = self.begun == 1
        await asyncio.sleep(0.02)
        self.active -= 1
        if first:
            raise ConnectionResetError("in the middle of it")


async def test_of_calls_at_once_one_migrates(monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: Alembic's turn is a lock of threads; a second migration in the loop would stop it."""
    database = Database()
    running = _postgres._Running(asyncio.get_running_loop(), None, None, database)
    store = _postgres.PostgresStore(make_url("postgresql+asyncpg://nowhere/none"))
    monkeypatch.setattr(store, "_running", running)
    calls = [store.prepare() for _ in range(CALLERS)]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in ended] == [StoreUnavailableError] + [type(None)] * (CALLERS - 1)
    assert (database.begun, database.most) == (2, 1)


async def test_nothing_is_under_way_any_more_when_it_is_closed(postgres_url: str) -> None:
    """I24: a transaction that its caller has left ends first, and so its connection is closed."""
    store = _postgres.PostgresStore(make_url(postgres_url).set(drivername="postgresql+asyncpg"))
    await store.prepare()
    loop = store._start().loop
    calls = [asyncio.create_task(store.write(_slowly)) for _ in range(3)]
    await asyncio.sleep(0.2)
    for call in calls:
        call.cancel()
    await store.close()
    assert not asyncio.all_tasks(loop)
    del store, loop, calls
    gc.collect()  # a connection that is left open warns


def _slowly(tables: Any) -> None:
    tables._connection.execute(text("select pg_sleep(0.6)"))
