"""Workflows that an operator resets while they run (I11)."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.events import Event, EventActions
from durable_adk.graph.base_node import BaseNode
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService, Status
from durable_adk.worker import WorkerOptions, worker
from tests.support.gates import until_set
from tests.support.waiting import PATIENCE, forever, until

pytestmark = pytest.mark.thorough


@pytest.fixture
def task_queue() -> str:
    """A queue of the test's own."""
    return uuid.uuid4().hex


class Works:
    """A tool that never ends the first time."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.runs = 0

    async def work(self) -> dict[str, Any]:
        """Work."""
        self.runs += 1
        self.begun.set()
        if self.runs == 1:
            await forever()
        return {"done": True}

    def agent(self) -> LlmAgent:
        """An agent that uses it for whoever says so."""
        return LlmAgent(name="a", model=ScriptedModel(replies=_reply), tools=[self.work])


def _reply(request: LlmRequest) -> Any:
    last = request.contents[-1].parts[-1]  # type: ignore[index] # it has parts
    if last.function_response or last.text != "work":
        return "done"
    return types.Part(function_call=types.FunctionCall(name="work", args={}))


def serving(
    client: Client, task_queue: str, agent: BaseNode, store: SqliteSessionService
) -> AbstractAsyncContextManager[Worker]:
    """A worker of the agent."""
    options = WorkerOptions(task_queue=task_queue)
    app = App(name="a", root_agent=agent)
    return worker(client, apps=[app], session_service=store, options=options)


async def reset(client: Client, workflow_id: str) -> None:
    """Reset a workflow to its first task."""
    handle = client.get_workflow_handle(workflow_id)
    done = [
        event.event_id
        async for event in handle.fetch_history_events()
        if event.HasField("workflow_task_completed_event_attributes")
    ]
    request = ResetWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(
            workflow_id=workflow_id, run_id=(await handle.describe()).run_id
        ),
        reason="test",
        workflow_task_finish_event_id=done[0],
        request_id=str(uuid.uuid4()),
    )
    await client.workflow_service.reset_workflow_execution(request)


async def test_a_reset_run_goes_on_with_its_invocation(
    client: Client, task_queue: str, tmp_path: Path
) -> None:
    """I11, D7: one that has no id, too; the next message is answered, and its client follows."""
    works, store = Works(), SqliteSessionService(tmp_path / "s.db")
    agent = works.agent()
    request = {"app": "a", "user": "u", "session": "s", "message": "work"}
    name = f"reset-{task_queue}"
    async with (
        asyncio.timeout(PATIENCE),
        serving(client, task_queue, agent, store),
        Runner(
            app_name="a",
            agent=agent,
            session_service=store,
            client=client,
            task_queue=task_queue,
        ) as runner,
    ):
        await client.start_workflow("Invocation", request, id=name, task_queue=task_queue)
        await until_set(works.begun)
        ((_, record),) = await store.invocations_by_time(app_name="a", user_id="u")

        seen: list[Event] = []

        async def follow(**more: Any) -> list[str]:
            async for event in runner.run_async(user_id="u", session_id="s", **more):
                seen.append(event)  # noqa: PERF401 - others look at it meanwhile
            return [event.text or "" for event in seen]

        followed = asyncio.create_task(follow(invocation_id=record.invocation_id))
        await until(lambda: seen)
        await reset(client, name)
        result = await client.get_workflow_handle(name).result()
        assert result["invocationId"] == record.invocation_id
        assert (await followed)[-1] == "done"
        seen.clear()
        assert await follow(new_message="hello") == ["done"]
        states = [
            one.status for _, one in await store.invocations_by_time(app_name="a", user_id="u")
        ]
        assert states == [Status.COMPLETED, Status.COMPLETED]


class Draws(BaseAgent):
    """A body whose steps, and whose sub-agents' callbacks, give something else each time."""

    hold: Callable[[], Awaitable[None]]

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for _ in range(2):
            number = await ctx.step(self.draw)
            delta = {"drawn": ctx.session.state.get("drawn", "") + number}
            actions = EventActions(state_delta=delta)
            yield Event(author=self.name, content=said(number), actions=actions)
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                event.content = said(f"<{event.text}>")
                yield event
        await ctx.step(self.wait)
        yield Event(author=self.name, content=said(await ctx.step(self.draw)))

    async def draw(self) -> str:
        """Draw a number."""
        return uuid.uuid4().hex[:8]

    async def wait(self) -> None:
        """Wait for the test."""
        await self.hold()


def said(text: str) -> types.Content:
    """What an agent says."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def drawn(callback_context: Any) -> types.Content:
    """A callback that draws a number as well."""
    del callback_context
    return said(uuid.uuid4().hex[:8])


def note_number(callback_context: Any) -> None:
    """A callback that keeps one in the state."""
    callback_context.state["noted"] = uuid.uuid4().hex[:8]


def below(name: str, **options: Any) -> LlmAgent:
    """A sub-agent whose model says something else each time."""
    model = ScriptedModel(replies=lambda _: uuid.uuid4().hex[:8])
    return LlmAgent(name=name, model=model, **options)


async def test_a_body_that_draws_is_given_what_it_was_given_before_the_reset(
    client: Client, task_queue: str, tmp_path: Path
) -> None:
    """I7, I11: what is stored stays, and what follows goes by it."""
    begun, store = asyncio.Event(), SqliteSessionService(tmp_path / "s.db")

    async def hold() -> None:
        waits = not begun.is_set()
        begun.set()
        if waits:
            await forever()

    lanes = ParallelAgent(
        name="both", sub_agents=[below("left", after_agent_callback=drawn), below("right")]
    )
    agents: list[BaseAgent] = [
        below("plain"),
        below("noting", before_agent_callback=note_number, after_agent_callback=drawn),
        lanes,
    ]
    agent = Draws(name="draws", hold=hold, sub_agents=agents)
    request = {"app": "a", "user": "u", "session": "s", "message": "go"}
    name = f"reset-{task_queue}"
    async with asyncio.timeout(PATIENCE), serving(client, task_queue, agent, store):
        await client.start_workflow("Invocation", request, id=name, task_queue=task_queue)
        await until_set(begun)
        key = SessionKey("a", "u", "s")
        before = await store.read_events(key)
        await reset(client, name)
        result = await client.get_workflow_handle(name).result()
        events = await store.read_events(key)
    assert result["status"] == "completed"
    assert events[: len(before)] == before
    assert len(events) == len(before) + 1


async def test_only_the_runtime_starts_an_agent_as_a_tool(
    client: Client, task_queue: str, tmp_path: Path
) -> None:
    """S3, I18: a start that anybody can write reads no other session, and skips no plugin."""
    store = SqliteSessionService(tmp_path / "s.db")
    agent = Works().agent()
    forged = {
        "app": "a",
        "user": "mallory",
        "session": "s",
        "message": "hi",
        "toolRun": {"agent": "a", "caller": ["a", "alice", "hers"], "root": ["a", "alice", "hers"]},
    }
    async with serving(client, task_queue, agent, store):
        with pytest.raises(WorkflowFailureError) as caught:
            await client.execute_workflow(
                "Invocation", forged, id=f"forged-{task_queue}", task_queue=task_queue
            )
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "InvalidRequestError"
    assert "toolRun" in cause.message
