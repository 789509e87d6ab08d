"""Several steps in one activity: the same events, in fewer activities."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client

from durable_adk.activities.step_batch import FENCE
from durable_adk.agents import BaseAgent, LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.client import workflow_id
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.errors import (
    BudgetExceededError,
    InvalidRequestError,
    ModelUnavailableError,
    RunError,
)
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.log.queue import Queue
from durable_adk.tools import (
    AgentTool,
    FunctionTool,
    LongRunningFunctionTool,
    RetryConfig,
    ToolContract,
)
from durable_adk.wire.run_config import Budget, RunConfig
from durable_adk.worker import WorkerOptions, worker
from tests.support.billing import billed
from tests.support.matrix_runs import approval
from tests.support.scripts import USER, call, calls, gist, send, shape, stored
from tests.support.waiting import PATIENCE, until

Make = Callable[..., Awaitable[Runner]]


@pytest.fixture
async def make(client: Client, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes a runner of an app, with a worker."""
    async with AsyncExitStack() as stack:

        async def made(agent: BaseAgent, **fields: Any) -> Runner:
            queue = uuid.uuid4().hex
            app = App(name=f"a{queue}", root_agent=agent, **fields)
            service = SqliteSessionService(tmp_path / f"{queue}.db")
            stack.push_async_callback(service.close)
            options = WorkerOptions(task_queue=queue)
            serving = worker(client, apps=[app], session_service=service, options=options)
            await stack.enter_async_context(serving)
            runner = Runner(app=app, session_service=service, client=client, task_queue=queue)
            return await stack.enter_async_context(runner)

        yield made


async def history(client: Client, runner: Runner, invocation_id: str) -> Any:
    """The history of an invocation that ends."""
    key = SessionKey(runner.app_name, USER["user_id"], USER["session_id"])
    handle = client.get_workflow_handle(workflow_id(key, invocation_id))
    await handle.result()
    return (await handle.fetch_history()).events


async def activities(client: Client, runner: Runner, invocation_id: str) -> Counter[str]:
    """How many activities of each type an invocation has scheduled, local ones apart."""
    events = await history(client, runner, invocation_id)
    scheduled = [one.activity_task_scheduled_event_attributes for one in events]
    return Counter(one.activity_type.name for one in scheduled if one.activity_type.name)


def traveller(*replies: Any, tools: Any = (), **fields: Any) -> LlmAgent:
    """An agent that says these things in turn."""
    return LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=list(tools), **fields)


def look(where: str, tool_context: ToolContext) -> str:
    """Look somewhere."""
    tool_context.state["last"] = where
    return f"seen {where}"


def tour() -> LlmAgent:
    """Three calls, two of them at once, and an answer."""
    twice = calls(("look", {"where": "left"}), ("look", {"where": "right"}))
    return traveller(call("look", where="up"), twice, "Nothing.", tools=[look])


async def test_the_events_are_those_of_a_step_per_activity(make: Make, client: Client) -> None:
    """D14: only the activities differ: one, instead of one for each of six steps."""
    alone, batch = await make(tour()), await make(tour(), steps_per_activity=20)
    expected = [shape(event) for event in await send(alone, invocation_id="i")]
    events = await send(batch, invocation_id="i")
    assert [shape(event) for event in events] == expected
    assert [gist(event) for event in await stored(batch)] == [
        gist(event) for event in await stored(alone)
    ]
    assert await activities(client, alone, "i") == {"call_model": 3, "call_tool": 3}
    assert await activities(client, batch, "i") == {"run_steps": 1}


async def test_a_tool_turn_has_half_the_history(make: Make, client: Client) -> None:
    """At most 12 events and 3 billed actions, instead of 24 and 5."""
    agent = traveller(call("look", where="up"), "Nothing.", tools=[look])
    runner = await make(agent, steps_per_activity=20)
    await send(runner, invocation_id="i")
    events = await history(client, runner, "i")
    assert len(events) <= 12
    assert billed(events) <= 3


@pytest.mark.parametrize(("app", "run", "batches"), [(1, 3, 2), (20, None, 1), (20, 1, 0)])
async def test_a_run_may_choose_another_number(
    make: Make, client: Client, app: int, run: int | None, batches: int
) -> None:
    """The run's setting counts before the app's; a batch performs as many steps at most."""
    look_twice = [call("look", where="up"), call("look", where="down"), "Nothing."]
    runner = await make(traveller(*look_twice, tools=[look]), steps_per_activity=app)
    await send(runner, invocation_id="i", run_config=RunConfig(steps_per_activity=run))
    found = await activities(client, runner, "i")
    assert found["run_steps"] == batches
    assert sum(found.values()) == {2: 3, 1: 1, 0: 5}[batches]


@pytest.mark.parametrize("number", [0, -1])
def test_no_step_at_all_is_refused(number: int) -> None:
    """The error names the field."""
    with pytest.raises(ValidationError, match="steps_per_activity"):
        App(name="app", root_agent=tour(), steps_per_activity=number)
    with pytest.raises((ValidationError, InvalidRequestError), match="steps_per_activity"):
        RunConfig(steps_per_activity=number)


async def test_an_event_is_stored_and_seen_while_the_batch_runs(make: Make) -> None:
    """Commit before resume: the tool finds its call stored, and the client has it already."""
    seen: list[str] = []
    go = asyncio.Event()
    runners: list[Runner] = []

    async def wait() -> str:
        """Wait for the test."""
        seen.extend(gist(event) for event in await stored(runners[0]))
        await until(go.is_set)
        return "gone"

    runner = await make(traveller(call("wait"), "Done.", tools=[wait]), steps_per_activity=20)
    runners.append(runner)
    sending = asyncio.create_task(send(runner))
    await until(lambda: seen)
    assert seen == ["user text hello", "a call wait"]
    assert not sending.done()
    go.set()
    assert [gist(event) for event in await asyncio.wait_for(sending, PATIENCE)] == [
        "a call wait",
        "a response wait",
        "a text Done.",
    ]


async def test_what_needs_its_own_activity_has_it(make: Make, client: Client) -> None:
    """At-most-once tools and agents as tools end a batch; what follows is performed together."""

    def once() -> str:
        """Do it once."""
        return "done"

    expert = LlmAgent(name="expert", model=ScriptedModel(replies=["I know."]), description="knows")
    at_most_once = FunctionTool(once, contract=ToolContract.AT_MOST_ONCE)
    agent = traveller(
        *(call("once"), call("expert", request="what?"), call("look", where="up"), "Done."),
        tools=[at_most_once, AgentTool(expert), look],
    )
    runner = await make(agent, steps_per_activity=20)
    assert gist((await send(runner, invocation_id="i"))[-1]) == "a text Done."
    # A model call before each of the two, and then a model call, the tool and the last model call.
    assert await activities(client, runner, "i") == {"run_steps": 3, "call_tool": 3}


async def test_a_batch_ends_where_an_answer_is_needed(make: Make, client: Client) -> None:
    """D9: the invocation pauses, and continues with the answer."""
    confirmed = FunctionTool(look, require_confirmation=True)
    agent = traveller(call("look", where="up"), "Nothing.", tools=[confirmed])
    runner = await make(agent, steps_per_activity=20)
    await send(runner, invocation_id="i")
    [pending] = await runner.pending(**USER)
    events = await send(runner, approval(pending.call_id, pending.name))
    assert [gist(event) for event in events] == ["a response look", "a text Nothing."]
    assert (await activities(client, runner, "i"))["run_steps"] == 2


async def test_a_step_has_as_many_attempts_as_alone(make: Make, client: Client) -> None:
    """A tool that is retried fails the activity; no finished step is performed again."""
    asked: list[str] = []
    runs: list[str] = []

    def reply(request: LlmRequest) -> Any:
        asked.append(f"{len(request.contents)}")
        return [call("look", where="up"), call("shaky"), "Done."][len(asked) - 1]

    def shaky(tool_context: ToolContext) -> str:
        """Fail twice."""
        runs.append(tool_context.idempotency_key)
        if len(runs) < 3:
            raise ValueError("not yet")
        return "at last"

    retry = RetryConfig(max_attempts=3, initial_delay=0.01)
    pure = FunctionTool(shaky, contract=ToolContract.PURE, retry=retry)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[look, pure])
    runner = await make(agent, steps_per_activity=20)
    events = await send(runner, invocation_id="i")
    assert gist(events[-1]) == "a text Done."
    assert len(runs) == 3
    assert len(set(runs)) == 1
    assert len(asked) == 3
    found = await activities(client, runner, "i")
    assert found == {"run_steps": 2}  # a later attempt ends with its first unfinished step


async def test_a_message_that_steers_is_heard_before_the_next_model_call(make: Make) -> None:
    """D7: a batch ends when a message waits, and the workflow delivers it."""
    began, go = asyncio.Event(), asyncio.Event()
    prompts: list[str] = []

    async def wait() -> str:
        """Wait for the test."""
        began.set()
        await until(go.is_set)
        return "gone"

    def reply(request: LlmRequest) -> Any:
        prompts.append(str(request.contents[-1].parts))
        return call("wait") if len(prompts) == 1 else "Done."

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[wait])
    runner = await make(agent, steps_per_activity=20)
    first = asyncio.create_task(send(runner))
    await until(began.is_set)
    second = asyncio.create_task(send(runner, "turn left", when_busy="steer"))

    async def is_waiting() -> bool:
        key = SessionKey(runner.app_name, USER["user_id"], USER["session_id"])
        return bool(await runner.session_service.waiting(key))

    await until(is_waiting)
    go.set()
    await asyncio.wait_for(asyncio.gather(first, second), PATIENCE)
    assert "turn left" in prompts[1]
    assert len(prompts) == 2


async def test_a_cancelled_batch_ends_with_what_it_has_done(make: Make) -> None:
    """I15: the running step is cancelled, and nothing begins after it."""
    began = asyncio.Event()
    ended: list[str] = []

    async def endless() -> None:
        """Never return."""
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("tool")

    agent = traveller(call("look", where="up"), call("endless"), "Done.", tools=[look, endless])
    runner = await make(agent, steps_per_activity=20)
    sending = asyncio.create_task(send(runner, invocation_id="i"))
    await until(began.is_set)
    assert await runner.cancel(**USER, invocation_id="i")
    await asyncio.wait({sending}, timeout=PATIENCE)
    log = [gist(event) for event in await stored(runner)]
    assert log[:4] == ["user text hello", "a call look", "a response look", "a call endless"]
    assert "Done." not in str(log)
    assert ended == ["tool"]


async def test_a_callback_that_returns_nothing_runs_once(make: Make) -> None:
    """A later attempt of the activity finds that it has run, though it has left no event."""
    ran: list[str] = []
    asked: list[str] = []

    async def mail(callback_context: CallbackContext) -> None:
        ran.append(callback_context.agent_name)

    def reply(request: LlmRequest) -> Any:
        del request
        asked.append("b")
        if len(asked) < 3:
            raise ModelUnavailableError("busy", retry_after=0.01)
        return "Done."

    first = traveller("First.", after_agent_callback=mail)
    second = LlmAgent(name="b", model=ScriptedModel(replies=reply))
    root = SequentialAgent(name="both", sub_agents=[first, second])
    events = await send(await make(root, steps_per_activity=20))
    assert [gist(event) for event in events] == ["a text First.", "b text Done."]
    assert ran == ["a"]
    assert len(asked) == 3


@pytest.mark.parametrize("in_tool", [False, True])
async def test_a_time_limit_ends_a_batch(make: Make, in_tool: bool) -> None:
    """S17: with the error that names the limit, and nothing is made up for the tool."""

    async def endless() -> None:
        """Never return."""
        await asyncio.get_running_loop().create_future()

    model = ScriptedModel(replies=[call("endless")], delay=0 if in_tool else 1000)
    runner = await make(LlmAgent(name="a", model=model, tools=[endless]), steps_per_activity=20)
    budget = RunConfig(budget=Budget(seconds=1))
    with pytest.raises(BudgetExceededError, match="seconds"):
        await asyncio.wait_for(send(runner, run_config=budget), PATIENCE)
    log = await stored(runner)
    assert log[-1].error_code == "BudgetExceededError"
    assert "another call" not in str(log)


async def test_a_call_that_waits_is_answered_while_its_turn_goes_on(make: Make) -> None:
    """D9: the calls of such a turn are activities of their own, so that the answer is heard."""
    began, go = asyncio.Event(), asyncio.Event()

    def job() -> None:
        """Begin something long."""

    async def slow() -> str:
        """Wait for the test."""
        began.set()
        await until(go.is_set)
        return "slow"

    agent = traveller(
        calls(("job", {}), ("slow", {})), "Done.", tools=[LongRunningFunctionTool(job), slow]
    )
    runner = await make(agent, steps_per_activity=20)
    first = asyncio.create_task(send(runner, invocation_id="i"))
    await until(began.is_set)
    [pending] = await runner.pending(**USER)
    given = types.FunctionResponse(id=pending.call_id, name="job", response={"status": "finished"})
    answer = types.Content(role="user", parts=[types.Part(function_response=given)])
    answering = asyncio.create_task(send(runner, answer))

    async def is_answered() -> bool:
        return "finished" in str(await stored(runner))

    await until(is_answered)
    go.set()
    await asyncio.wait_for(asyncio.gather(first, answering), PATIENCE)
    assert gist((await stored(runner))[-1]) == "a text Done."


async def test_a_store_that_does_not_answer_ends_a_batch_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool runs as an activity of its own, and gets no response that is not its own."""
    runs: list[str] = []

    def work() -> str:
        """Work."""
        runs.append("work")
        return "worked"

    async def unavailable(*_: Any, **__: Any) -> bool:
        raise RunError("the store is away")

    monkeypatch.setattr(Queue, "may_go_ahead", unavailable)
    runner = await make(traveller(call("work"), "Done.", tools=[work]), steps_per_activity=20)
    events = await send(runner)
    assert [gist(event) for event in events][-1] == "a text Done."
    assert events[1].get_function_responses()[0].response == {"result": "worked"}
    assert runs == ["work"]


async def test_a_lost_attempt_that_is_alive_begins_no_further_step(
    make: Make, client: Client
) -> None:
    """I6: it ends its step, because a later attempt has noted itself, and may be performing it."""
    runners: list[Runner] = []

    async def freeze() -> str:
        """Wake up after a later attempt has begun."""
        info = activity.info()
        await runners[0].session_service.note(
            SessionKey(runners[0].app_name, USER["user_id"], USER["session_id"]),
            invocation_id="i",
            kind=FENCE,
            name=f"{info.workflow_run_id}/{info.activity_id}/000002",
            body="{}",
        )
        return "awake"

    agent = traveller(call("freeze"), call("look", where="up"), "Done.", tools=[freeze, look])
    runner = await make(agent, steps_per_activity=20)
    runners.append(runner)
    await send(runner, invocation_id="i")
    assert await activities(client, runner, "i") == {"run_steps": 2}


async def test_a_later_attempt_notes_itself_before_it_looks(make: Make) -> None:
    """So that an earlier one which is still alive finds the note before its next step."""
    noted: list[list[str]] = []
    runners: list[Runner] = []

    async def shaky() -> str:
        """Fail once."""
        key = SessionKey(runners[0].app_name, USER["user_id"], USER["session_id"])
        service = runners[0].session_service
        notes = await service.read_notes(key, invocation_id="i", kind=FENCE)
        noted.append([note.name.rpartition("/")[2] for note in notes])
        if len(noted) == 1:
            raise ValueError("not yet")
        return "at last"

    retry = RetryConfig(max_attempts=2, initial_delay=0.01)
    pure = FunctionTool(shaky, contract=ToolContract.PURE, retry=retry)
    runner = await make(traveller(call("shaky"), "Done.", tools=[pure]), steps_per_activity=20)
    runners.append(runner)
    await send(runner, invocation_id="i")
    assert noted == [[], ["000002"]]
