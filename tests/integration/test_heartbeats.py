"""Workflow tasks that Temporal has completed while a local activity was running."""

import asyncio
import uuid
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import Replayer

from durable_adk.activities.effects import StoreEffect
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import invocations, workflow_id
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.settings import Limits
from durable_adk.tools import LongRunningFunctionTool
from durable_adk.wire.steps import AnswerStep
from durable_adk.worker import WORKFLOWS, WorkerOptions, worker
from durable_adk.workflows.runner import workflow_runner
from durable_adk.workflows.temporal_runtime import TemporalRuntime
from tests.support.processes import until
from tests.support.scripts import call

pytestmark = pytest.mark.thorough

COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
SCHEDULED = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
STARTED = EventType.EVENT_TYPE_TIMER_STARTED
TIMEOUT = timedelta(seconds=2)
"""Of a workflow task, which is completed after four fifths of it."""
SLOW = 2.0
"""Seconds that an answer is stored in."""


async def ask() -> None:
    """Ask somebody."""


async def test_news_has_the_same_history_in_a_replay(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13: an answer whose task had to be completed, behind a message that left no command."""
    seen = list[float]()
    look = TemporalRuntime.look
    perform: Any = vars(StoreEffect)["perform"]

    def noted(self: TemporalRuntime) -> None:
        look(self)
        seen.append(self.fullness())

    async def slow(self: StoreEffect[Any, Any], deps: Any, step: Any, attempt: Any) -> Any:
        if isinstance(step, AnswerStep):
            await asyncio.sleep(SLOW)
        return await perform(self, deps, step, attempt)

    monkeypatch.setattr(TemporalRuntime, "look", noted)
    monkeypatch.setattr(StoreEffect, "perform", slow)
    monkeypatch.setattr(invocations, "TASK_TIMEOUT", TIMEOUT)
    queue, sessions = f"heartbeats-{uuid.uuid4().hex}", InMemorySessionService()
    model = ScriptedModel(replies=[call("ask"), "Done."])
    app = App(
        name="app",
        root_agent=LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(ask)]),
    )
    handle = client.get_workflow_handle(workflow_id(SessionKey("app", queue, "s"), "i"))
    options = WorkerOptions(
        task_queue=queue, limits=Limits(local_commit_timeout=10.0), sandboxed=False
    )
    async with worker(client, apps=[app], session_service=sessions, options=options):
        runner = Runner(
            app=app,
            session_service=sessions,
            client=client,
            task_queue=queue,
            auto_create_session=True,
        )
        async with runner:
            asked = runner.run_async(
                user_id=queue, session_id="s", new_message="go", invocation_id="i"
            )
            async for _ in asked:
                pass
            await until(lambda: handle.query("pending"))
            (pending,) = await handle.query("pending")
            await handle.signal("answer", "no object")
            await handle.query("pending")
            await handle.signal(
                "answer", {"callId": pending["callId"], "response": {"result": "so"}}
            )
            await handle.result()
    history = await handle.fetch_history()
    assert (COMPLETED, SCHEDULED) in pairwise(
        event.event_type for event in history.events if event.event_type != STARTED
    ), "No task was completed meanwhile."
    lived = seen.copy()
    seen.clear()
    replayer = Replayer(
        workflows=WORKFLOWS,
        data_converter=client.data_converter,
        namespace=client.namespace,
        workflow_runner=workflow_runner(sandboxed=False),
    )
    await replayer.replay_workflow(history)
    assert seen == lived[-len(seen) :]  # the worker, too, has replayed it if a task was late
