"""What the memory file keeps when processes share it, are killed, or find it unusable."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from durable_adk.events import Event
from durable_adk.memory import SqliteMemoryService
from durable_adk.sessions import Session
from tests.unit.memory.test_sqlite_memory_service import OWNER, content, texts

PROLOGUE = """
import asyncio, os, signal, sys
from google.genai import types
from durable_adk.events import Event
from durable_adk.memory import MemoryEntry, SqliteMemoryService, sqlite_memory_service
from durable_adk.sessions import Session

owner = {"app_name": "app", "user_id": "user"}
service = SqliteMemoryService(sys.argv[1])

def content(text):
    return types.Content(role="user", parts=[types.Part(text=text)])
"""
RACE = """
async def add(number):
    for n in range(10):
        entry = MemoryEntry(content=content(f"tea {number} {n}"))
        await service.add_memory(**owner, memories=[entry])
        await service.search_memory(**owner, query="tea")

pids = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        asyncio.run(add(number))
        os._exit(0)
    pids.append(pid)
sys.exit(any([os.waitpid(pid, 0)[1] for pid in pids]))
"""
KILLED = """
real = sqlite_memory_service._add
def add(connection, owner, memory):
    real(connection, owner, memory)
    if memory.entry_id == "e3":
        os.kill(os.getpid(), signal.SIGKILL)
sqlite_memory_service._add = add
events = [Event(id=f"e{n}", content=content(f"new {n}")) for n in range(6)]
session = Session(id="s", app_name="app", user_id="user", events=events)
asyncio.run(service.add_session_to_memory(session))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def service(path):
    return SqliteMemoryService(path)


def run(script, path):
    """How a process that shares the file ends."""
    command = [sys.executable, "-c", PROLOGUE + script, str(path)]
    return subprocess.run(command, check=False, timeout=100).returncode


async def test_processes_lose_no_memory(service, path):
    """40 memories by 4 processes that begin with no file are all found."""
    assert await asyncio.to_thread(run, RACE, path) == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (40,)
        assert connection.execute("SELECT count(*) FROM memory_words").fetchone() == (40,)
        connection.execute("INSERT INTO memory_words(memory_words) VALUES ('integrity-check')")
    assert len(await texts(service, "tea")) == 10


async def test_a_killed_replacement_changes_nothing(service, path):
    """A process that dies while it replaces a session leaves what was there, all of it."""
    events = [Event(id=f"e{n}", content=content(f"old {n}")) for n in range(4)]
    session = Session(id="s", **OWNER, events=events)
    await service.add_session_to_memory(session)
    assert await asyncio.to_thread(run, KILLED, path) == -9
    assert sorted(await texts(service, "old")) == [f"old {n}" for n in range(4)]
    assert await texts(service, "new") == []
