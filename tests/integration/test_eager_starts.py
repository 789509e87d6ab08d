"""A worker takes the first task of what its own process starts, unless an operator chooses it."""

import uuid
from contextlib import AsyncExitStack

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.client.invocations import Invocations
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SqliteSessionService
from durable_adk.task_queues import described
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import Versioning, WorkerOptions, worker
from tests.support.deploy_places import set_current
from tests.support.http_server import message, placed, session
from tests.support.waiting import until

APP = App(name="app", root_agent=LlmAgent(name="a", model=ScriptedModel(replies=["here"])))


async def is_eager(client: Client, workflow_id: str) -> bool:
    """Whether Temporal handed the first task to the process of the start."""
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        return event.workflow_execution_started_event_attributes.eager_execution_accepted
    raise AssertionError(workflow_id)


async def is_routed(client: Client, queue: str) -> bool:
    """Whether the task queue knows the current version, which reaches it later."""
    found = await described(client, queue)
    return bool(found.versioning_info.current_deployment_version.build_id)


async def started(client: Client, queue: str) -> bool:
    """Start an invocation; whether that was eager."""
    request = {"app": "app", "user": "u", "session": uuid.uuid4().hex, "message": "hi"}
    made = InvocationRequest.parse(request | {"invocation_id": uuid.uuid4().hex})
    handle = await Invocations(client, queue).start(made)
    eager = await is_eager(client, handle.workflow.id)
    await handle.workflow.terminate("The test has seen how it was started.")
    return eager


async def test_a_start_over_http_is_eager(client, tmp_path):
    """The worker of the server's process runs it at once; one of another process does not."""
    async with placed(client, tmp_path, APP) as place:
        http = await place.server()
        await session(http)
        made = (await http.post("/invocations", json=message("hi"))).json()
        shown = (await http.get(f"/invocations/{made['invocationId']}")).json()
        assert await is_eager(client, shown["workflowId"])
        elsewhere = await connect(client.service_client.config.target_host)
        assert not await started(elsewhere, place.queue)


@pytest.mark.thorough
async def test_a_build_that_is_not_current_gets_no_eager_start(
    client: Client, sessions: SqliteSessionService
) -> None:
    """Neither before an operator lets it run, nor as the worker that a version replaces."""
    queue = f"test-{uuid.uuid4().hex}"

    async def runs(stack: AsyncExitStack, versioning: Versioning | None = None) -> None:
        options = WorkerOptions(task_queue=queue, versioning=versioning)
        running = worker(client, apps=[APP], session_service=sessions, options=options)
        await stack.enter_async_context(running)

    async with AsyncExitStack() as stack:
        await runs(stack, Versioning(deployment=queue, build_id="b1"))
        assert not await started(client, queue)
        await set_current(client, queue, "b1")
        await until(lambda: is_routed(client, queue))
    async with AsyncExitStack() as stack:
        await runs(stack)
        assert not await started(client, queue)
