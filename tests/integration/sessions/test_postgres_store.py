"""What only the PostgreSQL store has to care for."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import make_url, text

from durable_adk.errors import LeaseLostError, StoreUnavailableError
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sessions.sql._tables import SqlTables
from durable_adk.sessions.sql.postgres import PostgresStore
from tests.support.postgres import Databases
from tests.unit.sessions.contract import event, log, opened

SHARED = [f"app:{n}" for n in range(20)] + [f"user:{n}" for n in range(20)]


@pytest.fixture
async def service(postgres_url: str) -> AsyncIterator[DatabaseSessionService]:
    """A store in the database that tests share."""
    made = DatabaseSessionService(postgres_url)
    yield made
    await made.close()


async def commit(
    service: DatabaseSessionService, key: SessionKey, event_id: str, delta: dict[str, Any]
) -> int:
    """Commit an event of the invocation that is open."""
    return await service.commit_event(
        key, event(event_id, delta=delta), invocation_id="i1", epoch=1
    )


async def test_nothing_is_under_way_any_more_when_it_is_closed(postgres_url: str) -> None:
    """I24: a transaction that its caller has left ends first, and so its connection is closed."""
    store = PostgresStore(make_url(postgres_url))
    await store.prepare()
    loop = store.database._start().loop
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


# ----- locks


async def test_writers_that_cross_do_not_deadlock(service: DatabaseSessionService) -> None:
    """F19: whatever the order of a delta's shared keys, their rows are locked in one order."""
    app = f"app-{uuid4()}"
    keys = [SessionKey(app, "user", f"s{n}") for n in range(4)]
    for key in keys:
        await opened(service, key)

    async def write(place: int) -> None:
        names = SHARED if place % 2 else SHARED[::-1]
        for n in range(8):
            await commit(service, keys[place], f"e{n}", dict.fromkeys(names, n))

    await asyncio.gather(*(write(place) for place in range(len(keys))))
    for key in keys:
        assert [seq for seq, _ in await log(service, key)] == list(range(1, 10))
        assert await service.read_state(key) == (9, dict.fromkeys(SHARED, 7))


async def test_only_what_a_commit_touches_is_locked(
    service: DatabaseSessionService, postgres_url: str
) -> None:
    """F19: who holds a row of the app's state keeps nobody waiting but writers of that key."""
    app = f"app-{uuid4()}"
    mine, other = SessionKey(app, "user", "mine"), SessionKey(app, "user", "other")
    for key in (mine, other):
        await opened(service, key)
    await commit(service, other, "before", {"app:a": 0, "app:b": 0, "user:c": 0})
    async with _held(postgres_url, app, "app:a") as release:
        assert await commit(service, mine, "own", {"d": 1}) == 2
        assert await commit(service, mine, "beside", {"app:b": 1, "user:c": 1}) == 3
        assert await service.read_state(mine) == (3, {"app:a": 0, "app:b": 1, "user:c": 1, "d": 1})
        assert len((await service.list_sessions(app_name=app)).sessions) == 2
        touching = asyncio.create_task(commit(service, mine, "touches", {"app:a": 1}))
        await asyncio.sleep(0.2)
        assert not touching.done(), "the row is not held, and the test shows nothing"
        await release()
        assert await touching == 4


async def test_a_session_that_is_held_keeps_no_reader(
    service: DatabaseSessionService, postgres_url: str, key: SessionKey
) -> None:
    """Readers take no locks, and see what was committed last; a writer gives up in time."""
    await opened(service, key)
    async with _connection(postgres_url) as connection, connection.transaction():
        await connection.execute(
            "SELECT 1 FROM sessions WHERE app_name = $1 FOR UPDATE", key.app_name
        )
        assert (await service.read_state(key))[0] == 1
        with pytest.raises(StoreUnavailableError, match="lock timeout"):
            await commit(service, key, "e", {})
    assert await commit(service, key, "e", {}) == 2


# ----- deletions


@pytest.mark.parametrize("how", ["create", "open", "withdraw"])
async def test_epochs_go_on_over_a_deletion_that_is_under_way(
    service: DatabaseSessionService, key: SessionKey, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """I6: whoever creates the session waits for the deletion, and goes on where it has ended."""
    old = await opened(service, key)
    monkeypatch.setattr(SqlTables, "remove_session", _then_sleeps(SqlTables.remove_session))
    deleting = asyncio.create_task(service.delete_session(**key._asdict()))
    await asyncio.sleep(0.3)
    if how == "create":
        await service.create_session(**key._asdict())
    elif how == "open":
        assert (await opened(service, key, "i2")).epoch > old.epoch + 1
    else:
        options = {"lease_owner": "local:1", "create_session": True}
        await service.withdraw_invocation(key, invocation_id="i2", **options)
    assert deleting.done()
    assert (await service.read_creation(key)).epoch > old.epoch
    with pytest.raises(LeaseLostError, match="deleted"):
        await commit(service, key, "late", {})
    assert await service._store.read(lambda tables: tables.tombstone(key)) is None


async def test_what_was_created_meanwhile_is_not_deleted(
    service: DatabaseSessionService, key: SessionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session goes with a tombstone or not at all, also if another has deleted it first."""
    head = SqlTables.head
    with monkeypatch.context() as patch:
        patch.setattr(SqlTables, "head", _then_sleeps(head))
        deleting = asyncio.create_task(service.delete_session(**key._asdict()))
        await asyncio.sleep(0.3)
        patch.setattr(SqlTables, "head", head)
        await service.create_session(**key._asdict(), state={"a": 1})
        assert not deleting.done()
        await deleting
    assert await service.read_state(key) == (0, {"a": 1})


def _then_sleeps(method: Any) -> Any:
    def both(tables: Any, key: SessionKey) -> Any:
        result = method(tables, key)
        _slowly(tables)
        return result

    return both


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _held(url: str, app: str, name: str) -> AsyncIterator[Any]:
    """A row of an app's state, written by a transaction that goes on until it is released."""
    async with _connection(url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        update = "UPDATE state SET value = value WHERE app_name = $1 AND key = $2"
        assert await connection.execute(update, app, name) == "UPDATE 1"
        yield transaction.commit


async def test_closing_while_it_is_used_leaves_nothing_behind(postgres: Databases) -> None:
    """I24: what is under way finishes on its own connections, and the next call has new ones."""
    url = await postgres.make()
    before = set(threading.enumerate())  # other stores of this process may be open
    service = DatabaseSessionService(url)
    for number in range(5):
        place = {"app_name": "a", "user_id": "u", "session_id": f"s{number}"}
        await asyncio.gather(service.create_session(**place), service.close())
        assert await service.get_session(**place) is not None
    await service.close()
    ours = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    assert await postgres.query(url, f"{ours} AND pid <> pg_backend_pid()") == []
    after = set(threading.enumerate()) - before
    assert not [one for one in after if one.name == "session-store"]
