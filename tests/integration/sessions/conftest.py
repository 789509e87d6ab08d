"""Sessions in PostgreSQL, for the contract in tests/unit/sessions."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from durable_adk.sessions import DatabaseSessionService, SessionKey
from tests.support.postgres import be_patient


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's own timeouts end no test."""
    be_patient(monkeypatch)


@pytest.fixture
def place(postgres_url: str) -> str:
    """A database that tests share."""
    return postgres_url


@pytest.fixture
async def service(place: str) -> AsyncIterator[DatabaseSessionService]:
    """A session service over it."""
    made = DatabaseSessionService(place)
    yield made
    await made.close()


@pytest.fixture
async def sql_stores(place: str) -> AsyncIterator[list[DatabaseSessionService]]:
    """Two of them."""
    made = [DatabaseSessionService(place), DatabaseSessionService(place)]
    yield made
    for one in made:
        await one.close()


@pytest.fixture
def key() -> SessionKey:
    """A session of an app that no other test uses; tests of one database do not meet."""
    return SessionKey(f"app-{uuid4()}", "user", "session")
