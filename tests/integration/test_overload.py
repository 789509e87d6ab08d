"""A worker that has far more to do than it can do at a time."""

import asyncio
import threading
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.apps import App
from durable_adk.client.invocations import Invocations
from durable_adk.events import Event
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import WorkerOptions, worker
from tests.support.waiting import PATIENCE, stays, until

RUNS = 40
AT_ONCE = 4
"""Workflow tasks that the worker may have."""


class Desk:
    """Where workflow tasks compute, which they end only when the test says so."""

    def __init__(self) -> None:
        self.present = 0
        self.go = threading.Event()
        self._lock = threading.Lock()

    def compute(self) -> None:
        """Block, as code does that computes."""
        with self._lock:
            self.present += 1
        self.go.wait(timeout=PATIENCE)
        with self._lock:
            self.present -= 1


class Computing(BaseAgent):
    """Takes its time in the workflow."""

    desk: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        self.desk.compute()
        content = types.Content(role="model", parts=[types.Part(text="computed")])
        yield Event(author=self.name, content=content)


@pytest.mark.thorough
async def test_a_worker_takes_no_more_tasks_than_it_ends_in_time(
    client: Client, sessions: SqliteSessionService
) -> None:
    """D19: what would take longer than the timeout if begun at once waits for its turn."""
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
    desk = Desk()
    apps = [App(name="app", root_agent=Computing(name="computing", desk=desk))]
    options = WorkerOptions(task_queue=queue, max_concurrent_workflow_tasks=AT_ONCE)
    async with worker(client, apps=apps, session_service=sessions, options=options):
        try:
            await until(lambda: desk.present >= AT_ONCE)
            await stays(lambda: desk.present == AT_ONCE)
        finally:
            desk.go.set()  # else the worker would wait for them
        results = await asyncio.gather(*(handle.workflow.result() for handle in handles))
    assert {result["text"] for result in results} == {"computed"}
