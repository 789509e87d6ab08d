"""What a process is told that cannot use its PostgreSQL database, and what one that loses it."""

import sys
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from sqlalchemy import URL, make_url

from durable_adk.errors import InvalidRequestError, StateValueError, StoreUnavailableError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sessions.sql._tables import SqlTables
from durable_adk.sql.database_url import for_driver, shown
from tests.support.postgres import Databases
from tests.unit.sessions.contract import event, log, opened

SECRET = "open-sesame"  # noqa: S105 - nobody's
KEY = SessionKey("app", "user", "session")


async def refused(url: URL) -> str:
    """What the start of a process ends with."""
    service = DatabaseSessionService(url)
    with pytest.raises(InvalidRequestError) as error:
        await service.prepare()
    await service.close()
    said = repr(error.value)
    assert SECRET not in said
    return said


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


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    said = await refused(make_url(f"postgresql://u:{SECRET}@127.0.0.1:1/none"))
    assert "durable-adk[postgres]" in said


@pytest.mark.parametrize(
    "url", [f"postgresql://u:{SECRET}@host:port/x", f"u:{SECRET}@host", f"mysql://u:{SECRET}@h/x"]
)
def test_a_url_that_is_none_is_not_quoted(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(InvalidRequestError) as error:
        DatabaseSessionService(url)
    assert SECRET not in repr(error.value)
    assert error.value.__cause__ is None


def test_urls_are_taken_as_they_are_known_elsewhere() -> None:
    """With `sslmode`, and with what is secret in their query, which is not shown."""
    url = make_url(f"postgresql+psycopg://u:{SECRET}@h/x?sslmode=require&password={SECRET}")
    assert for_driver(url).drivername == "postgresql+asyncpg"
    assert for_driver(url).query["ssl"] == "require"
    assert SECRET not in shown(url)


# ----- later


FAULTS = {
    "statement_timeout": "SELECT set_config('statement_timeout', '100ms', true), pg_sleep(9)",
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
    statements = FAULTS[fault].split("; ") if fault == "lock_timeout" else [FAULTS[fault]]
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE IF NOT EXISTS held ()")
    save = SqlTables.save_head

    def broken(tables: SqlTables, *arguments: object) -> None:
        save(tables, *arguments)  # pyright: ignore[reportArgumentType]
        for statement in statements:
            tables._connection.exec_driver_sql(statement)

    async with connection.transaction():
        await connection.execute("LOCK TABLE held")
        with monkeypatch.context() as patch:
            patch.setattr(SqlTables, "save_head", broken)
            with pytest.raises(StoreUnavailableError):
                await service.commit_event(key, event("e"), invocation_id="i1", epoch=1)
    await connection.close()
    assert await service.commit_event(key, event("e"), invocation_id="i1", epoch=1) == 2
    assert [seq for seq, _ in await log(service, key)] == [1, 2]
    await service.close()


async def test_a_server_that_is_away_is_unavailable() -> None:
    """Also at the start: it may come."""
    service = DatabaseSessionService("postgresql://u@127.0.0.1:1/none")
    with pytest.raises(StoreUnavailableError):
        await service.prepare()
    await service.close()


@pytest.mark.parametrize("bad", ["\x00", "\ud800", float("nan")])
async def test_what_postgresql_refuses_never_reaches_it(bad: object) -> None:
    """1j: it is named before anything is sent to the database."""
    nowhere = DatabaseSessionService("postgresql://u@127.0.0.1:1/none")
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: nowhere.create_session(app_name="app", user_id="u", state={"a": [bad]}),
        lambda: nowhere.commit_event(
            KEY,
            Event(id="e", invocation_id="i1", actions=EventActions(state_delta={"a": {"b": bad}})),
            invocation_id="i1",
            epoch=1,
        ),
    ]
    if isinstance(bad, str):
        calls += [
            lambda: nowhere.create_session(app_name="app", user_id="u", session_id=f"s{bad}"),
            lambda: nowhere.list_sessions(app_name="app", user_id=f"u{bad}"),
            lambda: nowhere.note(KEY, invocation_id="i1", kind="k", name=f"n{bad}", body="{}"),
        ]
    for call in calls:
        with pytest.raises((StateValueError, InvalidRequestError)):
            await call()
    await nowhere.close()


@pytest.mark.parametrize(
    ("query", "words"), [("application_name=x", "PGSSLROOTCERT"), ("sslmode=bogus", "verify-full")]
)
async def test_parameters_that_are_not_known_are_refused_at_once(query: str, words: str) -> None:
    """S23: what the driver would trip over, or be retried for ever, is told with the remedy."""
    service = DatabaseSessionService(f"postgresql://me:hunter2@127.0.0.1:1/x?{query}")
    with pytest.raises(InvalidRequestError, match=words) as raised:
        await service.prepare()
    assert "hunter2" not in str(raised.value)
    await service.close()
