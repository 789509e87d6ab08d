"""The stream of new statuses, over a store that a test holds in its hands."""

import asyncio
import time
from typing import Any

import pytest

from durable_adk.apps.app_declaration import AppDescription
from durable_adk.server.feed import StatusItem
from durable_adk.server.routes import changes
from durable_adk.server.routes.changes import StatusChanges
from durable_adk.server.services import ServerServices
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from tests.support.waiting import PATIENCE


class Store:
    """Has invocations whose status changed just now, and fails on request."""

    def __init__(self) -> None:
        self.records: list[tuple[SessionKey, InvocationRecord]] = []
        self.failures = 0
        self.served: dict[str, AppDescription | None] = {}
        """The apps of the server; none: those of the store."""

    def add(self, name: str, session: str = "s", app: str = "app") -> None:
        """Add an invocation that is running."""
        record = InvocationRecord(
            invocation_id=name,
            status=Status.RUNNING,
            epoch=1,
            lease_owner="w",
            start_seq=1,
            update_time=time.time(),
        )
        self.records.append((SessionKey(app, "u", session), record))

    async def list_apps(self, _: str | None = None) -> list[str]:
        """Return the names of the apps that have sessions."""
        return sorted({key.app_name for key, _ in self.records})

    async def invocations_by_time(
        self, *, app_name: str, limit: int
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Return the newest ones."""
        if self.failures:
            self.failures -= 1
            raise ValueError
        return [one for one in reversed(self.records) if one[0].app_name == app_name][:limit]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that is looked at often."""
    monkeypatch.setattr(changes, "_POLL", 0.01)
    return Store()


def changes_of(store: Store) -> StatusChanges:
    """The changes in a store."""
    parts: dict[str, Any] = {"session_service": store, "client": None, "task_queue": str}
    return StatusChanges(ServerServices(**parts, apps=store.served))


async def first_of(store: Store, *names: str, failures: int = 0) -> str:
    """The first change that a reader gets who came before some invocations."""
    entries = await changes_of(store).follow(None, None)
    store.failures = failures
    for name in names:
        store.add(name)
    async with asyncio.timeout(PATIENCE):
        item = await anext(entries)
    await entries.aclose()
    assert isinstance(item, StatusItem)
    return item.invocation_id


async def test_no_change_is_lost_before_the_first_look(store: Store) -> None:
    """What happens as soon as a reader has come is new to it; what was before is not."""
    store.add("old")
    assert await first_of(store, "new") == "new"


async def test_a_deleted_session_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its user, once; one that is only pushed out of the newest by others is not deleted."""
    monkeypatch.setattr(changes, "_PAGE", 2)
    for name in ("a", "b"):
        store.add(name, name)
    told_of = changes_of(store)
    others = await told_of.follow(None, "another")
    entries = await told_of.follow(None, "u")
    hidden = asyncio.ensure_future(anext(others))
    async with asyncio.timeout(PATIENCE):
        store.add("c", "c")  # "a" is not among the newest any more
        assert isinstance(await anext(entries), StatusItem)
        del store.records[1]  # "b", and "a" is back
        told = [await anext(entries), await anext(entries)]
        found = sorted((item.type, item.session_id) for item in told)
        assert found == [("deleted", "b"), ("status", "a")]
        store.add("d", "d")
        assert isinstance(await anext(entries), StatusItem)
    assert not hidden.done()
    hidden.cancel()
    await asyncio.wait({hidden})
    for reading in (entries, others):
        await reading.aclose()


async def test_an_app_that_is_looked_at_no_more_has_lost_no_session(store: Store) -> None:
    """A server that loads its apps looks at all of the store, and then at those alone."""
    store.add("a", "a", "other")
    store.add("b", "b")
    entries = await changes_of(store).follow(None, None)
    async with asyncio.timeout(PATIENCE):
        store.add("c", "c")
        assert isinstance(await anext(entries), StatusItem)
        store.served["app"] = None
        del store.records[1]  # "b"
        store.add("d", "d")
        told = [await anext(entries), await anext(entries)]
        store.add("e", "e")
        told.append(await anext(entries))
    await entries.aclose()
    found = sorted((item.type, item.session_id) for item in told)
    assert found == [("deleted", "b"), ("status", "d"), ("status", "e")]


async def test_the_last_session_of_an_app_is_told(store: Store) -> None:
    """With it, the store loses the app."""
    store.add("a", "a")
    store.add("b", "b", "other")
    entries = await changes_of(store).follow(None, None)
    async with asyncio.timeout(PATIENCE):
        store.add("c", "c", "other")
        assert isinstance(await anext(entries), StatusItem)
        del store.records[0]  # "a"
        item = await anext(entries)
    await entries.aclose()
    assert (item.type, item.app_name, item.session_id) == ("deleted", "app", "a")


async def test_a_failed_look_ends_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a look raises, it is logged, and the next one finds what is new."""
    assert await first_of(store, "new", failures=2) == "new"
    assert "read again" in caplog.text
