"""Errors of a process that cannot use its PostgreSQL database, and of one that loses it."""

import sys
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import URL, make_url

from durable_adk.errors import InvalidRequestError, StateValueError, StoreUnavailableError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.sql.database_url import for_driver, shown

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
    """S23: what would fail in the driver, or be retried for ever, is refused with the remedy."""
    service = DatabaseSessionService(f"postgresql://me:hunter2@127.0.0.1:1/x?{query}")
    with pytest.raises(InvalidRequestError, match=words) as raised:
        await service.prepare()
    assert "hunter2" not in str(raised.value)
    await service.close()
