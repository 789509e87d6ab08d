"""Missing notices are reported once, with the remedy, and so is their return."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import make_url

from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.sql.postgres import CommitNotifications, PostgresStore
from durable_adk.sql import notifications
from durable_adk.sql.database import PostgresDatabase
from durable_adk.sql.notifications import Listener, Notifications
from tests.support.postgres import HAS_POSTGRES
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not HAS_POSTGRES, reason="needs a PostgreSQL")


class Pooled:
    """A connection through a pooler in transaction mode: another session listens in its place."""

    def __init__(self, connection: Any, other: Any) -> None:
        self._connection = connection
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def add_listener(self, channel: str, _heard: object) -> None:
        """See asyncpg."""
        await self._other.execute(f'LISTEN "{channel}"')

    async def remove_listener(self, channel: str, _heard: object) -> None:
        """See asyncpg."""
        await self._other.execute(f'UNLISTEN "{channel}"')


class Way:
    """The way to a database, which may be blocked, or lead through a pooler."""

    def __init__(self, url: str) -> None:
        self.database = PostgresDatabase(make_url(url))
        self.blocked = self.pooled = False
        self.attempts = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """A connection of asyncpg."""
        self.attempts += 1
        if self.blocked:
            raise ConnectionRefusedError
        async with self.database._listening() as connection:
            if not self.pooled:
                yield connection
                return
            async with self.database._listening() as other:
                yield Pooled(connection, other)


@pytest.fixture
def way(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Way:
    """To an empty database, with little patience."""
    monkeypatch.setattr(notifications, "_DELAYS", (0.01, 0.02))
    monkeypatch.setattr(notifications, "_TOLERATED", 0.3)
    monkeypatch.setattr(notifications, "_PROBED_AGAIN", 0.1)
    return Way(postgres_url)


@asynccontextmanager
async def used(way: Way) -> AsyncIterator[Notifications]:
    """Notifications of a process that listens."""
    made = Notifications(asyncio.get_running_loop, way.connect)
    made.listen(Listener(channel="news", on_message=lambda _, _text: None))
    try:
        yield made
    finally:
        await made.close()


async def test_a_connection_that_never_comes_is_told_once(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """I23: feeds are late and chunks do not come, and the log says why; and when it is over."""
    caplog.set_level("INFO")
    way.blocked = True
    async with used(way):
        await until(lambda: "notices.lost" in caplog.text)
        seen = way.attempts
        await until(lambda: way.attempts > seen + 20)
        assert caplog.text.count("notices.lost") == 1
        (record,) = [one for one in caplog.records if one.getMessage() == "notices.lost"]
        assert (record.levelname, vars(record)["error_type"]) == (
            "WARNING",
            "ConnectionRefusedError",
        )
        assert "notices.arrive" not in caplog.text
        way.blocked = False
        await until(lambda: "notices.arrive" in caplog.text)
        way.blocked = True
    assert len(caplog.records) == 2


async def test_a_short_interruption_is_not_told(
    way: Way, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that restarts is reported by the calls that wait for it."""
    monkeypatch.setattr(notifications, "_TOLERATED", 10 * PATIENCE)
    monkeypatch.setattr(notifications, "_ARRIVAL", 10 * PATIENCE)
    caplog.set_level("INFO")
    way.blocked = True
    async with used(way) as made:
        await until(lambda: way.attempts > 2)
        assert made._arrival._since is not None
        way.blocked = False
        ready = Listener(channel="other", on_message=lambda _, _text: None)
        made.listen(ready)
        await asyncio.wrap_future(ready.ready)
        await until(lambda: made._arrival._since is None)  # it has found that notices arrive
    assert caplog.records == []


async def test_a_pooler_that_lets_another_listen_is_told_with_the_remedy(
    way: Way, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I23: LISTEN is no error there, and nothing arrives; what is sent is sent all the same."""
    monkeypatch.setattr(notifications, "_ARRIVAL", 10 * PATIENCE)
    caplog.set_level("INFO")
    heard: list[str] = []
    async with used(Way(way.database.url.render_as_string(hide_password=False))) as direct:
        news = Listener(channel="news", on_message=lambda _, text: heard.append(text))
        direct.listen(news)
        await asyncio.wrap_future(news.ready)
        await until(lambda: direct._probing is not None and direct._probing.done())
        monkeypatch.setattr(notifications, "_ARRIVAL", 0.5)
        way.pooled = True
        async with used(way) as pooled:
            await until(lambda: "notices.lost" in caplog.text)
            pooled.send("news", "hello")
            await until(lambda: heard == ["hello"])
            probed = way.attempts
            await until(lambda: way.attempts > probed + 2)
            (record,) = [one for one in caplog.records if one.getMessage() == "notices.lost"]
            assert "transaction mode" in vars(record)["remedy"]
            assert "DURABLE_ADK_STORE" in vars(record)["remedy"]
            way.pooled = False
            await pooled.close()
            pooled.send("news", "again")
            await until(lambda: "notices.arrive" in caplog.text)


async def test_closing_waits_for_no_probe(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process ends at once, whatever it was just finding out."""
    monkeypatch.setattr(notifications, "_ARRIVAL", 10 * PATIENCE)
    way.pooled = True
    async with used(way) as made:
        await until(lambda: way.attempts > 1)
        async with asyncio.timeout(PATIENCE):
            await made.close()
    left = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
    assert [one for one in left if "notices" in repr(one)] == []


async def test_who_has_left_does_not_look_again(postgres_url: str) -> None:
    """A store that is being closed begins nothing that its loop would not end."""
    commits = CommitNotifications(PostgresStore(make_url(postgres_url)), Changes())
    commits._resumed()
    assert commits._looking is None


async def test_what_would_end_the_loop_of_the_store_ends_its_transaction(postgres_url: str) -> None:
    """F12, I22: all callers, and whoever waits for notices, would wait for ever."""

    def leave(_: object) -> None:
        raise SystemExit

    database = PostgresDatabase(make_url(postgres_url))
    with pytest.raises(SystemExit):
        await database.read(leave)
    assert await database.read(lambda _: "read") == "read"
    await database.close()
