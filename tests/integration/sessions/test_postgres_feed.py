"""Hearing of other processes' commits to a PostgreSQL database."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from durable_adk.sessions import DatabaseSessionService, SessionKey, Status
from durable_adk.sessions.log.watches import topic
from durable_adk.sessions.sql import postgres as store
from durable_adk.sql import notifications
from durable_adk.sql.database import PostgresDatabase
from tests.support.postgres import Databases
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import NEVER, event, only_changes_wake, opened, settled, watched

_LISTENERS = (
    "FROM pg_stat_activity WHERE application_name = 'durable-adk notices' "
    "AND query ~ '^(UN)?LISTEN'"
)
"""Those who have only listened so far, and sent nothing."""


@pytest.fixture
async def url(postgres: Databases) -> str:
    """A database without any other listener."""
    return await postgres.make()


@pytest.fixture
async def make(url: str) -> AsyncIterator[Callable[[], DatabaseSessionService]]:
    """Makes stores that stand for processes: each has its own connections."""
    made: list[DatabaseSessionService] = []

    def one() -> DatabaseSessionService:
        made.append(DatabaseSessionService(url))
        return made[-1]

    yield one
    for service in made:
        await service.close()


async def _add(service: DatabaseSessionService, key: SessionKey, number: int) -> None:
    new = event(f"e{number}")
    await service.commit_event(key, new, invocation_id="i1", epoch=1)


async def _read(service: DatabaseSessionService, key: SessionKey, last: int) -> list[int]:
    """Follow the session as a client does, up to a number."""
    seen: list[int] = []
    while not seen or seen[-1] < last:
        after = seen[-1] if seen else 0
        await service.wait_for_change(key, after=after, timeout=NEVER)
        seen += [stored.seq for stored in await service.read_events(key, after=after)]
    return seen


async def test_no_event_is_missed_while_listeners_are_killed(
    make: Callable[[], DatabaseSessionService],
    postgres: Databases,
    url: str,
    key: SessionKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D8: what was lost with a connection is looked up when there is a new one."""
    only_changes_wake(monkeypatch)
    monkeypatch.setattr(notifications, "_DELAYS", (0.1, 0.1))
    listens, may_listen = PostgresDatabase._listening, threading.Event()
    may_listen.set()

    @asynccontextmanager
    async def listening(database: PostgresDatabase) -> AsyncIterator[Any]:
        await until(may_listen.is_set)
        async with listens(database) as connection:
            yield connection

    monkeypatch.setattr(PostgresDatabase, "_listening", listening)
    writer, reader = make(), make()
    await opened(writer, key)
    reading = asyncio.create_task(_read(reader, key, last=22))
    for number in range(21):
        if number % 10 == 0:  # the last one as well: after it, there is no other notice
            await until(lambda: postgres.query(url, f"SELECT 1 {_LISTENERS}"))
            may_listen.clear()
            await postgres.query(url, f"SELECT pg_terminate_backend(pid) {_LISTENERS}")
            # What is committed now is lost; the writer, whose connection may end too, would send it
            # when the listener is there again.
            with monkeypatch.context() as lost:
                lost.setattr(store, "CHANNEL", "somewhere_else")
                await _add(writer, key, number)
            may_listen.set()
        else:
            await _add(writer, key, number)
    async with asyncio.timeout(PATIENCE):
        assert await reading == list(range(1, 23))


async def test_a_lost_notice_is_repaired_by_looking(
    make: Callable[[], DatabaseSessionService], key: SessionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D8: nothing is only in a notice, so a feed without any shows the same."""
    monkeypatch.setattr(store, "CHANNEL", "somewhere_else")
    writer = make()
    await opened(writer, key)
    monkeypatch.undo()
    reader = make()
    reading = asyncio.create_task(_read(reader, key, last=4))
    await watched(reader)
    monkeypatch.setattr(store, "CHANNEL", "somewhere_else")
    for number in range(3):
        await _add(writer, key, number)
    async with asyncio.timeout(PATIENCE):
        assert await reading == [1, 2, 3, 4]


@pytest.mark.parametrize("patience", ["_PATIENCE", "_LONG_PATIENCE"])
async def test_a_lost_notice_ends_a_long_wait(
    make: Callable[[], DatabaseSessionService],
    key: SessionKey,
    monkeypatch: pytest.MonkeyPatch,
    patience: str,
) -> None:
    """D8: all who wait are compared with the database, sooner if an invocation runs."""
    monkeypatch.setattr(store, "_PATIENCE", NEVER)
    monkeypatch.setattr(store, "_LONG_PATIENCE", NEVER)
    monkeypatch.setattr(store, patience, 0.1)
    writer, reader = make(), make()
    await opened(writer, key)
    if patience == "_LONG_PATIENCE":
        await writer.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    with reader.watch(key) as watch:
        await reader.look(watch)
        await settled(reader)
        monkeypatch.setattr(store, "CHANNEL", "somewhere_else")
        if patience == "_LONG_PATIENCE":
            await opened(writer, key, "i2")
        else:
            await _add(writer, key, 1)
        async with asyncio.timeout(PATIENCE):
            await reader.changed(watch, timeout=NEVER)


async def test_a_notice_tells_nobody_who_has_written(
    make: Callable[[], DatabaseSessionService], postgres: Databases, url: str
) -> None:
    """S3: whoever may connect may listen, so a notice holds no name and no word."""
    key = SessionKey("app", "alice@example.org", "session")
    heard: list[str] = []
    listener, writer = make(), make()
    database = listener.database
    assert database is not None
    await listener.prepare()
    from_others = store.Listener(
        channel=store.CHANNEL, on_message=lambda _, text: heard.append(text)
    )
    database.notifications.listen(from_others)
    await asyncio.wrap_future(from_others.ready)
    await opened(writer, key)
    await until(lambda: heard)
    assert heard[0].endswith(topic(key))
    assert all(len(text) < 50 and "alice" not in text for text in heard)


async def test_waiting_costs_few_queries(
    make: Callable[[], DatabaseSessionService], postgres: Databases, url: str, key: SessionKey
) -> None:
    """A feed without changes queries the database a few times for each of its waits."""
    service, waits = make(), list[int]()
    await opened(service, key)
    read_events = service.read_events

    async def counted(*args: Any, **options: Any) -> Any:
        waits.append(1)
        return await read_events(*args, **options)

    service.read_events = counted  # type: ignore[method-assign]

    async def committed() -> int:
        await postgres.query(url, "SELECT pg_stat_force_next_flush()")
        ((count,),) = await postgres.run(
            "postgres",
            "SELECT xact_commit FROM pg_stat_database WHERE datname = $1",
            url.rpartition("/")[2],
        )
        return count

    reading = asyncio.create_task(_read(service, key, last=2))
    await until(lambda: len(waits) > 1)
    begun, before = len(waits), await committed()
    await until(lambda: len(waits) >= begun + 6)
    asked = await committed() - before
    # Two for each, and the statistics of this test; polling every 50 ms makes ten and more.
    assert asked < 4 * (len(waits) - begun) + 6
    await _add(service, key, 1)
    assert await reading == [1, 2]
