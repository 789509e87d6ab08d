"""Tools that promise something about being run again, in all three ways an app can run."""

import asyncio
import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import ToolContext
from durable_adk.errors import ModelUnavailableError
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SqliteSessionService
from durable_adk.sessions.call_attempt import AttemptEnd
from durable_adk.tools import FunctionTool, LongRunningFunctionTool, RetryConfig, ToolContract
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.support.commands import Terminal
from tests.support.scripts import USER, call, calls, gist, send, state
from tests.support.waiting import PATIENCE, forever


def agent(*tools: Any, replies: Any = None, **fields: Any) -> LlmAgent:
    """An agent that calls the first tool, and then says that it is done."""
    model = ScriptedModel(replies=replies or [call(tools[0].name), "done"])
    return LlmAgent(name="a", model=model, tools=list(tools), **fields)


def answers(events: list[Any]) -> list[dict[str, Any]]:
    """The responses of the tools."""
    return [item.response for event in events for item in event.get_function_responses()]


@pytest.mark.parametrize("contract", list(ToolContract))
async def test_undisturbed_all_contracts_are_the_same(
    make_runner: MakeRunner, contract: ToolContract
) -> None:
    """D7: the contract is about what went wrong; alone and side by side."""
    runs: list[str] = []

    def work(number: int, tool_context: ToolContext) -> int:
        """Work."""
        runs.append(tool_context.idempotency_key)
        tool_context.state[f"done{number}"] = True
        return number

    replies = [call("work", number=1), calls(("work", {"number": 2}), ("work", {"number": 3})), "."]
    runner = await make_runner(agent(FunctionTool(work, contract=contract), replies=replies))
    events = await send(runner)
    assert answers(events) == [{"result": 1}, {"result": 2}, {"result": 3}]
    assert len(runs) == len(set(runs)) == 3
    assert await state(runner) == {"done1": True, "done2": True, "done3": True}


async def test_a_tool_is_retried_as_it_says_and_not_otherwise(make_runner: MakeRunner) -> None:
    """D7: its pauses are kept; the run continues with the first success."""
    at: list[float] = []

    def ask() -> str:
        """Ask."""
        at.append(time.monotonic())
        if len(at) < 3:
            raise ConnectionError("busy")
        return "ok"

    retry = RetryConfig(max_attempts=4, initial_delay=0.2, exceptions=[ConnectionError])
    runner = await make_runner(agent(FunctionTool(ask, contract="pure", retry=retry)))
    assert answers(await send(runner)) == [{"result": "ok"}]
    assert len(at) == 3
    assert at[1] - at[0] >= 0.2
    assert at[2] - at[1] >= 0.4


async def test_a_tool_that_never_succeeds_fails_the_run(make_runner: MakeRunner) -> None:
    """D11: after its last attempt, with what it raised."""
    runs: list[int] = []

    def ask() -> str:
        """Ask."""
        runs.append(1)
        raise ConnectionError("busy")

    retry = RetryConfig(max_attempts=2, initial_delay=0.01)
    runner = await make_runner(agent(FunctionTool(ask, contract="idempotent", retry=retry)))
    with pytest.raises(ConnectionError, match="busy"):
        await send(runner)
    assert len(runs) == 2


async def test_the_timeout_of_an_at_most_once_tool_does_not_end_the_run(
    make_runner: MakeRunner,
) -> None:
    """F11, I8: the model is told that it may still run, and speaks."""
    ended = asyncio.Event()

    async def slow() -> None:
        """Take too long."""
        try:
            await forever()
        finally:
            ended.set()

    runner = await make_runner(agent(FunctionTool(slow, contract="at_most_once", timeout=0.2)))
    events = await send(runner)
    assert [answer["outcome"] for answer in answers(events)] == ["unknown"]
    assert gist(events[-1]) == "a text done"


async def test_a_long_running_tool_may_be_at_most_once(make_runner: MakeRunner) -> None:
    """TOL-40: its contract is about the start of the work."""

    def order() -> dict[str, str]:
        """Order."""
        return {"status": "ordered"}

    tool = LongRunningFunctionTool(order, contract="at_most_once")
    runner = await make_runner(agent(tool, replies=[call("order"), "Ordered."]))
    async with asyncio.timeout(PATIENCE):
        await runner.session_service.create_session(app_name=runner.app_name, **USER)
        async for event in runner.run_async(**USER, new_message="go"):
            if event.text == "Ordered.":
                break
    waiting = await runner.pending(**USER)
    assert [item.name for item in waiting] == ["order"]


async def test_attempts_in_vain_can_be_seen(make_runner: MakeRunner) -> None:
    """I10: what an invocation cost beyond its events."""
    failures = [ModelUnavailableError("busy", retry_after=0.01)] * 2

    def reply(request: LlmRequest) -> str:
        if failures:
            raise failures.pop()
        return "done"

    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=reply)))
    name = f"e-{uuid.uuid4().hex}"  # the server is that of other tests too
    await send(runner, invocation_id=name)
    found = await runner.attempts(**USER, invocation_id=name)
    assert [(item.attempt, item.ended) for item in found] == [
        (1, AttemptEnd.FAILED),
        (2, AttemptEnd.FAILED),
    ]
    assert {item.event_id for item in found} == {f"{name}.1"}


async def test_failed_attempts_at_a_tool_can_be_seen(
    make_runner: MakeRunner, client: Client
) -> None:
    """D7: a tool that its policy runs three times; with the worker, if there is one."""
    failures = [ConnectionError("busy")] * 2

    def work() -> str:
        """Work."""
        if failures:
            raise failures.pop()
        return "worked"

    retry = RetryConfig(max_attempts=3, initial_delay=0.01, exceptions=[ConnectionError])
    tool = FunctionTool(work, contract="idempotent", retry=retry)
    runner = await make_runner(agent(tool))
    name = f"e-{uuid.uuid4().hex}"
    events = await send(runner, invocation_id=name)
    assert answers(events) == [{"result": "worked"}]
    found = await runner.attempts(**USER, invocation_id=name)
    [call_id] = [one.id for event in events for one in event.get_function_calls()]
    assert [(one.attempt, one.ended, one.tool, one.call_id) for one in found] == [
        (1, AttemptEnd.FAILED, "work", call_id),
        (2, AttemptEnd.FAILED, "work", call_id),
    ]
    assert {one.error_type for one in found} == {"ConnectionError"}
    in_process = isinstance(runner.session_service, InMemorySessionService)
    assert {one.worker for one in found} == {None if in_process else client.identity}


async def test_a_tool_runs_where_its_task_queue_is(client: Client, tmp_path: Path) -> None:
    """D7: on a worker that listens there, over the same store; the rest stays where it is."""
    places: list[str] = []
    queues = {name: f"{name}-{uuid.uuid4().hex}" for name in ("main", "special")}
    sessions = SqliteSessionService(tmp_path / "sessions.db")

    def served(place: str) -> App:
        def special() -> str:
            """Work where the hardware is."""
            places.append(place)
            return place

        def plain() -> str:
            """Work anywhere."""
            places.append(place)
            return place

        tools = [FunctionTool(special, task_queue=queues["special"]), FunctionTool(plain)]
        replies = [call("special"), call("plain"), "done"]
        return App(name="app", root_agent=agent(*tools, replies=replies))

    def serving(place: str) -> Any:
        options = WorkerOptions(task_queue=queues[place])
        return worker(client, apps=[served(place)], session_service=sessions, options=options)

    async with (
        serving("main"),
        serving("special"),
        Runner(
            app=served("client"), session_service=sessions, client=client, task_queue=queues["main"]
        ) as runner,
    ):
        assert [gist(event) for event in await send(runner)][-1] == "a text done"
    await sessions.close()
    assert places == ["special", "main"]


@pytest.mark.thorough
async def test_the_command_lists_attempts(tmp_path: Path) -> None:
    """I10: for people and for programs, from the store alone."""
    sessions = SqliteSessionService(tmp_path / "sessions.db")
    failures = [ModelUnavailableError("busy\x1b[2J", retry_after=0.01)]

    def reply(request: LlmRequest) -> str:
        if failures:
            raise failures.pop()
        return "done"

    app = App(name="app", root_agent=LlmAgent(name="a", model=ScriptedModel(replies=reply)))
    async with Runner(app=app, session_service=sessions) as runner:
        await send(runner, invocation_id="e-1")
    await sessions.close()
    terminal = Terminal(tmp_path)
    try:
        store = ["--store", str(tmp_path / "sessions.db")]
        shown = await asyncio.to_thread(terminal.run, "attempts", *store)
        assert "attempt 1 failed" in shown.stdout
        assert "1 attempt without a result: 0 tokens; unknown for 1." in shown.stdout
        assert "\x1b[2J" not in shown.stdout
        lines = await asyncio.to_thread(terminal.run, "attempts", "--json", *store)
        assert json.loads(lines.stdout)["eventId"] == "e-1.1"
        other = await asyncio.to_thread(terminal.run, "attempts", "--user", "else", *store)
        assert other.stdout == "No attempt was without a result.\n"
    finally:
        terminal.close()
