"""Whose tables a PostgreSQL database has, and who may change them."""

import asyncio
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, make_url

from durable_adk.errors import InvalidRequestError, SchemaOutdatedError
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sql import database as module, migrate, schema
from tests.support.later_tables import later_tables
from tests.support.postgres import Databases
from tests.support.waiting import until
from tests.unit.sessions.contract import opened

KEY = SessionKey("app", "user", "session")
OWN = migrate.HEAD
SESSION = """
    INSERT INTO sessions
      (app_name, user_id, session_id, revision, create_time, update_time, lease_epoch, waiting,
       created_epoch, retried, cancellations, size)
    VALUES ($1, $2, $3, 0, 1, 1, 0, 0, 0, 0, 0, 0) RETURNING revision
"""
TICKET = """
    INSERT INTO tickets
      (app_name, user_id, session_id, invocation_id, position, number, lease_owner)
    VALUES ($1, $2, $3, 'i2', 1, 1, 'local:1') RETURNING number
"""
"""What workers of the version before write: the columns that they know."""
_OPTIONS = {"version_table": "durable_adk_version", "compare_type": True}


async def _upgraded(url: str) -> None:
    """Make the tables of the version that this package has."""
    service = DatabaseSessionService(url)
    await service.upgrade()
    await service.close()


async def test_an_empty_database_gets_its_tables_at_the_first_use(postgres: Databases) -> None:
    """Also if several processes are the first, and they are the tables that the code uses."""
    url = await postgres.make()
    services = [DatabaseSessionService(url) for _ in range(4)]
    assert (await services[0].schema()).empty
    await asyncio.gather(*(service.prepare() for service in services))

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts=_OPTIONS)
        found = compare_metadata(context, [schema.METADATA, schema.POSTGRES_METADATA])
        return list(found)

    database = services[0].database
    assert database is not None
    assert await database.read(differences) == []
    assert (await services[0].schema()).current
    for service in services:
        await service.close()


async def test_older_tables_are_refused_until_somebody_upgrades_them(
    postgres: Databases, tmp_path: Path
) -> None:
    """They are left as they are, the error has the command, and what they hold continues."""
    url = await postgres.make()
    await _upgraded(url)
    await postgres.query(url, SESSION, *KEY)
    with later_tables(tmp_path):
        await _refuses_until_upgraded(url)


async def _refuses_until_upgraded(url: str) -> None:
    secret = make_url(url).set(password="open sesame")  # noqa: S106 - nobody's
    service = DatabaseSessionService(secret)
    with pytest.raises(SchemaOutdatedError) as refused:
        await service.create_session(app_name="app", user_id="user")
    shown = url.replace("@", ":***@")
    assert refused.value.message.endswith(f"durable-adk db upgrade --store '{shown}'")
    assert "sesame" not in repr(refused.value)
    assert (await service.schema()).found == OWN
    upgrading = DatabaseSessionService(url)
    await upgrading.upgrade()
    await upgrading.close()
    assert (await opened(service, KEY)).epoch == 1  # the same object goes on
    assert [stored.seq for stored in await service.read_events(KEY)] == [1]
    await service.close()


async def test_tables_of_a_later_version_are_refused(postgres: Databases) -> None:
    """By use and by upgrade: this code does not know what they mean."""
    url = await postgres.make()
    service = DatabaseSessionService(url)
    await service.prepare()
    await service.close()
    await postgres.query(url, "UPDATE durable_adk_version SET version_num = '9999'")
    late = DatabaseSessionService(url)
    for call in (late.prepare, late.upgrade):
        with pytest.raises(InvalidRequestError, match="9999"):
            await call()
    assert (await late.schema()).newer
    await late.close()


async def test_who_upgrades_at_the_same_time_waits(
    postgres: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the first one takes, it finds nothing left to do and does not fail."""
    monkeypatch.setitem(module._SETTINGS, "lock_timeout", "100ms")
    url = await postgres.make()
    first, second = DatabaseSessionService(url), DatabaseSessionService(url)
    database = first.database
    assert database is not None
    released = threading.Event()
    holding = asyncio.create_task(database._in_loop(lambda _: _hold(database, released)))
    await until(lambda: _locks(postgres, url, granted=True))
    waiting = asyncio.create_task(second.upgrade())
    await until(lambda: _waits_for_long(postgres, url))
    assert not waiting.done()
    released.set()
    await holding
    await waiting
    assert (await second.schema()).current
    await first.close()
    await second.close()


async def _hold(database: object, released: threading.Event) -> None:
    async with database._start().writer.begin() as connection:  # pyright: ignore[reportAttributeAccessIssue]
        await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({migrate._LOCK})")
        await until(released.is_set)


async def _waits_for_long(postgres: Databases, url: str) -> bool:
    """Whether somebody has waited for longer than a lock may take elsewhere."""
    waiting = "wait_event = 'advisory' AND clock_timestamp() - query_start > interval '1 second'"
    return bool(await postgres.query(url, f"SELECT 1 FROM pg_stat_activity WHERE {waiting}"))  # noqa: S608 - the test's own


async def _locks(postgres: Databases, url: str, *, granted: bool) -> bool:
    found = await postgres.query(
        url, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted = $1", granted
    )
    return bool(found)


async def test_workers_of_the_version_before_go_on(postgres: Databases, tmp_path: Path) -> None:
    """Before the upgrade and after it, old workers' rows are read and continued with."""
    url = await postgres.make()
    await _upgraded(url)
    await postgres.query(url, SESSION, *KEY)
    late = KEY._replace(session_id="late")
    with later_tables(tmp_path):
        upgrading = DatabaseSessionService(url)
        await upgrading.upgrade()
        await postgres.query(url, SESSION, *late)
        for key in (KEY, late):
            assert (await opened(upgrading, key)).epoch == 1
            await postgres.query(url, TICKET, *key)
            assert [one.invocation_id for one in await upgrading.waiting(key)] == ["i2"]
        await upgrading.close()
