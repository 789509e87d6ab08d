"""Where models are called, and whose tasks come first, is left to Temporal's queues (D18)."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client
from temporalio.common import Priority as Given

from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.client import InvocationHandle, Invocations
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools import AgentTool
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.run_config import Priority, RunConfig
from durable_adk.wire.steps import ModelStep
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import call


class Large(ScriptedModel):
    """A scripted model of another name."""

    model: str = "large"


@pytest.fixture
async def queues(client: Client, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """A worker of the main queue and one of the large model's, and what their activities saw."""
    names = {name: f"{name}-{uuid.uuid4().hex}" for name in ("main", "gpu")}
    sessions = SqliteSessionService(tmp_path / "sessions.db")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.close)
        for name in names.values():
            options = WorkerOptions(
                task_queue=name,
                model_task_queues={"large": names["gpu"]},
                max_task_queue_activities_per_second=1000,
            )
            served = worker(client, apps=[app()], session_service=sessions, options=options)
            await stack.enter_async_context(served)
        yield names


def app() -> App:
    """A small model, a large one, and a large one as a tool of the small."""
    expert = LlmAgent(name="expert", model=Large(replies=["So."] * 9))
    replies = [call("expert", request="?"), "Well."] * 9
    first = LlmAgent(name="first", model=ScriptedModel(replies=replies), tools=[AgentTool(expert)])
    second = LlmAgent(name="second", model=Large(replies=["Done."] * 9))
    return App(name="app", root_agent=SequentialAgent(name="root", sub_agents=[first, second]))


def request(**options: Any) -> InvocationRequest:
    """A message of a new session."""
    name = uuid.uuid4().hex
    asked = InvocationRequest(
        app="app", user="ann@example.com", session=name, message="?", invocation_id=name, **options
    )
    return asked.checked()


async def scheduled(client: Client, workflow: str) -> list[Any]:
    """The activities that a workflow has scheduled."""
    history = client.get_workflow_handle(workflow).fetch_history_events()
    name = "activity_task_scheduled_event_attributes"
    return [getattr(event, name) async for event in history if event.HasField(name)]


async def workflows(client: Client, queue: str) -> list[str]:
    """Those of a task queue: an invocation, and the agent it has asked."""
    found: list[str] = []
    while len(found) < 2:
        found = [one.id async for one in client.list_workflows(f"TaskQueue = '{queue}'")]
    return found


async def test_a_model_is_called_where_its_task_queue_is(
    client: Client, queues: dict[str, Any]
) -> None:
    """D18: by its name, also in an agent that is asked as a tool; all else stays where it is."""
    started = await Invocations(client, queues["main"]).start(request())
    assert (await started.result()).text == "Done."
    places = {
        (json_of(one).get("model"), one.task_queue.name.partition("-")[0])
        for name in await workflows(client, queues["main"])
        for one in await scheduled(client, name)
    }
    assert places == {("scripted", "main"), ("large", "gpu"), (None, "main")}


def json_of(scheduled: Any) -> dict[str, Any]:
    """An activity's argument."""
    return json.loads(scheduled.input.payloads[0].data)


async def shown(started: InvocationHandle) -> Given:
    """The priority in the description of an invocation's workflow."""
    description = (await started.workflow.describe()).raw_description
    return Given._from_proto(description.workflow_execution_info.priority)


async def test_users_share_fairly_and_a_wish_is_kept(
    client: Client, queues: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D18, S2: each user has a key that names nobody; activities and children inherit it."""
    seen: list[Given] = []
    perform = EffectPerformer.perform

    async def watched(self: EffectPerformer, step: Any, attempt: Any = None) -> Any:
        if isinstance(step, ModelStep):
            seen.append(activity.info().priority)
        return await perform(self, step, attempt)

    monkeypatch.setattr(EffectPerformer, "perform", watched)
    invocations = Invocations(client, queues["main"])
    keys: set[str | None] = set()
    for _ in range(2):
        started = await invocations.start(request())
        await started.result()
        keys.add((await shown(started)).fairness_key)
    (key,) = keys
    assert key
    assert "ann" not in key
    assert {one.fairness_key for one in seen} == {key}
    seen.clear()
    wish = Priority(priority_key=1, fairness_key="tenant", fairness_weight=2.5)
    started = await invocations.start(request(run_config=RunConfig(priority=wish)))
    await started.result()
    expected = Given(priority_key=1, fairness_key="tenant", fairness_weight=2.5)
    assert await shown(started) == expected
    assert seen == [expected] * 4
    told = [json_of(one) for one in await scheduled(client, started.workflow.id)]
    assert not any("runConfig" in one for one in told)  # it costs no history


def test_a_wish_that_temporal_would_refuse_is_refused() -> None:
    """D11: where it is written, not by a start that fails."""
    for wrong in ({"priority_key": 0}, {"fairness_key": "x" * 65}, {"fairness_weight": 0}):
        with pytest.raises(ValidationError):
            Priority(**wrong)
