"""A worker that has far more to do than it can do at a time."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.client import Client, WorkflowHandle

from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.apps import App
from durable_adk.client.invocations import TASK_TIMEOUT, Invocations
from durable_adk.events import Event
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import WorkerOptions, worker

RUNS = 40
BUSY = 0.15
"""Seconds of processor time that a run takes in a workflow task."""


def computes() -> None:
    """Take processor time, in one thread at a time."""
    end = time.thread_time() + BUSY
    while time.thread_time() < end:
        sum(range(10_000))


class Computing(BaseAgent):
    """Takes its time in the workflow."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        computes()
        content = types.Content(role="model", parts=[types.Part(text="computed")])
        yield Event(author=self.name, content=content)


async def late_tasks(handle: WorkflowHandle[Any, Any]) -> int:
    """How many workflow tasks did not end in time; those that did not begin in time are cheap."""
    events = (await handle.fetch_history()).events
    ended = [event.workflow_task_timed_out_event_attributes for event in events]
    kinds = [event.event_type for event in events]
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in kinds
    return sum(one.timeout_type == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE for one in ended)


@pytest.mark.thorough
async def test_a_worker_takes_no_more_tasks_than_it_ends_in_time(
    client: Client, sessions: SqliteSessionService
) -> None:
    """D19: it does one after the other what would take twice the timeout if begun at once."""
    assert 2 * TASK_TIMEOUT.total_seconds() <= RUNS * BUSY
    queue = f"overload-{uuid.uuid4().hex}"
    starts = Invocations(client, queue)
    requests = [
        {
            "app": "app",
            "user": "u",
            "session": f"s{n}",
            "message": "go",
            "invocation_id": f"{queue}{n}",
        }
        for n in range(RUNS)
    ]
    handles = await asyncio.gather(
        *(starts.start(InvocationRequest.parse(request)) for request in requests)
    )
    apps = [App(name="app", root_agent=Computing(name="computing"))]
    options = WorkerOptions(task_queue=queue, max_concurrent_workflow_tasks=4)
    async with (
        asyncio.timeout(90),
        worker(client, apps=apps, session_service=sessions, options=options),
    ):
        results = await asyncio.gather(*(handle.workflow.result() for handle in handles))
    assert {result["text"] for result in results} == {"computed"}
    assert sum(await asyncio.gather(*(late_tasks(handle.workflow) for handle in handles))) == 0
