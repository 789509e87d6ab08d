"""A made-up second version of the loop's rules: `LOOP_RULES` keeps histories replayable."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from durable_adk.activities.invocation import open as opening
from durable_adk.apps import App
from durable_adk.flows import begin, event_loop
from durable_adk.flows.invocation import Invocation
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.wire.converter import data_converter
from durable_adk.wire.messages import workflow_id
from durable_adk.wire.steps import LOOP_RULES
from durable_adk.worker import WorkerOptions, worker
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner
from tests.replay.conversations import tool_turn
from tests.support.scripts import USER, send

SECOND = LOOP_RULES + 1
COMPACT = event_loop._compact


async def always(invocation: Invocation) -> None:
    """Have a summary made, whether or not the app wants one: an activity more."""
    invocation.state.checkpoint.opened.compacts = True
    await COMPACT(invocation)


async def from_second_on(invocation: Invocation) -> None:
    """The same by the second version of the rules; by the first one nothing has changed."""
    await (always if invocation.state.rules >= SECOND else COMPACT)(invocation)


class Place:
    """A task queue with a worker, and the histories of what it has run."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client, self._folder = client, folder
        self._names: list[str] = []

    async def history(self) -> WorkflowHistory:
        """Hold a conversation with the code that is here."""
        name = f"rules-{uuid.uuid4().hex}"
        app = App(name="rules", root_agent=tool_turn())
        sessions = SqliteSessionService(self._folder / f"{name}.db")
        options = WorkerOptions(task_queue=name)
        runner = Runner(app=app, session_service=sessions, client=self._client, task_queue=name)
        async with worker(self._client, apps=[app], session_service=sessions, options=options):
            await send(runner, "go", invocation_id=name)
            self._names.append(workflow_id(SessionKey("rules", *USER.values()), name))
            handle = self._client.get_workflow_handle(self._names[-1])
            await handle.result()
        await sessions.close()
        return await handle.fetch_history()

    async def close(self) -> None:
        """Remove what only the made-up rules can replay."""
        for name in self._names:
            execution = WorkflowExecution(workflow_id=name)
            request = DeleteWorkflowExecutionRequest(
                namespace=self._client.namespace, workflow_execution=execution
            )
            await self._client.workflow_service.delete_workflow_execution(request)


@pytest.fixture
async def place(client: Client, tmp_path: Path) -> AsyncIterator[Place]:
    """A place whose histories are removed."""
    made = Place(client, tmp_path)
    yield made
    await made.close()


def summaries(history: WorkflowHistory) -> int:
    """How many were asked for."""
    scheduled = [one.activity_task_scheduled_event_attributes for one in history.events]
    return sum(one.activity_type.name == "compact" for one in scheduled)


async def replay(history: WorkflowHistory) -> None:
    """Raise NondeterminismError if the code goes another way now."""
    runner = workflow_runner(sandboxed=False)
    await Replayer(
        workflows=[InvocationWorkflow], data_converter=data_converter, workflow_runner=runner
    ).replay_workflow(history)


async def test_an_open_invocation_keeps_the_rules_that_it_began_with(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13, F35: only those that open later go by the second version, and each replays.

    A release that knows only the first one leaves them to the newer release's workers.
    """
    by_first = await place.history()
    for module in (opening, begin):
        monkeypatch.setattr(module, "LOOP_RULES", SECOND)
    monkeypatch.setattr(event_loop, "_compact", from_second_on)
    by_second = await place.history()
    assert [summaries(by_first), summaries(by_second)] == [0, 1]
    await replay(by_first)
    await replay(by_second)
    monkeypatch.setattr(begin, "LOOP_RULES", LOOP_RULES)
    with pytest.raises(Exception, match=f"version {SECOND} of the loop's rules"):
        await replay(by_second)


async def test_a_change_that_does_not_ask_for_the_rules_breaks_open_invocations(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13: so the version is needed, and the corpus of histories tells of a change without it."""
    history = await place.history()
    monkeypatch.setattr(event_loop, "_compact", always)
    with pytest.raises(NondeterminismError):
        await replay(history)
