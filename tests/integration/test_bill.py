"""What an invocation costs on Temporal Cloud, as the table of docs/run/operations.md says."""

import math
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from benchmarks.agent import get_capital
from benchmarks.floor import floor_worker
from benchmarks.task import message
from durable_adk.activities.heartbeats import HEARTBEAT_SHARE
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import workflow_id
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from durable_adk.wire.run_config import RunConfig
from durable_adk.worker import WorkerOptions, worker
from tests.support.billing import billed
from tests.support.matrix_runs import approval
from tests.support.scripts import USER, call

PAGE = Path(__file__).parents[2] / "docs/run/operations.md"


def documented(row: str) -> list[str]:
    """The cells of a row of the table, without its name."""
    [line] = [one for one in PAGE.read_text().splitlines() if one.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


@pytest.fixture
async def runner(client: Client, tmp_path: Path) -> AsyncIterator[Runner]:
    """A client with a worker, both with the default settings; its tool `confirm` needs a yes."""
    confirm = FunctionTool(get_capital, require_confirmation=True)
    confirm.name = "confirm"
    replies = [call("get_capital", country="France"), "Paris.", call("confirm", country="France")]
    model = ScriptedModel(replies=[*replies, "Paris."])
    agent = LlmAgent(name="g", model=model, tools=[get_capital, confirm])
    app, queue = App(name="bill", root_agent=agent), uuid.uuid4().hex
    async with SqliteSessionService(tmp_path / "sessions.db") as sessions:
        options = WorkerOptions(task_queue=queue)
        serving = worker(client, apps=[app], session_service=sessions, options=options)
        made = Runner(
            app=app,
            session_service=sessions,
            client=client,
            task_queue=queue,
            auto_create_session=True,
        )
        async with serving, made:
            yield made


async def history_of(client: Client, invocation_id: str) -> int:
    """The billed actions in an invocation's history."""
    key = SessionKey("bill", USER["user_id"], USER["session_id"])
    workflow = client.get_workflow_handle(workflow_id(key, invocation_id))
    await workflow.result()
    return billed((await workflow.fetch_history()).events)


@pytest.mark.parametrize(("column", "steps"), [(0, 1), (1, 20)])
async def test_the_actions_of_a_turn_and_of_an_approval(
    runner: Runner, client: Client, column: int, steps: int
) -> None:
    """D19: what the table says is in the histories."""
    options = {"run_config": RunConfig(steps_per_activity=steps)}
    first = [event async for event in runner.run_async(**USER, new_message="go", **options)]
    turn = await history_of(client, first[0].invocation_id)
    assert documented("a turn with one tool call")[column] == str(turn)
    second = [event async for event in runner.run_async(**USER, new_message="again", **options)]
    [pending] = await runner.pending(**USER)
    answer = approval(pending.call_id, pending.name)
    assert [event async for event in runner.run_async(**USER, new_message=answer)]
    confirmed = await history_of(client, second[0].invocation_id)
    assert documented("an approval, on top of its turn")[column] == str(confirmed - turn)


async def test_the_actions_of_a_workflow_written_by_hand(client: Client) -> None:
    """What the table compares with: the same turn, three activities, and no session."""
    queue = uuid.uuid4().hex
    async with floor_worker(client, queue):
        workflow = await client.start_workflow(
            "Floor", {"message": message()}, id=uuid.uuid4().hex, task_queue=queue
        )
        await workflow.result()
        total = billed((await workflow.fetch_history()).events)
    assert documented("a turn with one tool call")[2] == str(total)


def test_the_actions_of_a_minute() -> None:
    """D19: its heartbeats; see tests/unit/activities/test_heartbeats.py for their distance."""
    apart = Limits().heartbeat_timeout * HEARTBEAT_SHARE
    assert documented("a minute's model call or tool")[0] == str(math.floor(60 / apart))
