"""Invocations are found in Temporal by search attributes, if its namespace has them (D18)."""

import asyncio
import re
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import Invocations, connect, search_attributes
from durable_adk.client.search_attributes import PERSONAL, forget, register_search_attributes
from durable_adk.embedded import TemporalServer
from durable_adk.errors import SearchAttributesError
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools import AgentTool, FunctionTool
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest
from durable_adk.wire.search_attributes import MARKS
from durable_adk.worker import WorkerOptions, worker
from tests.support.replay import replay_all
from tests.support.scripts import call
from tests.support.waiting import until

TEMPORAL = Path(sys.executable).parent / "temporal"
UPSERT = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES


def refund(amount: int) -> dict[str, int]:
    """Give money back."""
    return {"refunded": amount}


def clerk() -> App:
    """An app that asks before it gives money back, and an expert before it says anything else."""

    def reply(request: LlmRequest) -> Any:
        last = (request.contents[-1].parts or [])[0]
        if last.function_response:
            return "Done."
        return call("refund", amount=5) if last.text == "refund" else call("expert", request="?")

    expert = LlmAgent(name="expert", model=ScriptedModel(replies=["So."] * 9))
    tools = [FunctionTool(refund, require_confirmation=True), AgentTool(expert)]
    return App(
        name="desk",
        root_agent=LlmAgent(name="clerk", model=ScriptedModel(replies=reply), tools=tools),
    )


@pytest.fixture(scope="module")
async def marked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of a server of our own, whose namespace has the attributes; histories replay."""
    folder = tmp_path_factory.mktemp("marked")
    async with TemporalServer.start(data_dir=folder, headless=True) as server:
        client = await connect(server.address)
        assert set(await register_search_attributes(client)) == {key.name for key in MARKS}
        yield client
        await replay_all(client)


@pytest.fixture
async def nobody_has_them(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server that is new."""
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        yield await connect(server.address)


@pytest.fixture
async def task_queue(marked: Client, tmp_path: Path) -> AsyncIterator[str]:
    """Where the clerk is served."""
    sessions = SqliteSessionService(tmp_path / "sessions.db")
    options = WorkerOptions(task_queue=f"test-{uuid.uuid4().hex}")
    async with worker(marked, apps=[clerk()], session_service=sessions, options=options):
        yield options.task_queue
    await sessions.close()


def request(message: str) -> InvocationRequest:
    """A message of a new session."""
    name = uuid.uuid4().hex
    asked = InvocationRequest(
        app="desk", user="ann", session=f"s-{name}", message=message, invocation_id=f"e-{name}"
    )
    return asked.checked()


async def shown(handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
    """What the server shows of a workflow, ours only."""
    pairs = (await handle.describe()).typed_search_attributes
    return {pair.key.name: pair.value for pair in pairs if pair.key.name.startswith("DurableAdk")}


async def upserts(handle: WorkflowHandle[Any, Any]) -> int:
    """How often the workflow has changed its attributes."""
    return len([e async for e in handle.fetch_history_events() if e.event_type == UPSERT])


async def until_shown(handle: WorkflowHandle[Any, Any], status: str) -> dict[str, Any]:
    """What is shown once the status is this."""

    async def found() -> dict[str, Any]:
        now = await shown(handle)
        return now if now["DurableAdkStatus"] == status else {}

    return await until(found)


async def test_a_start_marks_the_invocation_and_a_plain_turn_adds_no_event(
    marked: Client, task_queue: str
) -> None:
    """D18: it is found by app, user, session, invocation and status; a child by its own."""
    asked = request("hello")
    started = await Invocations(marked, task_queue).start(asked)
    assert (await started.result()).text == "Done."
    assert await shown(started.workflow) == {
        "DurableAdkApp": "desk",
        "DurableAdkUser": "ann",
        "DurableAdkSession": asked.session,
        "DurableAdkInvocation": asked.invocation_id,
        "DurableAdkStatus": "running",
    }
    assert await upserts(started.workflow) == 0
    found: set[str] = set()
    while len(found) < 2:
        query = f"TaskQueue = '{task_queue}' AND DurableAdkUser = 'ann'"
        found = {one.id async for one in marked.list_workflows(query)}
    (child,) = found - {started.workflow.id}
    its = await shown(marked.get_workflow_handle(child))
    assert its["DurableAdkApp"] == "desk"
    assert its["DurableAdkSession"] not in (asked.session, None)


async def test_who_waits_is_shown_with_the_time_and_the_agent(
    marked: Client, task_queue: str
) -> None:
    """D18, D9: one event for the pause and one for the answer, and nothing is left of it."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    started = await Invocations(marked, task_queue).start(request("refund"))
    waiting = await until_shown(started.workflow, "waiting")
    assert waiting["DurableAdkAgent"] == "clerk"
    assert before < waiting["DurableAdkWaitingSince"] < datetime.now(UTC) + timedelta(minutes=1)
    (asked,) = await started.workflow.query("pending")
    await started.answer(InvocationAnswer(call_id=asked["callId"], confirmed=True))
    assert (await started.result()).text == "Done."
    now = await shown(started.workflow)
    assert now["DurableAdkStatus"] == "running"
    assert {"DurableAdkAgent", "DurableAdkWaitingSince"}.isdisjoint(now)
    assert await upserts(started.workflow) == 2


async def test_personal_ids_can_be_left_out(
    marked: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2: users and sessions may be people; one setting leaves them out, another all."""
    monkeypatch.setenv("DURABLE_ADK_SEARCH_ATTRIBUTES", "impersonal")
    forget(marked)
    names = set(await shown((await Invocations(marked, task_queue).start(request("x"))).workflow))
    assert names == {"DurableAdkApp", "DurableAdkInvocation", "DurableAdkStatus"}
    monkeypatch.setenv("DURABLE_ADK_SEARCH_ATTRIBUTES", "off")
    forget(marked)
    assert await shown((await Invocations(marked, task_queue).start(request("x"))).workflow) == {}
    forget(marked)


async def test_a_namespace_without_them_is_no_hindrance(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D18: whether the namespace is asked or not, an invocation starts."""
    invocations = Invocations(client, f"none-{uuid.uuid4().hex}")
    for mode in ("auto", "assume"):
        monkeypatch.setenv("DURABLE_ADK_SEARCH_ATTRIBUTES", mode)
        forget(client)
        started = await invocations.start(request("x"))
        assert await shown(started.workflow) == {}
        await started.workflow.terminate()
    forget(client)


@pytest.mark.thorough
async def test_one_who_may_not_register_them_is_told_the_commands(
    nobody_has_them: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D18: as on Temporal Cloud, where somebody else has to do it; and the commands do it."""

    async def denied(client: Client) -> dict[str, Any]:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    monkeypatch.setattr(search_attributes, "_listed", denied)
    with pytest.raises(SearchAttributesError) as caught:
        await register_search_attributes(nobody_has_them, personal=False)
    assert not any(name in str(caught.value) for name in PERSONAL)
    (commands,) = re.findall(r"can run: (.*?)\. ", str(caught.value))
    for command in commands.split(" && "):
        program, *words = command.split()
        assert program == "temporal"
        done = await asyncio.create_subprocess_exec(
            TEMPORAL, *words, "--address", nobody_has_them.service_client.config.target_host
        )
        assert await done.wait() == 0
    monkeypatch.undo()
    assert set(await register_search_attributes(nobody_has_them)) == PERSONAL


async def test_registering_again_changes_nothing(marked: Client) -> None:
    """D18: every worker of a deploy may do it."""
    assert await register_search_attributes(marked) == []


async def test_people_see_where_it_stands_and_no_content(marked: Client, task_queue: str) -> None:
    """D18: summaries name agent, model and tool; the details what it waits for."""
    started = await Invocations(marked, task_queue).start(request("refund"))
    await until_shown(started.workflow, "waiting")
    metadata = await started.workflow.query("__temporal_workflow_metadata")
    assert "waits for `adk_request_confirmation` of clerk" in str(metadata)
    (asked,) = await started.workflow.query("pending")
    await started.answer(InvocationAnswer(call_id=asked["callId"], confirmed=True))
    await started.result()
    events = [event async for event in started.workflow.fetch_history_events()]
    assert _summaries(events, "activity_task_scheduled_event_attributes") == [
        *('"clerk: scripted"', '"refund"', '"refund"', '"clerk: scripted"')
    ]
    assert _summaries(events, "marker_recorded_event_attributes") == [
        *('"desk"', '"clerk"', '"clerk"', '"epoch 1"'),
        '"adk_request_confirmation"',
    ]


def _summaries(events: list[HistoryEvent], kind: str) -> list[str]:
    return [one.user_metadata.summary.data.decode() for one in events if one.HasField(kind)]
