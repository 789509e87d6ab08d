"""The SQLite session store between processes, and when processes die."""

import asyncio
import contextlib
import gc
import shutil
import sqlite3
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url
from sqlalchemy.dialects import sqlite

from durable_adk.errors import InvalidRequestError, SessionBusyError, StoreUnavailableError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import (
    DatabaseSessionService,
    QueuePosition,
    SessionKey,
    SqliteSessionService,
    Status,
)
from durable_adk.sessions.log.listing import Listing
from durable_adk.sessions.log.storage import (
    InvocationPosition,
    InvocationsByTime,
    Position,
)
from durable_adk.sessions.records import OPEN
from durable_adk.sessions.sql import sqlite as sqlite_store
from durable_adk.sessions.sql.statements import by_time_query
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sql import migrate, schema
from tests.support import made_tables
from tests.support.later_tables import later_tables
from tests.unit.sessions import contract
from tests.unit.sessions.contract import ended, only_changes_wake, waiter

KEY = SessionKey("app", "user", "session")
NAMES = KEY._asdict()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
async def service(path):
    made = SqliteSessionService(path)
    yield made
    await made.close()


async def opened(service):
    user_event = Event(id="user", invocation_id="i1", author="user")
    return await service.open_invocation(
        KEY, invocation_id="i1", lease_owner="local:1", user_event=user_event, create_session=True
    )


async def commit(service, event_id, **delta):
    event = Event(id=event_id, invocation_id="i1", actions=EventActions(state_delta=delta))
    return await service.commit_event(KEY, event, invocation_id="i1", epoch=1)


async def check(service):
    """The log has no gap and no duplicate, and the state is its fold (I1, I3, I4)."""
    stored = await service.read_events(KEY)
    revision, state = await service.read_state(KEY)
    assert [one.seq for one in stored] == list(range(1, revision + 1))
    assert len({one.event.id for one in stored}) == revision
    fold: dict = {}
    for one in stored:
        fold |= one.event.actions.state_delta
    assert state == fold
    return {one.event.id: one.seq for one in stored}


async def test_two_services_share_a_file(service, path):
    """What one service object commits the other reads, and both may write."""
    await opened(service)
    other = SqliteSessionService(path)
    assert await commit(other, "a", x=1) == 2
    assert await commit(service, "b", x=2) == 3
    assert await commit(other, "b", x=2) == 3
    assert await other.read_state(KEY) == (3, {"x": 2})
    await other.close()


@pytest.mark.parametrize("operation", ["pause_invocation", "close_invocation"])
async def test_another_object_is_heard(service, path, operation, monkeypatch):
    """A paused or closed invocation, which adds no event, ends another service object's wait."""
    only_changes_wake(monkeypatch)
    await opened(service)
    other = SqliteSessionService(path)
    waiting = await waiter(other, KEY)
    status = {"status": Status.COMPLETED} if operation == "close_invocation" else {}
    await getattr(service, operation)(KEY, invocation_id="i1", epoch=1, **status)
    await ended(waiting)
    await other.close()


async def test_locked_file_is_unavailable(path, monkeypatch):
    """A lock held too long raises StoreUnavailableError; the repeat then works once."""
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT", 0.3)
    service = SqliteSessionService(path)
    await opened(service)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as lease_owner:
        lease_owner.execute("BEGIN EXCLUSIVE")
        results = await asyncio.gather(
            *(commit(service, f"c{n}") for n in range(8)), return_exceptions=True
        )
        assert all(isinstance(one, StoreUnavailableError) for one in results)
        assert len(await service.read_events(KEY)) == 1  # readers are not locked out
        lease_owner.execute("ROLLBACK")
    assert await commit(service, "c0") == await commit(service, "c0") == 2
    await check(service)
    await service.close()


async def test_unreachable_file_is_unavailable(tmp_path):
    """A path that cannot be opened raises StoreUnavailableError, not the driver's error."""
    (tmp_path / "file").write_text("")
    service = SqliteSessionService(tmp_path / "file" / "sessions.db")
    with pytest.raises(StoreUnavailableError):
        await service.list_sessions(app_name="app")
    await service.close()


@pytest.mark.parametrize("intact", [0, 4096])
async def test_a_damaged_file_is_unavailable(service, path, intact):
    """It waits for an operator, as a lost file does; no invocation fails for it."""
    await service.create_session(**NAMES, state={"long": "x" * 100_000})
    for _ in range(2):
        await service.close()
        kept = path.read_bytes()
        path.write_bytes(kept[:intact] + b"garbage" * 20_000)
        with pytest.raises(StoreUnavailableError, match=f"{path} does not answer"):
            await service.get_session(**NAMES)
    path.write_bytes(kept)


@pytest.mark.parametrize("deleted", [("",), ("", "-wal", "-shm"), ("-wal",), ("-shm",)])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_not_at_its_path_is_unavailable(tmp_path, deleted, replaced):
    """Nothing is read, acknowledged or made anew until the file is back or is opened again."""
    files = [tmp_path / f"sessions.db{one}" for one in deleted]
    async with SqliteSessionService(tmp_path / "sessions.db") as service:
        await opened(service)
        for one in files:
            one.rename(f"{one}.away")
            if replaced:
                shutil.copyfile(f"{one}.away", one)
        for work in (lambda: commit(service, "lost"), lambda: service.read_events(KEY)):
            with pytest.raises(StoreUnavailableError, match=f"{files[0]} was deleted or replaced"):
                await work()
        assert [one.exists() for one in files] == [replaced] * len(files)
        for one in files:
            shutil.move(f"{one}.away", one)
        assert await commit(service, "kept") == 2
        assert await check(service) == {"user": 1, "kept": 2}


async def test_what_is_committed_to_a_replaced_file_is_not_acknowledged(service, path):
    """The file is compared after the commit, too: another process may replace it meanwhile."""
    await opened(service)

    def work(tables):
        for one in path.parent.iterdir():
            one.unlink()
        return tables.head(KEY)

    with pytest.raises(StoreUnavailableError, match="was deleted or replaced"):
        await service._sql.write(work)
    await service.close()
    assert await service.read_events(KEY) == [], "another file, which has the tables"


@pytest.mark.parametrize("step", ["save_head", "put_state", "put_invocation"])
async def test_broken_write_leaves_nothing(service, monkeypatch, step):
    """A failure between the statements of a write leaves no part of it behind (I5)."""
    await service.create_session(**NAMES)

    def fail(*_):
        raise RuntimeError(step)

    with monkeypatch.context() as patch:
        patch.setattr(Tables, step, fail)
        with pytest.raises(RuntimeError):
            await opened(service)
    assert await service.read_events(KEY) == []
    assert await service.active_invocation(KEY) is None
    await opened(service)
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "put_state", fail)
        with pytest.raises(RuntimeError):
            await commit(service, "c", x=1)
    assert await check(service) == {"user": 1}
    assert await commit(service, "c", x=1) == 2


@pytest.mark.parametrize("step", ["save_head", "put_state", "put_invocation"])
async def test_broken_answer_leaves_nothing(service, monkeypatch, step):
    """A failure within a resumption leaves the invocation paused, without a lease or event (I5)."""

    async def resume():
        answer = Event(id="a", invocation_id="i1", actions=EventActions(state_delta={"x": 1}))
        return await service.resume_invocation(
            KEY, invocation_id="i1", lease_owner="local:2", user_event=answer
        )

    def fail(*_):
        raise RuntimeError(step)

    await opened(service)
    paused = await service.pause_invocation(KEY, invocation_id="i1", epoch=1)
    with monkeypatch.context() as patch:
        patch.setattr(Tables, step, fail)
        with pytest.raises(RuntimeError):
            await resume()
    assert await check(service) == {"user": 1}
    assert await service.active_invocation(KEY) is None
    assert await service.get_invocation(KEY, "i1") == paused
    assert (await resume()).epoch == 2
    assert await check(service) == {"user": 1, "a": 2}


async def test_cancelled_callers_break_nothing(service):
    """Commits whose callers give up happen whole or not at all, and lock nobody out (I5)."""
    await opened(service)
    for n in range(30):
        task = asyncio.create_task(commit(service, f"c{n}", x=n))
        for _ in range(10 * n):  # each caller gives up a few turns of the loop later
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await commit(service, "last", x=-1)
    await check(service)


async def test_closed_service_opens_again(service):
    """A service that was closed, also twice, serves on."""
    await opened(service)
    await service.close()
    await service.close()
    assert await commit(service, "c") == 2


async def test_commits_survive_power_loss(service, path):
    """The file has a write-ahead log, and each commit waits for the disk."""
    await opened(service)
    for connection in service._sql._idle:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert service._sql._idle


async def test_migrations_make_the_schema(service, path):
    """The migrations and the tables the code uses are the same."""
    await service.prepare()
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": "durable_adk_version", "compare_type": True}
        )
        assert compare_metadata(context, schema.METADATA) == []
    engine.dispose()


async def test_older_file_is_upgraded(service, path, tmp_path):
    """What a file of the version before holds stays as it was, and can then be paused."""
    record = await opened(service)
    await service.close()
    with later_tables(tmp_path):
        later = SqliteSessionService(path)
        assert ((KEY, record),) == tuple(
            await later.invocations_by_time(app_name="app", statuses={Status.RUNNING})
        )
        assert (await later.schema()).current
        assert record == await later.active_invocation(KEY)
        assert await commit(later, "c", x=1) == 2
        paused = await later.pause_invocation(KEY, invocation_id="i1", epoch=1)
        assert (paused.status, paused.pauses) == (Status.PAUSED, 1)
        await check(later)
        await later.close()


ONE_SESSION = {"user_id": "user", "session_id": "session"}
OF_STATUS = "invocations_newest (app_name=? AND status=?"
OF_USER = "invocations_of_user (app_name=? AND user_id=?"
OF_SESSION = "PRIMARY KEY (app_name=? AND user_id=? AND session_id=?)"


@pytest.mark.parametrize(
    ("narrowed", "index", "times"),
    [
        ({}, "invocations_of_app (app_name=?", 1),
        ({"user_id": "user"}, OF_USER, 1),
        ({"statuses": {Status.PAUSED}}, OF_STATUS, 1),
        ({"statuses": OPEN}, OF_STATUS, len(OPEN)),
        ({"statuses": OPEN, "session_id": "session"}, OF_STATUS, len(OPEN)),
        ({"statuses": OPEN, "user_id": "user"}, OF_USER, 1),
        (ONE_SESSION, OF_SESSION, 1),
        ({"statuses": OPEN, **ONE_SESSION}, OF_SESSION, 1),
    ],
)
async def test_invocations_by_time_are_found_by_an_index(service, path, narrowed, index, times):
    """However many invocations have ended, those that wait are found without looking at them.

    A page begins where the last one ended, and a page of one session looks at no other session.
    """
    position = InvocationPosition.of(KEY, await opened(service))
    for beyond, oldest_first in product((None, position), (False, True)):
        wanted = InvocationsByTime(
            app_name="app", limit=5, beyond=beyond, oldest_first=oldest_first, **narrowed
        )
        statement, plan = plan_of(by_time_query(wanted), path)
        assert plan.count(index) == times
        if index != OF_SESSION:
            assert plan.count("update_time") == (times if beyond else 0)
        assert statement.count("LIMIT 5") == (times + 1 if times > 1 else 1)
        assert "SCAN invocations" not in plan
        assert times > 1 or index == OF_SESSION or "TEMP B-TREE" not in plan


def plan_of(query, path):
    """A statement, and how SQLite runs it."""
    written = {"literal_binds": True}
    compiled = query.compile(dialect=sqlite.dialect(), compile_kwargs=written)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(compiled), str(connection.execute(f"EXPLAIN QUERY PLAN {compiled}").fetchall())


@pytest.mark.parametrize(("user", "index"), [(None, "of_app"), ("user", "of_user")])
async def test_pages_of_sessions_are_found_by_an_index(service, path, user, index):
    """However many sessions there are, a page reads no others, and sorts none."""
    await opened(service)
    statements = []
    service._sql._opened._connection.set_trace_callback(statements.append)
    listing = Listing(app_name="app", user_id=user, limit=1, after=None, since=None)
    token = listing._token(Position(1.0, "user", "a"))
    for page_token in (None, token):
        found = await service.list_sessions(
            app_name="app", user_id=user, limit=1, page_token=page_token
        )
        assert len(found.sessions) == 1
    statements = [one for one in statements if one not in {"BEGIN", "COMMIT"}]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            plan = str(connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall())
            if "FROM sessions" in statement:
                assert f"sessions_{index}" in plan
                assert "TEMP B-TREE" not in plan
            assert "SCAN state" not in plan
    assert [one.split()[0] for one in statements] == ["SELECT", "WITH"] * 2


async def test_newer_file_is_refused(service, path):
    """A file that a newer version of the package wrote is refused with the reason."""
    await service.prepare()
    await service.close()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE durable_adk_version SET version_num = '9999'")
    older = SqliteSessionService(path)
    with pytest.raises(InvalidRequestError, match="version"):
        await older.prepare()
    await older.close()


async def test_the_needed_version_is_the_newest_migrations():
    """No migration is left out."""
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert scripts.get_current_head() == migrate.HEAD


@pytest.mark.parametrize("url", ["mysql://host/name", "no url", "", None])
def test_unfit_urls_are_refused(url):
    """Databases of other kinds are refused when the service is made."""
    with pytest.raises(InvalidRequestError):
        DatabaseSessionService(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite+aiosqlite:///:memory:", ":memory:"])
async def test_a_database_in_memory_lives_as_long_as_its_service(url):
    """It is a temporary file: connections may come and go, but two services share nothing."""
    made = SqliteSessionService if url == ":memory:" else DatabaseSessionService
    async with made(url) as first, made(url) as second:
        await first.create_session(**NAMES)
        await first.close()
        assert await first.get_session(**NAMES)
        assert await second.get_session(**NAMES) is None
    file = first.file
    del first
    gc.collect()
    assert not file.exists()


async def test_an_engine_stands_for_its_url(tmp_path):
    """ADK takes an engine of the application; ours opens connections of its own."""
    engine = SimpleNamespace(url=make_url(f"sqlite+aiosqlite:///{tmp_path / 'x.db'}"))
    async with DatabaseSessionService(db_engine=engine) as service:
        assert service.file == tmp_path / "x.db"
    with pytest.raises(InvalidRequestError, match="either"):
        DatabaseSessionService("sqlite:///x.db", db_engine=engine)


@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite+aiosqlite:///{}", "{}"])
async def test_a_file_is_named_by_its_path_or_its_url(url, tmp_path):
    """As ADK's service takes both; a URL is not a path with a folder `sqlite:`."""
    async with SqliteSessionService(url.format(tmp_path / "x.db")) as service:
        await service.create_session(**NAMES)
    assert (tmp_path / "x.db").exists()


def test_options_of_an_engine_are_taken(caplog):
    """They are ADK's, and have no effect; the log says so."""
    DatabaseSessionService("sqlite:///x.db", pool_pre_ping=True)
    assert "engine_options_ignored" in caplog.text


async def test_any_path_works(tmp_path):
    """Characters that mean something in a URL mean nothing in a path."""
    path = tmp_path / "a?b#c%20d" / "s:e.db"
    service = SqliteSessionService(path)
    await opened(service)
    await service.close()
    assert path.exists()


async def test_driver_in_the_url_does_not_matter(path):
    """ADK's URLs with an asyncio driver work as they are."""
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    await opened(service)
    await service.close()
    assert path.exists()


async def test_stores_of_one_process_are_made_at_the_same_time(tmp_path, monkeypatch):
    """Eight files, first used at once: the migrations do not get into each other's way."""
    monkeypatch.setattr(sqlite_store, "_create", made_tables.CREATE)
    stores = [SqliteSessionService(tmp_path / f"{number}.db") for number in range(8)]
    keys = {"app_name": "app", "user_id": "u", "session_id": "s"}
    await asyncio.gather(*(store.create_session(**keys) for store in stores))
    assert all([await store.get_session(**keys) for store in stores])
    for store in stores:
        await store.close()


async def test_what_was_deleted_is_in_no_file_after_scrubbing(tmp_path):
    """S6: a file keeps deleted rows in free pages, and in its write-ahead log."""
    service = SqliteSessionService(tmp_path / "sessions.db")
    whose = {"app_name": "a", "user_id": "u", "session_id": "s"}
    await service.create_session(**whose, state={"note": "canary-7c1d" * 3000})
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA secure_delete=OFF")  # some builds have it on
        connection.execute("DELETE FROM state")
        connection.commit()
    await service.delete_session(**whose)

    def has() -> bool:
        return any(b"canary-7c1d" in path.read_bytes() for path in tmp_path.iterdir())

    assert has()
    await service.scrub()
    assert not has()
    await service.close()


async def test_a_look_at_its_turn_costs_no_more_where_many_wait(path, monkeypatch):
    """I22: who came last reads its own ticket and the first, while nobody has the lease."""
    service, reads, tickets = SqliteSessionService(path), [], Tables.tickets

    def counted(*args, **options):
        found = tickets(*args, **options)
        reads.append(len(found))
        return found

    async def asks(name):
        with contextlib.suppress(SessionBusyError):
            await contract.opened(service, KEY, name, lease_owner=name, position=QueuePosition.LAST)

    active = await contract.opened(service, KEY, "active", lease_owner="active")
    for number in range(21):
        await asks(f"{number}")
    ending = {"invocation_id": "active", "epoch": active.epoch, "status": Status.COMPLETED}
    await service.close_invocation(KEY, **ending)
    monkeypatch.setattr(Tables, "tickets", counted)
    own = {"invocation_id": "20", "lease_owner": "20", "position": QueuePosition.LAST}
    with pytest.raises(SessionBusyError):
        await service.check_turn(KEY, **own)
    await asks("20")
    await service.close()
    assert sum(reads) <= 2
