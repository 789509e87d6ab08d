"""Streams in which nothing happens, over two objects of a store that stand for processes."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest
from google.genai import types
from sse_starlette import ServerSentEvent

from durable_adk.client import feed as client_feed
from durable_adk.errors import (
    DurableAdkError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    SessionBusyError,
    SessionNotFoundError,
)
from durable_adk.events import Event
from durable_adk.partials import PartialEvent, partials_of
from durable_adk.server import session_changes
from durable_adk.server.feed import FeedEntry, SessionFeed, StatusItem
from durable_adk.server.services import ServerServices
from durable_adk.server.settings import ServerSettings
from durable_adk.server.streams import ITEMS, EventStream, Reading
from durable_adk.sessions import DatabaseSessionService, SessionKey, Status
from durable_adk.sessions.log import feed
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.sql import polling, postgres as store
from tests.support.postgres import HAS_POSTGRES
from tests.support.statements import counted
from tests.support.waiting import PATIENCE, stays, until

pytestmark = pytest.mark.thorough

KEY = SessionKey("idle-streams", "u", "s")
NEVER = 1000.0
STREAMS = 200


@pytest.fixture(params=["sqlite"] + ["postgres"] * HAS_POSTGRES)
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    """A database; that of PostgreSQL is shared with other tests."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/sessions.db"


@pytest.fixture
def unlooked(monkeypatch) -> None:
    """Nobody looks at the store by the clock."""
    for module in (client_feed, session_changes):
        monkeypatch.setattr(module, "IDLE", NEVER)
    for name in ("_PATIENCE", "_LONG_PATIENCE"):
        monkeypatch.setattr(store, name, NEVER)


@dataclass
class Waits:
    """Counts the readers of stores that wait for a change."""

    now: int = 0
    readers: set[asyncio.Task[Any] | None] = field(default_factory=set)
    """Those that have waited."""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Those of all stores."""
    counted, changed = Waits(), DatabaseSessionService.changed

    async def counting(*given: Any, timeout: float) -> None:  # noqa: ASYNC109  # as in the port
        counted.now += 1
        counted.readers.add(asyncio.current_task())
        try:
            await changed(*given, timeout=timeout)
        finally:
            counted.now -= 1

    monkeypatch.setattr(DatabaseSessionService, "changed", counting)
    return counted


@pytest.fixture
async def stores(url: str) -> AsyncIterator[list[DatabaseSessionService]]:
    """The one of the server, and the one of the workers."""
    made = [DatabaseSessionService(url) for _ in range(2)]
    yield made
    whose = {"app_name": KEY.app_name, "user_id": KEY.user_id}
    for key in await made[0].user_sessions(**whose):
        await made[0].delete_session(**key._asdict())
    await made[0].delete_user_state(**whose)
    for service in made:
        await service.close()


def event(event_id: str) -> Event:
    """One of the invocation that its id begins with."""
    content = types.Content(role="user", parts=[types.Part(text="hi")])
    name = event_id.partition(".")[0]
    return Event(id=event_id, invocation_id=name, author="user", timestamp=1.0, content=content)


async def opened(service: DatabaseSessionService, name: str = "one", key=KEY, **more) -> int:
    """Open an invocation; its epoch."""
    given = {"invocation_id": name, "lease_owner": "w", "create_session": True, **more}
    record = await service.open_invocation(key, user_event=event(f"{name}.0"), **given)
    return record.epoch


async def paused(service: DatabaseSessionService, name: str = "one") -> None:
    """Open an invocation and pause it."""
    epoch = await opened(service, name)
    await service.pause_invocation(KEY, invocation_id=name, epoch=epoch)


class Stream:
    """Reads a feed in a task, as a connection does."""

    def __init__(self, entries: AsyncGenerator[FeedEntry]) -> None:
        self.items: list[str] = []
        self.ended: DurableAdkError | None = None
        self._entries = entries
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with contextlib.aclosing(self._entries):
            try:
                async for entry in self._entries:
                    self.items.append(brief(entry))
                    self._news.set()
            except DurableAdkError as error:
                self.ended = error
        self._news.set()

    async def until(self, *items: str) -> None:
        """Wait until the last items are these."""
        async with asyncio.timeout(PATIENCE):
            while tuple(self.items[-len(items) :]) != items:
                self._news.clear()
                await self._news.wait()


def brief(entry: FeedEntry) -> str:
    """An event's id, a status, or ~ and the text of a chunk."""
    item = entry.item
    if item.type == "status":
        return item.status.value
    if item.type == "event":
        return item.event.id
    return f"~{item.event.content.parts[0].text}"


Streamed = Callable[..., contextlib.AbstractAsyncContextManager[Stream]]


@pytest.fixture
def streamed(waits: Waits) -> Streamed:
    """Have a stream that has sent these items, and waits if it has not ended."""

    @contextlib.asynccontextmanager
    async def streaming(entries: AsyncGenerator[FeedEntry], *items: str) -> AsyncIterator[Stream]:
        stream = Stream(entries)
        try:
            await stream.until(*items)
            await until(lambda: waits.now or stream.task.done())
            yield stream
        finally:
            stream.task.cancel()
            await asyncio.gather(stream.task, return_exceptions=True)

    return streaming


KINDS = ["session", "invocation"]


def of(kind: str, service: DatabaseSessionService) -> AsyncGenerator[FeedEntry]:
    """The feed of the session, or of the invocation."""
    feed = SessionFeed(sessions=service, partials=partials_of(service))
    return feed.session(KEY) if kind == "session" else feed.invocation(KEY, "one")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unlooked")
async def test_an_abandoned_pause_is_told(stores, kind, streamed):
    """Though no event is committed, and no lease is returned."""
    reader, writer = stores
    await paused(writer)
    async with streamed(of(kind, reader), "one.0", "paused") as stream:
        step = {"invocation_id": "one", "epoch": 1, "status": Status.ABANDONED}
        await writer.close_invocation(KEY, **step)
        await stream.until("abandoned")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unlooked")
async def test_a_change_behind_a_read_is_told(stores, kind, monkeypatch, streamed):
    """The stream has read all that it reads when the change comes, and has not begun to wait."""
    reader, writer = stores
    await paused(writer)
    reads = []

    def ending(read):
        async def reading(*given, **named):
            found = await read(*given, **named)
            if not reads:
                reads.append(found)
                step = {"invocation_id": "one", "epoch": 1, "status": Status.ABANDONED}
                await writer.close_invocation(KEY, **step)
            return found

        return reading

    for name in ("read_page", "read_progress"):
        monkeypatch.setattr(reader, name, ending(getattr(reader, name)))
    async with streamed(of(kind, reader), "abandoned"):
        assert reads


@pytest.mark.usefixtures("unlooked")
async def test_an_end_in_a_busy_session_is_told(stores, monkeypatch, streamed):
    """The status is stored at once, and the closing events only when the session is free."""
    monkeypatch.setattr(client_feed, "CLOSING_TIMEOUT", 0.1)
    reader, writer = stores
    await paused(writer)
    await opened(writer, "two")
    ended = {"invocation_id": "one", "epoch": 1, "status": Status.CANCELLED}
    async with streamed(of("invocation", reader), "one.0", "paused") as stream:
        with pytest.raises(SessionBusyError):
            await writer.close_paused(KEY, **ended)
        await stream.until("cancelled")


@pytest.mark.usefixtures("unlooked")
async def test_late_closing_events_are_told(stores, streamed):
    """In the stream of the session, with the status behind them."""
    reader, writer = stores
    await paused(writer)
    two = await opened(writer, "two")
    ended = {"invocation_id": "one", "epoch": 1, "status": Status.CANCELLED}
    async with streamed(of("session", reader), "one.0", "two.0", "paused", "running") as stream:
        with pytest.raises(SessionBusyError):
            await writer.close_paused(KEY, **ended)
        done = {"invocation_id": "two", "epoch": two, "status": Status.COMPLETED}
        await writer.close_invocation(KEY, **done)
        await stream.until("completed")
        await writer.close_paused(KEY, **ended, seals=[event("one.end")])
        await stream.until("one.end", "cancelled")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created-again"])
@pytest.mark.usefixtures("unlooked")
async def test_a_deleted_session_ends_its_streams(stores, kind, again, streamed):
    """Also if another one of the same name was created at once."""
    reader, writer = stores
    await paused(writer)
    async with streamed(of(kind, reader), "one.0", "paused") as stream:
        await writer.delete_session(**KEY._asdict())
        if again:
            await writer.create_session(**KEY._asdict())
        async with asyncio.timeout(PATIENCE):
            await stream.task
        missing = SessionNotFoundError if kind == "session" else InvocationNotFoundError
        assert isinstance(stream.ended, missing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unlooked")
async def test_chunks_arrive_after_an_idle_time(stores, kind, streamed):
    """Of an invocation that continues, as soon as it has begun."""
    reader, writer = stores
    await paused(writer)
    channel = partials_of(writer)
    assert channel is not None
    chunk = event("one.1").model_copy(update={"partial": True})
    async with streamed(of(kind, reader), "one.0", "paused") as stream:
        answer = event("one.answer")
        given = {"invocation_id": "one", "lease_owner": "w", "user_event": answer}
        await writer.resume_invocation(KEY, **given)
        await stream.until("one.answer", "running")
        partial = PartialEvent(
            key=KEY, invocation_id="one", event=chunk, attempt=1, index=0, revision=2
        )

        def arrived() -> bool:
            channel.publish(partial)
            return stream.items[-1] == "~hi"

        await until(arrived)  # the stream subscribes after the status


@pytest.mark.usefixtures("unlooked")
async def test_an_expired_lease_is_found(stores, streamed):
    """Nothing is written when a process dies, so the clock tells."""
    reader, writer = stores
    await opened(writer, ttl=0.5)
    async with streamed(of("invocation", reader), "one.0", "running") as stream:
        async with asyncio.timeout(PATIENCE):
            await stream.task
        assert isinstance(stream.ended, InvocationTerminatedError)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_reader_who_does_not_read_keeps_a_page(stores, kind, monkeypatch):
    """The rest of a long run stays in the store until it is asked for."""
    monkeypatch.setattr(feed, "_PAGE", 3)
    reader, writer = stores
    epoch = await opened(writer)
    for number in range(1, 20):
        new = event(f"one.{number}")
        await writer.commit_event(KEY, new, invocation_id="one", epoch=epoch)
    pages, read_page = [], reader.read_page

    async def read(*given, **named):
        found = await read_page(*given, **named)
        pages.append(found)
        return found

    monkeypatch.setattr(reader, "read_page", read)
    monkeypatch.setattr(reader, "read_events", None)
    async with contextlib.aclosing(of(kind, reader)) as entries:
        seen = [brief(await anext(entries))]
        await stays(lambda: len(pages) == 1)
        seen += [brief(await anext(entries)) for _ in range(20)]
        assert seen == [*(f"one.{number}" for number in range(20)), "running"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unlooked")
async def test_an_idle_stream_keeps_no_event(stores, kind):
    """Nor a record of its invocation: thousands of streams would hold thousands of them."""
    reader, writer = stores
    await paused(writer)
    services = ServerServices(
        session_service=reader, client=Mock(), task_queue=str, settings=ServerSettings()
    )
    told, never = asyncio.Event(), asyncio.Event()

    async def send(message) -> None:
        if b'"paused"' in message.get("body", b""):
            told.set()

    response = EventStream(services, Reading(of(kind, reader)), ITEMS)
    stream = asyncio.create_task(response({}, never.wait, send))
    try:
        await asyncio.wait_for(told.wait(), PATIENCE)
        await until(lambda: not kept())  # it has sent the last item, and may not wait yet
    finally:
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)


def kept() -> list[object]:
    """What a stream of the invocation has read or sent, and is in memory."""
    gc.collect()
    # By type: Temporal's sandbox has objects whose `__class__`, which isinstance reads, raises.
    found = gc.get_objects()
    read = [one for one in found if issubclass(type(one), Event | InvocationRecord | StatusItem)]
    sent = [one for one in found if issubclass(type(one), ServerSentEvent) and one.data]
    return [*(one for one in read if one.invocation_id == "one"), *sent]


@pytest.fixture
def hurried(monkeypatch) -> None:
    """What waits for a change waits only a fiftieth of its time."""
    changed = DatabaseSessionService.changed

    async def hurried(*given, timeout) -> None:  # noqa: ASYNC109  # as in the port
        await changed(*given, timeout=timeout / 50)

    monkeypatch.setattr(DatabaseSessionService, "changed", hurried)
    monkeypatch.setattr(polling, "_PATIENCE", polling._PATIENCE / 50)


@pytest.mark.usefixtures("hurried")
async def test_idle_streams_run_no_statements(stores, waits):
    """A commit of another session costs a statement for a thousand of them, one of theirs a few."""
    reader, writer = stores
    keys = [KEY._replace(session_id=str(number)) for number in range(STREAMS)]
    for key in keys:
        await writer.create_session(**key._asdict())
    feed = SessionFeed(sessions=reader)
    streams = [Stream(feed.session(key)) for key in keys]
    try:
        await until(lambda: len(waits.readers) == STREAMS or any(one.ended for one in streams))
        assert [one.ended for one in streams if one.ended] == []
        with counted() as meanwhile:
            await stays(lambda: len(meanwhile) < 5)  # 25 s for those who wait
        with counted() as of_another:
            await opened(writer)
            await stays(lambda: len(of_another) < STREAMS / 2)
        assert not any(stream.items for stream in streams)
        with counted() as of_one:
            await opened(writer, key=keys[0])
            await streams[0].until("one.0", "running")
        assert len(of_one) < STREAMS / 2
        assert sum(len(stream.items) for stream in streams) == 2
    finally:
        for stream in streams:
            stream.task.cancel()
        await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)
