"""What only the PostgreSQL store has to care for."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import make_url, text

from durable_adk.errors import LeaseLostError, StoreUnavailableError
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sessions.sql.postgres import PostgresStore
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sql import database
from tests.support.postgres import Databases
from tests.support.waiting import until
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
    begun = list[int]()

    def slowly(tables: Any) -> None:
        begun.append(1)
        _slowly(tables)

    calls = [asyncio.create_task(store.write(slowly)) for _ in range(3)]
    await until(lambda: begun)
    for call in calls:
        call.cancel()
    await store.close()
    assert not asyncio.all_tasks(loop)
    del store, loop, calls
    gc.collect()  # a connection that is left open warns


def _slowly(tables: Any) -> None:
    tables._connection._connection.execute(text("select pg_sleep(0.6)"))


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
        await until(lambda: _waits_for_a_lock(postgres_url))
        assert not touching.done(), "the row is not held, and the test shows nothing"
        await release()
        assert await touching == 4


async def test_a_session_that_is_held_keeps_no_reader(
    service: DatabaseSessionService,
    postgres_url: str,
    key: SessionKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readers take no locks, and see what was committed last; a writer gives up in time."""
    monkeypatch.setitem(database._SETTINGS, "lock_timeout", "500ms")
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
    service: DatabaseSessionService,
    postgres_url: str,
    key: SessionKey,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """I6: whoever creates the session waits for the deletion, and continues where it has ended."""
    old = await opened(service, key)
    options = {"lease_owner": "local:1", "create_session": True}
    async with _gate(postgres_url) as gate:
        waits = gate.after(Tables.remove_session)
        monkeypatch.setattr(Tables, "remove_session", waits)
        deleting = asyncio.create_task(service.delete_session(**key._asdict()))
        await until(lambda: gate.reached)
        work: Coroutine[Any, Any, Any] = {
            "create": lambda: service.create_session(**key._asdict()),
            "open": lambda: opened(service, key, "i2"),
            "withdraw": lambda: service.withdraw_invocation(key, invocation_id="i2", **options),
        }[how]()
        working = asyncio.create_task(work)
        await until(lambda: _waits_for_a_lock(postgres_url))
        assert not working.done()
    await deleting
    made = await working
    if how == "open":
        assert made.epoch > old.epoch + 1
    assert (await service.read_creation(key)).epoch > old.epoch
    with pytest.raises(LeaseLostError, match="deleted"):
        await commit(service, key, "late", {})
    assert await service._store.read(lambda tables: tables.tombstone(key)) is None


async def test_what_was_created_meanwhile_is_not_deleted(
    service: DatabaseSessionService,
    postgres_url: str,
    key: SessionKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session goes with a tombstone or not at all, also if another has deleted it first."""
    head = Tables.head
    async with _gate(postgres_url) as gate:
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "head", gate.after(head))
            deleting = asyncio.create_task(service.delete_session(**key._asdict()))
            await until(lambda: gate.reached)
        await service.create_session(**key._asdict(), state={"a": 1})
        assert not deleting.done()
    await deleting
    assert await service.read_state(key) == (0, {"a": 1})


@dataclass
class _Gate:
    """Holds transactions up that come by."""

    number: int = field(default_factory=lambda: uuid4().int % 2**31)
    reached: list[int] = field(default_factory=list[int])

    def after(self, method: Any) -> Any:
        """The method, which continues only when the gate is open."""

        def both(tables: Any, key: SessionKey) -> Any:
            result = method(tables, key)
            self.reached.append(1)
            wait = "WITH gate AS (SELECT pg_advisory_xact_lock_shared(:number)) SELECT 1 FROM gate"
            tables._connection._connection.execute(text(wait), {"number": self.number})
            return result

        return both


@asynccontextmanager
async def _gate(url: str) -> AsyncIterator[_Gate]:
    """A gate that is opened at the end."""
    made = _Gate()
    async with _connection(url) as connection:
        await connection.execute("SELECT pg_advisory_lock($1::bigint)", made.number)
        yield made


async def _waits_for_a_lock(url: str) -> bool:
    """Whether a transaction of this database waits for another one, and not at a gate."""
    async with _connection(url) as connection:
        return await connection.fetchval(
            "SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE NOT granted AND locktype <> 'advisory' AND datname = current_database()"
        )


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _held(url: str, app: str, name: str) -> AsyncIterator[Any]:
    """A row of an app's state, written by a transaction that continues until it is released."""
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
