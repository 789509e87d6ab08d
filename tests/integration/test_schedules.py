"""Temporal's schedules start invocations (D18)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, ScheduleActionStartWorkflow, ScheduleOverlapPolicy

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect, create_schedule
from durable_adk.client.schedules import list_schedules
from durable_adk.embedded import TemporalServer
from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.errors import AlreadyExistsError, InvalidRequestError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.converter import data_converter, encrypted, stored_in
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import WorkerOptions, worker
from tests.support.commands import Terminal
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

CRON = "0 0 1 1 *"


@pytest.fixture
async def task_queue(client: Client, sessions: SqliteSessionService) -> AsyncIterator[str]:
    """Where app ``herald`` is served."""
    agent = LlmAgent(name="h", model=ScriptedModel(replies=["Hear!"] * 9))
    options = WorkerOptions(task_queue=f"test-{uuid.uuid4().hex}")
    apps = [App(name="herald", root_agent=agent)]
    async with worker(client, apps=apps, session_service=sessions, options=options):
        yield options.task_queue


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A folder to type commands in."""
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def request(session: str | None = None) -> InvocationRequest:
    """What is sent each time."""
    return InvocationRequest(app="herald", user="u", session=session, message="What is new?")


async def finished(client: Client, task_queue: str, count: int) -> list[dict[str, str]]:
    """The results of so many invocations, once they have ended."""
    query = f"TaskQueue = '{task_queue}' AND ExecutionStatus = 'Completed'"

    async def are_there() -> bool:
        return (await client.count_workflows(query)).count >= count

    await until(are_there)
    return [
        await client.get_workflow_handle(one.id, run_id=one.run_id, result_type=dict).result()
        async for one in client.list_workflows(query)
    ]


@pytest.mark.parametrize("session", [None, "daily"])
async def test_each_firing_is_an_invocation_of_its_own(
    client: Client, task_queue: str, session: str | None
) -> None:
    """D18: with an id of its own, in the session that is named, or each in a new one."""
    handle = await create_schedule(
        client, uuid.uuid4().hex, request(session), cron=CRON, task_queue=task_queue
    )
    for count in (1, 2):
        await handle.trigger()
        results = await finished(client, task_queue, count)
    await handle.delete()
    assert [one["text"] for one in results] == ["Hear!"] * 2
    assert len({one["invocationId"] for one in results}) == 2
    assert len({one["session"] for one in results}) == (1 if session else 2)
    assert session in {one["session"] for one in results} | {None}


@pytest.fixture
async def private(tmp_path: Path) -> AsyncIterator[Client]:
    """A client with keys, of a server whose histories nobody else wants to read."""
    codec = EncryptionCodec(keys=KeyRing([Key.new("ours")]))
    async with TemporalServer.start(data_dir=tmp_path / "private", headless=True) as server:
        yield await connect(server.address, data_converter=encrypted(data_converter, codec))


async def test_what_a_schedule_sends_may_be_encrypted(
    private: Client, sessions: SqliteSessionService, tmp_path: Path
) -> None:
    """D16, D18: its firings can read it; what they could not is refused at once."""
    apps = [
        App(name="herald", root_agent=LlmAgent(name="h", model=ScriptedModel(replies=["Hear!"])))
    ]
    queue = f"test-{uuid.uuid4().hex}"
    options = WorkerOptions(task_queue=queue)
    name = uuid.uuid4().hex
    async with worker(private, apps=apps, session_service=sessions, options=options):
        handle = await create_schedule(private, name, request(), cron=CRON, task_queue=queue)
        await handle.trigger()
        (result,) = await finished(private, queue, 1)
        await handle.delete()
    assert result["text"] == "Hear!"
    outside = {**private.config(), "data_converter": stored_in(tmp_path / "payloads", threshold=0)}
    with pytest.raises(InvalidRequestError, match="go to external storage"):
        await create_schedule(Client(**outside), name, request(), cron=CRON)


async def test_a_schedule_is_what_was_asked_for(client: Client) -> None:
    """D18: the times, the policy and the queue; it is listed among ours."""
    name = uuid.uuid4().hex
    handle = await create_schedule(
        client, name, request(), every=timedelta(hours=6), task_queue="q", paused=True,
        overlap=ScheduleOverlapPolicy.BUFFER_ONE,
    )  # fmt: skip
    schedule = (await handle.describe()).schedule
    assert isinstance(schedule.action, ScheduleActionStartWorkflow)
    assert (schedule.action.workflow, schedule.action.task_queue) == ("Invocation", "q")
    assert schedule.policy.overlap is ScheduleOverlapPolicy.BUFFER_ONE
    assert [one.every for one in schedule.spec.intervals] == [timedelta(hours=6)]

    async def listed() -> list[Any]:
        return [one async for one in list_schedules(client) if one.name == name]

    assert (await until(listed))[0].paused
    with pytest.raises(AlreadyExistsError, match=name):
        await create_schedule(client, name, request(), cron=CRON)
    await handle.delete()


async def test_schedules_share_no_workflow_id(client: Client) -> None:
    """D18: also where app and name, joined, are the same text; else one firing would be lost."""
    part, used = uuid.uuid4().hex, set[str]()
    for app, name in (("shop-eu", part), ("shop", f"eu-{part}")):
        asked = request().model_copy(update={"app": app})
        handle = await create_schedule(client, name, asked, cron=CRON, paused=True)
        action = (await handle.describe()).schedule.action
        assert isinstance(action, ScheduleActionStartWorkflow)
        used.add(action.id)
        await handle.delete()
    assert len(used) == 2


async def test_what_cannot_be_scheduled_is_refused(client: Client) -> None:
    """D11: before anything is created, with the remedy."""
    with pytest.raises(InvalidRequestError, match="needs a time"):
        await create_schedule(client, "x", request())
    with pytest.raises(InvalidRequestError, match="refused schedule"):
        await create_schedule(client, "x", request(), cron="at noon")
    named = request().model_copy(update={"invocation_id": "e-1"})
    with pytest.raises(InvalidRequestError, match="invocation_id"):
        await create_schedule(client, "x", named, cron=CRON)
    empty = request().model_copy(update={"message": ""})
    with pytest.raises(InvalidRequestError, match="message is empty"):
        await create_schedule(client, "x", empty, cron=CRON)


async def test_the_command_line_makes_pauses_and_fires_schedules(
    client: Client, server: TemporalServer, task_queue: str, terminal: Terminal
) -> None:
    """D18: create, list, pause, resume, trigger and delete; what is wrong is said in one line."""
    name = f"digest-{uuid.uuid4().hex}"

    async def run(*words: str, code: int = 0) -> str:
        at = ["--address", server.address]
        done = await asyncio.to_thread(terminal.run, "schedule", *words, *at)
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    new = ["create", name, "herald", "What is new?", "--task-queue", task_queue]
    assert "use a number" in await run(*new, "--every", "soon", code=1)
    await run(*new, "--every", "6h", "--session", "daily")
    await run("pause", name)
    while not (line := _line(await run("list"), name)) or line[1] != "paused":
        pass
    assert line[2:] == ["every", "6:00:00", "herald", "user", "daily", "What", "is", "new?"]
    await run("resume", name)
    await run("trigger", name)
    (result,) = await finished(client, task_queue, 1)
    assert (result["session"], result["text"]) == ("daily", "Hear!")
    await run("delete", name)
    assert "No schedule" in await run("trigger", name, code=1)


async def test_the_command_line_needs_a_server_that_stays(terminal: Terminal) -> None:
    """D18: it starts none, which would end with the command, and says how to; dev's is used."""
    alone = await asyncio.to_thread(terminal.run, "schedule", "list")
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "No `durable-adk dev` runs with " in alone.stderr
    assert not [*terminal.folder.iterdir()]
    async with TemporalServer.start(data_dir=terminal.folder / ".durable-adk", headless=True):
        done = await asyncio.to_thread(terminal.run, "schedule", "list")
    assert (done.returncode, done.stdout) == (0, "There are no schedules.\n"), done.stderr


def _line(listed: str, name: str) -> list[str]:
    """The words of a schedule's line; none if it is not in the list yet."""
    return next((line.split() for line in listed.splitlines() if line.startswith(name)), [])
