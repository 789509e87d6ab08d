"""Waiting for a change of a session, over two objects of each store that stand for processes."""

import asyncio

import pytest

from durable_adk.errors import SessionBusyError
from durable_adk.sessions import (
    DatabaseSessionService,
    InMemorySessionService,
    SessionKey,
    SqliteSessionService,
    Status,
)
from durable_adk.sessions.sql import statements
from tests.support.statements import counted
from tests.support.waiting import PATIENCE
from tests.unit.sessions.contract import (
    NEVER,
    abandon,
    event,
    names,
    only_changes_wake,
    opened,
    paused,
    resumed,
    settled,
)


@pytest.fixture
async def stores(place):
    """The one that reads, and the one that writes; of a store in memory there is one."""
    if place is None:
        one = InMemorySessionService()
        made = [one, one]
    else:
        kind = DatabaseSessionService if isinstance(place, str) else SqliteSessionService
        made = [kind(place), kind(place)]
    yield made
    for service in made:
        await service.close()


async def end_paused(service, key):
    """Cancel the paused invocation."""
    ended = {"invocation_id": "i1", "epoch": 1, "status": Status.CANCELLED}
    await service.close_paused(key, **ended)


async def end_of_two(service, key):
    """Cancel the paused invocation, which has a ticket, while another one runs."""
    with pytest.raises(SessionBusyError):
        await end_paused(service, key)


async def queued_answer(service, key):
    """Let another invocation run, for which the answer of the paused one waits."""
    await paused(service, key)
    await opened(service, key, "i2")
    with pytest.raises(SessionBusyError):
        await resumed(service, key)


def commit(service, key):
    """Commit an event."""
    return service.commit_event(key, event("c"), invocation_id="i1", epoch=1)


def close(service, key):
    """Complete the invocation."""
    done = {"invocation_id": "i1", "epoch": 1, "status": Status.COMPLETED}
    return service.close_invocation(key, **done)


def create(service, key):
    """Create the session."""
    return service.create_session(**names(key))


def delete(service, key):
    """Delete the session."""
    return service.delete_session(**names(key))


def pause(service, key):
    """Pause the invocation."""
    return service.pause_invocation(key, invocation_id="i1", epoch=1)


def note_cancellation(service, key):
    """Cancel one of its steps."""
    return service.note_cancellation(key)


CHANGES = [
    (create, opened),
    (create, delete),
    (opened, commit),
    (opened, pause),
    (opened, note_cancellation),
    (opened, close),
    (paused, resumed),
    (paused, abandon),
    (paused, end_paused),
    (queued_answer, end_of_two),
    (paused, delete),
]
"""What was done before, and what changes the session."""


@pytest.mark.parametrize(
    ("before", "change"), CHANGES, ids=[f"{one.__name__}-{two.__name__}" for one, two in CHANGES]
)
async def test_each_change_ends_a_wait(stores, key, before, change, monkeypatch):
    """Also one without an event, and one that falls between a look and the wait (D8)."""
    only_changes_wake(monkeypatch)
    reader, writer = stores
    await before(writer, key)
    with reader.watch(key) as watch:
        await reader.look(watch)
        await settled(reader)
        await change(writer, key)
        async with asyncio.timeout(PATIENCE):
            await reader.changed(watch, timeout=NEVER)


async def test_cancelled_steps_are_counted_until_the_next_invocation(stores, key):
    """Or each of its long steps would ask the server whether it is cancelled (CAN-3)."""
    reader, writer = stores
    assert not await writer.note_cancellation(key)
    await opened(writer, key)
    with reader.watch(key) as watch:
        counts = [(await reader.look(watch)).cancellations]
        for _ in range(2):
            assert await writer.note_cancellation(key)
            counts.append((await reader.look(watch)).cancellations)
        await close(writer, key)
        await opened(writer, key, "i2")
        counts.append((await reader.look(watch)).cancellations)
    assert counts == [0, 1, 2, 0]


async def _look(reader, watch):
    await reader.look(watch)


async def _progress(reader, watch):
    await reader.read_progress(watch, "i1", after=0)


@pytest.mark.parametrize("read", [_look, _progress])
async def test_what_was_read_ends_no_later_wait(stores, key, monkeypatch, read):
    """Or a follower would read for ever what it knows."""
    only_changes_wake(monkeypatch)
    reader, writer = stores
    await opened(writer, key)
    with reader.watch(key) as watch:
        await read(reader, watch)
        await settled(reader)
        await commit(writer, key)
        async with asyncio.timeout(PATIENCE):
            await reader.changed(watch, timeout=NEVER)
        await read(reader, watch)
        assert not watch._changed.is_set()


async def test_another_session_ends_no_wait(stores, key, monkeypatch):
    """A wait continues, whatever others commit."""
    only_changes_wake(monkeypatch)
    reader, writer = stores
    other = key._replace(session_id="other")
    await opened(writer, key)
    with reader.watch(key) as watch, reader.watch(other) as others:
        await reader.look(others)
        await settled(reader)
        for change in (opened, commit):
            # With the announcement of the first one, all that came before it have come.
            await reader.look(watch)
            await change(writer, other)
            async with asyncio.timeout(PATIENCE):
                await reader.changed(others, timeout=NEVER)
            await reader.look(others)
        await asyncio.sleep(0)
        assert not watch._changed.is_set()


async def test_a_wait_survives_the_closing_of_its_store(stores, key, monkeypatch):
    """Another user of the object may close it; the next call opens it again."""
    reader, writer = stores
    for module, name in (("polling", "_PATIENCE"), ("postgres", "_LONG_PATIENCE")):
        monkeypatch.setattr(f"durable_adk.sessions.sql.{module}.{name}", 0.2)
    await create(writer, key)
    with reader.watch(key) as watch:
        await reader.look(watch)
        waiting = asyncio.create_task(reader.changed(watch, timeout=NEVER))
        await asyncio.sleep(0)
        await reader.close()
        await asyncio.sleep(0)
        await opened(writer, key)
        async with asyncio.timeout(PATIENCE):
            await waiting


async def test_the_rows_of_many_sessions_are_read_together(sql_stores, key, monkeypatch):
    """One statement reads at most so many; a missing session has no row."""
    service, _ = sql_stores
    monkeypatch.setattr(statements, "MANY_HEADS", 3)
    texts = ["a", "b'\"\\", "ü😀", "%s", "{1}", ":k", "missing"]
    keys = [SessionKey(key.app_name, f"u {text}", text) for text in texts]
    for one in keys[:-1]:
        await create(service, one)
    singly = await service._sql.read(lambda tables: {one: tables.head(one) for one in keys})
    assert singly.pop(keys[-1]) is None
    with counted() as run:
        together = await service._sql.read(lambda tables: tables.heads_of(keys))
    assert together == singly
    assert len([text for text in run if "json" in text]) == 3
