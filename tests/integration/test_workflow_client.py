"""A workflow of somebody else asks an agent (D18)."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.embedded import TemporalServer
from durable_adk.errors import ModelError, UnknownAppError
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.plugin import DurableAdkPlugin
from durable_adk.sessions import SessionKey, SqliteSessionService, Status
from durable_adk.workflow_client import AgentRunError, InvocationRequest, run_agent
from tests.support.streams import StreamingModel
from tests.support.waiting import until


def request(app: str) -> InvocationRequest:
    """A message in a session that is known."""
    return InvocationRequest(app=app, user="u", session="s", message="France?", invocation_id="e-1")


@workflow.defn(name="Asks")
class Asks:
    """A workflow of theirs, in the sandbox; importing our types there is no matter."""

    @workflow.run
    async def run(self, app: str) -> str:
        """Have an agent answer."""
        queue = workflow.info().task_queue
        return (await run_agent(request(app), task_queue=queue)).text


@workflow.defn(name="Catches")
class Catches:
    """One that looks at what went wrong."""

    @workflow.run
    async def run(self, app: str) -> str:
        """Say by which class."""
        try:
            await run_agent(request(app), task_queue=workflow.info().task_queue)
        except AgentRunError as failed:
            return f"{type(failed.error) is ModelError} {failed.error.message}"
        return "nothing"


def broken(request: LlmRequest) -> str:
    """A model that refuses."""
    raise ModelError("no such model")


@pytest.fixture
async def place(
    server: TemporalServer, sessions: SqliteSessionService
) -> AsyncIterator[tuple[Client, str]]:
    """A client and the task queue of a worker with their workflows and our apps."""
    models = {
        "geo": ScriptedModel(replies=["Paris."]),
        "broken": ScriptedModel(replies=broken),
        "slow": StreamingModel(turns=[[asyncio.Event(), "late"]]),
    }
    apps = [App(name=name, root_agent=LlmAgent(name="a", model=models[name])) for name in models]
    plugin = DurableAdkPlugin(apps=apps, session_service=sessions)
    client = await Client.connect(server.address, plugins=[plugin])
    task_queue = f"test-{uuid.uuid4().hex}"
    async with Worker(client, task_queue=task_queue, workflows=[Asks, Catches]):
        yield client, task_queue


@pytest.mark.thorough
async def test_a_workflow_gets_a_typed_answer(place: tuple[Client, str]) -> None:
    """D18, I13: in the sandbox, with one call; and its history replays."""
    client, queue = place
    handle = await client.start_workflow(Asks.run, "geo", id=uuid.uuid4().hex, task_queue=queue)
    assert await handle.result() == "Paris."
    replayer = Replayer(workflows=[Asks], plugins=[DurableAdkPlugin()])
    await replayer.replay_workflow(await handle.fetch_history())


async def test_a_failure_keeps_its_class(place: tuple[Client, str]) -> None:
    """D18, DUR-10: whoever catches it sees our class; not caught, it fails the workflow."""
    client, queue = place
    said = await client.execute_workflow(
        Catches.run, "broken", id=uuid.uuid4().hex, task_queue=queue
    )
    assert said == "True no such model"
    with pytest.raises(WorkflowFailureError) as caught:
        await client.execute_workflow(Asks.run, "none", id=uuid.uuid4().hex, task_queue=queue)
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == UnknownAppError.__name__


async def test_cancelling_reaches_the_agent(
    place: tuple[Client, str], sessions: SqliteSessionService
) -> None:
    """D18, CAN-1: the caller ends as cancelled, and the session is sealed and free by then."""
    client, queue = place
    handle = await client.start_workflow(Asks.run, "slow", id=uuid.uuid4().hex, task_queue=queue)
    key = SessionKey("slow", "u", "s")
    await until(lambda: sessions.get_invocation(key, "e-1"))
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
    record = await sessions.get_invocation(key, "e-1")
    assert record is not None
    assert record.status is Status.CANCELLED
    assert await sessions.active_invocation(key) is None
