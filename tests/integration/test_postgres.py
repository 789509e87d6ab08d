"""Everything over one PostgreSQL, in processes of their own, as an operator runs them."""

import asyncio
import json
import re
import shlex
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.genai import types
from sqlalchemy import make_url
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.auth import AuthCredential
from durable_adk.auth.credential_service import FileCredentialService, PostgresCredentialService
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.stores import folder_stores
from durable_adk.encryption import Key
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.memory import PostgresMemoryService
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService
from durable_adk.tools import load_memory
from durable_adk.worker import WorkerOptions, worker
from tests.support.commands import Terminal
from tests.support.desk import DESK
from tests.support.postgres import Databases
from tests.support.private_place import key_file
from tests.support.scripts import USER, call, gist, send

pytestmark = pytest.mark.thorough

OUTDATED = "UPDATE durable_adk_version SET version_num = '0000'"
FACT = types.UserContent("My passport is blue.")
SECRET = "canary-91d2c4"  # noqa: S105 - no secret of anybody


@pytest.fixture
async def url(postgres: Databases) -> str:
    """A database of this test's own; its server asks for no password, and does not mind one."""
    made = make_url(await postgres.make()).set(password=SECRET)
    return made.render_as_string(hide_password=False)


@pytest.fixture
async def terminal(tmp_path: Path, url: str) -> AsyncIterator[Terminal]:
    """A folder with the desk's agent, whose sessions are in the database."""
    opened = Terminal(tmp_path)
    opened.env["DURABLE_ADK_STORE"] = url
    (tmp_path / "desk.py").write_text(DESK)
    yield opened
    opened.close()


def test_the_tables_are_made_and_looked_at_by_commands(terminal: Terminal) -> None:
    """`db status` changes nothing, and nobody sees the password."""
    said = [terminal.run("db", command) for command in ("status", "upgrade", "status")]
    assert [one.returncode for one in said] == [0] * 3
    texts = [one.stdout + one.stderr for one in said]
    assert not any(SECRET in text for text in texts)
    assert "empty; the first use" in texts[0]
    assert "(was: empty)" in texts[1]
    assert "as this package requires" in texts[2]


async def test_a_database_of_its_own_for_memory_is_looked_after_as_well(
    terminal: Terminal, server: TemporalServer, postgres: Databases
) -> None:
    """By `db` and before a worker starts; else the first call of the memory would fail."""
    memory = await postgres.make()
    name = str(make_url(memory).database)
    terminal.env["DURABLE_ADK_MEMORY"] = memory
    upgraded = await asyncio.to_thread(terminal.run, "db", "upgrade")
    assert name in upgraded.stdout
    await postgres.query(memory, "DROP TABLE memories, credentials")
    await postgres.query(memory, OUTDATED)
    status = await asyncio.to_thread(terminal.run, "db", "status")
    assert status.returncode == 1
    assert "as this package requires" in status.stdout
    assert "version 0000" in status.stdout
    done = await asyncio.to_thread(terminal.run, "worker", "desk.py", "--address", server.address)
    assert done.returncode == 1
    assert name in done.stderr
    assert "SchemaOutdatedError" in done.stderr


async def test_old_tables_stop_a_worker_at_its_start(
    terminal: Terminal, server: TemporalServer, url: str, postgres: Databases
) -> None:
    """It ends with the command to type, which is understood."""
    old = DatabaseSessionService(url)
    await old.upgrade()
    await old.close()
    await postgres.query(url, OUTDATED)
    start = ["worker", "desk.py", "--address", server.address]
    done = await asyncio.to_thread(terminal.run, *start)
    assert done.returncode == 1
    assert "SchemaOutdatedError" in done.stderr
    assert SECRET not in done.stderr
    (command,) = re.findall(r"Run: durable-adk (db upgrade .*)$", done.stderr, re.MULTILINE)
    words = [word.replace("***", SECRET) for word in shlex.split(command)]
    await postgres.query(url, "DROP SCHEMA public CASCADE")
    await postgres.query(url, "CREATE SCHEMA public")
    done = await asyncio.to_thread(terminal.run, *words)
    assert "(was: empty)" in done.stdout


def test_an_approval_and_a_second_look(terminal: Terminal, server: TemporalServer) -> None:
    """One process runs the agent, one sends, one approves, and one looks at it all afterwards."""
    queue = f"postgres-{uuid.uuid4().hex}"
    options = ["--address", server.address, "--task-queue", queue]
    terminal.work("desk.py", *options)
    done = terminal.run("run", "desk.py", "refund", "--session", "s", *options)
    assert done.returncode == 0, done.stderr
    (waiting,) = [
        json.loads(line) for line in terminal.run("pending", "--json").stdout.split("\n")[:-1]
    ]
    (command,) = re.findall(r"durable-adk (approve .*)$", done.stderr, re.MULTILINE)
    done = terminal.run(*shlex.split(command))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == '[desk]: refund returned {"refunded": 5}'
    attach = ["attach", "desk.py", waiting["invocationId"], "--session", "s", "--json", *options]
    done = terminal.run(*attach)
    events = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    assert {event.invocation_id for event in events} == {waiting["invocationId"]}
    assert "That was it" in gist(events[-1])
    assert (terminal.folder / "refunds.txt").read_text() == "5\n"
    assert not list(terminal.folder.rglob("*.db")), "what is kept is kept in PostgreSQL"


async def test_a_tool_turn_with_memory(client: Client, url: str) -> None:
    """The events of the feed are those of the store, and the tool finds what was remembered."""
    model = ScriptedModel(replies=[call("load_memory", query="passport"), "It is blue."])
    app = App(name="app", root_agent=LlmAgent(name="agent", model=model, tools=[load_memory]))
    memory = PostgresMemoryService(url)
    sessions, feed = DatabaseSessionService(url), DatabaseSessionService(url)
    old = await sessions.create_session(app_name="app", user_id=USER["user_id"], session_id="old")
    fact = Event(id="f", author="user", timestamp=1.0, content=FACT)
    await sessions.append_event(old, fact)
    await memory.add_session_to_memory(old)
    queue = f"postgres-{uuid.uuid4().hex}"
    stores = {"memory_service": memory}
    serving = worker(
        client,
        apps=[app],
        session_service=sessions,
        options=WorkerOptions(task_queue=queue),
        **stores,
    )
    # The client has a store object of its own: it hears of commits as another process does.
    runner = Runner(
        app=app,
        session_service=feed,
        client=client,
        task_queue=queue,
        auto_create_session=True,
        **stores,
    )
    async with serving, runner:
        events = await send(runner, "What is my passport like?")
    (found,) = events[1].get_function_responses()
    assert "My passport is blue." in str(found.response)
    assert gist(events[-1]).endswith("It is blue.")
    listed = await feed.list_sessions(app_name="app", limit=5)
    assert {session.id for session in listed.sessions} == {"old", USER["session_id"]}
    for service in (sessions, feed, memory):
        await service.close()


async def test_workers_of_all_machines_have_a_users_credentials(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S14: with keys they go to the database by themselves, and runs read them anywhere."""
    monkeypatch.setenv("DURABLE_ADK_ENCRYPTION_KEYS", str(key_file(tmp_path / "keys", Key.new())))
    whose = {"app_name": "app", "user_id": "user", "key": "k"}
    credential = AuthCredential(auth_type="apiKey", api_key="secret")
    sessions = DatabaseSessionService(url)
    async with (
        folder_stores(tmp_path / "here", session_service=sessions) as here,
        folder_stores(tmp_path / "there", session_service=sessions) as there,
    ):
        await here.credential_service.save(**whose, credential=credential)
        assert await there.credential_service.load(**whose) == credential
    await sessions.close()
    assert isinstance(here.credential_service, PostgresCredentialService)


async def test_without_keys_credentials_stay_in_folders(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S14: a database has none in the open; the error for a named one says what is missing."""
    sessions = DatabaseSessionService(url)
    async with folder_stores(tmp_path, session_service=sessions) as stores:
        assert isinstance(stores.credential_service, FileCredentialService)
    monkeypatch.setenv("DURABLE_ADK_CREDENTIALS", url)
    with pytest.raises(InvalidRequestError, match="DURABLE_ADK_ENCRYPTION_KEYS"):
        async with folder_stores(tmp_path, session_service=sessions):
            pass
    await sessions.close()
