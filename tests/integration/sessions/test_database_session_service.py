"""The SQLite session store between processes, and when processes die."""

import asyncio
import sys
from pathlib import Path

import pytest

import durable_adk
from durable_adk.sessions import SqliteSessionService
from tests.support.waiting import PATIENCE
from tests.unit.sessions.test_database_session_service import check, commit, opened

CHILD = """
import asyncio, sys
from durable_adk.events import Event, EventActions
from durable_adk.sessions import SessionKey, SqliteSessionService

KEY = SessionKey("app", "user", "session")

async def commit(service, event_id, delta):
    event = Event(id=event_id, invocation_id="i1", actions=EventActions(state_delta=delta))
    return await service.commit_event(KEY, event, invocation_id="i1", epoch=1)

async def main(path, name):
    service = SqliteSessionService(path)
    {body}
    await service.close()

asyncio.run(main(*sys.argv[1:]))
"""
CREATE = "await service.create_session(app_name='app', user_id='user', session_id=name)"
WRITE = """
    for n in range(25):
        await commit(service, f"{name}-{n}", {name: n, "last": f"{name}-{n}"})
        await commit(service, f"shared-{n}", {f"shared-{n}": n})"""
ENDLESS = """
    for n in range(10**6):
        delta = {"n": n, f"k{n % 7}": n, "app:n": n}
        print(await commit(service, f"{name}-{n}", delta), flush=True)"""
WAIT = """
    feed._LONGEST_WAIT = 1000.0
    waiting = asyncio.create_task(service.wait_for_change(KEY, after=1, timeout=1000.0))
    while not any(watch._looked for watch in service._changes.current()):
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await waiting
    print(len(await service.read_events(KEY, after=1)), flush=True)"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
async def service(path):
    made = SqliteSessionService(path)
    yield made
    await made.close()


async def start(body, path, name):
    """A process of its own that runs the body."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD.replace("{body}", body),
        str(path),
        name,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(durable_adk.__file__).parents[1],
    )


async def test_processes_write_at_once(service, path):
    """Writers in several processes lose nothing and duplicate nothing, shared ids included (I1)."""
    await opened(service)
    processes = [await start(WRITE, path, name) for name in ("a", "b", "c")]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    ids = await check(service)
    names = [f"{kind}-{n}" for kind in ("a", "b", "c", "shared") for n in range(25)]
    assert set(ids) == {"user", *names}


async def test_killed_writer_loses_no_acknowledged_commit(service, path):
    """After kill -9 every acknowledged commit is there, whole, and writing continues (I2, I5)."""
    await opened(service)
    for round_number in range(3):
        process = await start(ENDLESS, path, f"r{round_number}")
        acknowledged = [int(await process.stdout.readline()) for _ in range(40)]
        process.kill()
        rest = (await process.stdout.read()).split()
        await process.wait()
        acknowledged += [int(line) for line in rest]
        ids = await check(service)
        assert {seq: f"r{round_number}-{n}" for n, seq in enumerate(acknowledged)}.items() <= {
            seq: event_id for event_id, seq in ids.items()
        }.items()
    assert await commit(service, "after") == len(ids) + 1


@pytest.mark.thorough
async def test_processes_create_the_file_at_once(path):
    """Any number of processes may be the first to use a file."""
    processes = [await start(CREATE, path, f"s{n}") for n in range(4)]
    assert [await process.wait() for process in processes] == [0] * 4
    service = SqliteSessionService(path)
    assert len((await service.list_sessions(app_name="app")).sessions) == 4
    await service.close()


async def test_other_processes_are_heard(service, path):
    """A waiter in another process is woken by a commit (D8)."""
    await opened(service)
    process = await start(WAIT, path, "waiter")
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"ready\n"
        await commit(service, "news")
        assert await process.stdout.readline() == b"1\n"
        assert await process.wait() == 0
