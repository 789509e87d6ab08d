"""Errors of a process that cannot use its PostgreSQL database, and of one that loses it."""

import asyncpg
import pytest
from sqlalchemy import URL, make_url

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sessions.sql.tables import Tables
from tests.support.postgres import Databases
from tests.unit.sessions.contract import event, log, opened
from tests.unit.sessions.test_postgres_start import SECRET, refused


@pytest.fixture
async def guarded(postgres: Databases) -> URL:
    """A database with a user that has to give a password."""
    url = make_url(await postgres.make())
    name = f"user_{url.database}"
    await postgres.run("postgres", f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    return url.set(username=name, password=SECRET)


async def test_a_user_that_is_not_let_in_is_told_so(guarded: URL) -> None:
    """The message names database and remedy, and never the password."""
    said = await refused(guarded.set(username="nobody"))
    assert "nobody:***@" in said
    assert "Check the user and the password" in said


async def test_a_missing_database_is_named(guarded: URL) -> None:
    """It is not made by itself: perhaps the name is wrong."""
    said = await refused(guarded.set(database="no_such"))
    assert "no_such" in said
    assert "createdb" in said


async def test_a_user_that_may_make_no_tables_is_told_who_may(guarded: URL) -> None:
    """In an empty database, somebody else makes the tables, once."""
    assert "durable-adk db upgrade" in await refused(guarded)


# ----- later


FAULTS = {
    "statement_timeout": "SET LOCAL statement_timeout = '100ms'; SELECT pg_sleep(99)",
    "lock_timeout": "SELECT set_config('lock_timeout', '50ms', true); LOCK TABLE held",
    "terminated": "SELECT pg_terminate_backend(pg_backend_pid())",
    "serialization": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END$$",
    "deadlock": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END$$",
    "too many": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53300'; END$$",
    "shutdown": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '57P01'; END$$",
    "impatience": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25P03'; END$$",
    "read only": "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END$$",
}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
async def test_what_passes_is_tried_again_with_the_same_id(
    postgres_url: str, key: SessionKey, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """1h, D11: in the middle of a commit its outcome is unknown, and the same one goes through."""
    service = DatabaseSessionService(postgres_url)
    await opened(service, key)
    statements = FAULTS[fault].split("; ") if "timeout" in fault else [FAULTS[fault]]
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE IF NOT EXISTS held ()")
    save = Tables.save_head

    def broken(tables: Tables, *arguments: object) -> None:
        save(tables, *arguments)  # pyright: ignore[reportArgumentType]
        for statement in statements:
            tables._connection._connection.exec_driver_sql(statement)

    async with connection.transaction():
        await connection.execute("LOCK TABLE held")
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "save_head", broken)
            with pytest.raises(StoreUnavailableError):
                await service.commit_event(key, event("e"), invocation_id="i1", epoch=1)
    await connection.close()
    assert await service.commit_event(key, event("e"), invocation_id="i1", epoch=1) == 2
    assert [seq for seq, _ in await log(service, key)] == [1, 2]
    await service.close()
