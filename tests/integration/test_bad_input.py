"""Every mistake has its own clear error, loses nothing and never hangs (D11)."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest
from google.genai import types
from pydantic import BaseModel
from temporalio.client import Client

from durable_adk.agents import BaseAgent, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.client import Invocations, connect, workflow_id
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.errors import (
    AlreadyExistsError,
    CallbackError,
    EventConflictError,
    InstructionError,
    InvalidRequestError,
    InvocationNotFoundError,
    InvocationTerminatedError,
    NoWorkerError,
    OutputSchemaError,
    PayloadTooLargeError,
    SessionNotFoundError,
    StateValueError,
    TemporalUnavailableError,
    ToolResultError,
    ToolTimeoutError,
    UnknownAppError,
    describe,
)
from durable_adk.events import Event
from durable_adk.models import BaseLlm, LlmResponse, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import (
    InMemorySessionService,
    SessionKey,
    SqliteSessionService,
    Status,
)
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.run_config import RunConfig
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, ensure_session, gist, send, shape, stored
from tests.support.waiting import PATIENCE, forever, until


def agent_with(tool: Any, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent whose model calls `tool` once, then says done."""
    name = getattr(tool, "name", None) or tool.__name__
    model = ScriptedModel(replies=list(replies) or [call(name), "done", "hello again"])
    return LlmAgent(name="a", model=model, tools=[tool], **fields)


async def fails(runner: Runner, error: type[Exception], message: str = "hello") -> str:
    """The run raises `error` and leaves exactly one error event, the last; returns its message."""
    with pytest.raises(error) as caught:
        await asyncio.wait_for(send(runner, message), PATIENCE)
    log = await stored(runner)
    errors = [event for event in log if event.error_code]
    assert errors == log[-1:]
    assert errors[0].content is None
    assert errors[0].error_code == describe(caught.value)[0]
    assert errors[0].error_message == str(caught.value)
    called = [item.id for event in log for item in event.get_function_calls()]
    answered = [item.id for event in log for item in event.get_function_responses()]
    assert called == answered
    record = await runner.session_service.get_invocation(
        SessionKey(runner.app_name, *USER.values()), log[-1].invocation_id
    )
    assert record is not None
    assert record.status is Status.FAILED
    return str(caught.value)


def holds_an_object() -> dict[str, object]:
    """Return what JSON cannot hold."""
    return {"items": [{"price": object()}]}


def holds_nul() -> str:
    """Return a NUL character."""
    return "a\x00b"


def holds_a_surrogate() -> str:
    """Return half of a character."""
    return "\ud800"


def is_large() -> str:
    """Return 3 MB."""
    return "x" * 3_000_000


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (holds_an_object, ["holds_an_object", "['items'][0]['price']", "object"]),
        (holds_nul, ["holds_nul", "NUL"]),
        (holds_a_surrogate, ["holds_a_surrogate", "lone surrogate"]),
        (is_large, ["is_large", "3,000", "artifact"]),
    ],
)
async def test_a_result_that_cannot_be_stored_ends_the_run_once(
    make_runner: MakeRunner, tool: Any, words: list[str]
) -> None:
    """F13, D11: the tool ran once, the error names the path, the next message works."""
    runs: list[int] = []

    def counted() -> Any:
        """Count the runs."""
        runs.append(1)
        return tool()

    counted.__name__ = tool.__name__
    runner = await make_runner(agent_with(counted))
    message = await fails(runner, ToolResultError)
    assert all(word in message for word in words), message
    assert runs == [1]
    assert gist((await send(runner, "again"))[-1]).startswith("a text")


async def test_a_tool_that_raises_ends_the_run_with_its_error(make_runner: MakeRunner) -> None:
    """TOL-18, RUN-8, DUR-10: the error event has the exception's name; it is a ValueError here."""

    def broken() -> None:
        """Raise."""
        raise ValueError("no such thing")

    runner = await make_runner(agent_with(broken))
    assert await fails(runner, ValueError) == "no such thing"
    with pytest.raises(ValueError, match="no such thing"):
        await send(await make_runner(agent_with(broken)))


@pytest.mark.parametrize("message", ["x" * 6_000_000, "half \ud800 a character", "a\x00b"])
async def test_an_exception_of_any_size_and_content_ends_the_run(
    make_runner: MakeRunner, message: str
) -> None:
    """F12, F13, 1c: what user code writes into an exception cannot wedge the run."""
    runs: list[int] = []
    caught = None

    def broken() -> None:
        """Raise."""
        runs.append(1)
        raise RuntimeError(message)

    runner = await make_runner(agent_with(broken))
    try:
        await asyncio.wait_for(send(runner), PATIENCE)
    except RuntimeError as error:  # no `raises`: a report cannot have the message either
        caught = error
    assert caught is not None
    last = (await stored(runner))[-1]
    assert last.error_code == "RuntimeError"
    assert 0 < len(last.error_message or "") <= 8_000
    assert runs == [1]


async def test_local_state_that_is_too_large_ends_the_run(make_runner: MakeRunner) -> None:
    """1c: `temp:` keys travel with every step; beyond a payload's size they would hang it."""

    def remember(callback_context: Any) -> None:
        for number in range(3):
            callback_context.state[f"temp:{number}"] = "x" * 300_000

    def more(callback_context: Any, llm_request: Any) -> None:
        callback_context.state["temp:more"] = "x" * 300_000

    model = ScriptedModel(replies=[call("f"), "never"])
    agent = LlmAgent(
        name="a",
        model=model,
        tools=[FunctionTool(lambda: "x", name="f")],
        before_agent_callback=remember,
        before_model_callback=more,
    )
    assert "temp:" in await fails(await make_runner(agent), PayloadTooLargeError)


async def test_state_that_is_too_large_for_a_custom_agent_ends_the_run(
    make_runner: MakeRunner,
) -> None:
    """1c: a result that cannot be recorded would be retried for ever."""

    class Reader(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            yield Event(author=self.name)

    runner = await make_runner(Reader(name="reader"))
    state = {str(number): "x" * 400_000 for number in range(4)}
    await runner.session_service.create_session(app_name=runner.app_name, **USER, state=state)
    assert "custom agents" in await fails(runner, PayloadTooLargeError)


@pytest.mark.parametrize("ending", [SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_code_that_exits_ends_its_run_and_nothing_else(
    make_runner: MakeRunner, ending: BaseException, *, is_async: bool
) -> None:
    """F12, I22: neither the worker nor the next message suffers, and nothing runs twice."""
    runs: list[int] = []

    def quits() -> None:
        """Exit."""
        runs.append(1)
        raise ending

    async def quits_later() -> None:
        """Exit."""
        quits()

    tool = FunctionTool(quits_later if is_async else quits, name="quits")
    runner = await make_runner(agent_with(tool))
    assert type(ending).__name__ in await fails(runner, RuntimeError)
    assert runs == [1]
    assert gist((await send(runner, "again"))[-1]) == "a text done"


CANCELLED: list[int] = []
"""One entry for each time that code has cancelled its own task."""


async def cancels(*_: Any, **__: Any) -> Any:
    """Do what a cancel scope does that a library has left open."""
    CANCELLED.append(1)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await forever()


class CancelledModel(BaseLlm):
    """Cancels its task before it has answered."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        del llm_request, stream
        await cancels()
        yield LlmResponse()


class CancelledExecutor(BaseCodeExecutor):
    """Cancels its task while code runs."""

    async def execute_code(self, *args: Any) -> Any:
        return await cancels(*args)


class CancelledPlugin(BasePlugin):
    """Cancels its task at a hook of the invocation."""

    async def before_run_callback(self, *, invocation_context: Any) -> Any:
        return await cancels(invocation_context)


class CancelledTool(FunctionTool):
    """Cancels its task when it changes a request."""

    async def process_llm_request(self, **given: Any) -> None:
        await cancels(**given)


class CancelledStep(BaseAgent):
    """Calls a step that cancels its task."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        await ctx.step(cancels)
        yield Event(author=self.name)


def _plain(reply: Any = "done", **fields: Any) -> LlmAgent:
    model = ScriptedModel(replies=[reply, "done"])
    return LlmAgent(**{"name": "a", "model": model} | fields)


CANCELLING: dict[str, Callable[[], tuple[BaseAgent, dict[str, Any]]]] = {
    "tool": lambda: (agent_with(FunctionTool(cancels, name="f"), call("f")), {}),
    "model": lambda: (_plain(model=CancelledModel(model="m")), {}),
    "agent callback": lambda: (_plain(before_agent_callback=cancels), {}),
    "model callback": lambda: (_plain(after_model_callback=cancels), {}),
    "instruction provider": lambda: (_plain(instruction=cancels), {}),
    "code executor": lambda: (_plain("```python\n1\n```", code_executor=CancelledExecutor()), {}),
    "request": lambda: (_plain(tools=[CancelledTool(cancels, name="f")]), {}),
    "ctx.step": lambda: (CancelledStep(name="a"), {}),
    "hook": lambda: (_plain(), {"plugins": [CancelledPlugin("p")]}),
}


@pytest.mark.parametrize("where", CANCELLING)
async def test_code_that_cancels_its_task_ends_its_run_once(
    make_runner: MakeRunner, where: str
) -> None:
    """F12, I8: no engine has cancelled the step, so no worker was lost and nothing is retried."""
    CANCELLED.clear()
    agent, options = CANCELLING[where]()
    assert "CancelledError" in await fails(await make_runner(agent, **options), RuntimeError)
    assert CANCELLED == [1]


def wrong_actions(tool_context: Any) -> None:
    """Assign what no reader of the event would take."""
    tool_context.actions.artifact_delta["name"] = "latest"


class WrongActions(BaseAgent):
    """Yields an event that no reader would take."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        if ctx.user_content.parts[0].text == "hello":
            event = Event(author=self.name)
            event.actions.artifact_delta["name"] = cast("int", "latest")
            yield event
        yield Event(author=self.name, content=types.ModelContent("done"))


@pytest.mark.parametrize("where", ["tool", "body"])
async def test_actions_of_another_type_end_their_run_only(
    make_runner: MakeRunner, where: str
) -> None:
    """F13, I22: stored or sent, such an event would end its workflow and all later messages."""
    agent = agent_with(wrong_actions) if where == "tool" else WrongActions(name="a")
    runner = await make_runner(agent)
    assert "artifactDelta" in await fails(runner, StateValueError)
    assert gist((await send(runner, "again"))[-1]) == "a text done"


@pytest.mark.thorough
async def test_a_model_callback_that_hangs_ends_the_run(make_runner: MakeRunner) -> None:
    """D11, F11: it is given up in time, and the model is not called again for it."""
    runs: list[int] = []

    async def endless(callback_context: Any, llm_response: Any) -> None:
        runs.append(1)
        await forever()

    model = ScriptedModel(replies=["hi"])
    agent = LlmAgent(name="a", model=model, after_model_callback=endless)
    limits = Limits(model_timeout=2, callback_timeout=1)
    runner = await make_runner(agent, limits=limits)
    assert "did not finish in 3 s" in await fails(runner, CallbackError)
    assert (runs, len(model.requests)) == ([1], 1)


async def test_calls_that_together_are_too_large_end_the_run(make_runner: MakeRunner) -> None:
    """1c: each step is small enough, but the engine would end a run that sends them at once."""

    def remember(callback_context: Any) -> None:
        callback_context.state["temp:note"] = "x" * 900_000

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[calls(*[("f", {})] * 6)]),
        tools=[FunctionTool(lambda: "x", name="f")],
        before_agent_callback=remember,
    )
    assert "6 calls at once" in await fails(await make_runner(agent), PayloadTooLargeError)


async def open_steps(client: Client, runner: Runner) -> int | None:
    """How many activities the active invocation's workflow waits for; None: it runs in process."""
    key = SessionKey(runner.app_name, *USER.values())
    record = await runner.session_service.active_invocation(key)
    assert record is not None
    if record.lease_owner.startswith("local:"):
        return None
    described = await client.get_workflow_handle(workflow_id(key, record.invocation_id)).describe()
    return len(described.raw_description.pending_activities)


async def test_one_failing_call_keeps_the_others_results(
    make_runner: MakeRunner, client: Client
) -> None:
    """FLW-46, TRAP-25: completed results are committed before the error is raised."""
    returned, fail = asyncio.Event(), asyncio.Event()

    async def good() -> str:
        """Return."""
        returned.set()
        return "kept"

    async def broken() -> None:
        """Raise, later."""
        await until(fail.is_set)
        raise ValueError("late")

    async def slow() -> None:
        """Take too long for a test."""
        await forever()

    async def is_completed() -> bool:
        # In process it ends before any code that the same event loop runs later.
        return returned.is_set() and await open_steps(client, runner) in (None, 2)

    model = ScriptedModel(replies=[calls(("good", {}), ("slow", {}), ("broken", {}))])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[good, slow, broken]))
    failing = asyncio.create_task(fails(runner, ValueError))
    await until(is_completed)
    fail.set()
    await failing
    responses = (await stored(runner))[-2].get_function_responses()
    assert [item.name for item in responses] == ["good", "slow", "broken"]
    assert responses[0].response == {"result": "kept"}
    assert "Cancelled" in str(responses[1].response)
    assert "late" in str(responses[2].response)


@pytest.mark.thorough
async def test_a_tool_that_takes_too_long_is_ended(make_runner: MakeRunner) -> None:
    """F11: a hanging tool ends by its own timeout, and is not run again."""
    runs: list[int] = []

    async def endless() -> None:
        """Never return."""
        runs.append(1)
        await forever()

    runner = await make_runner(agent_with(FunctionTool(endless, timeout=2.5)))
    assert "2.5 s" in await fails(runner, ToolTimeoutError)
    assert runs == [1]


async def test_a_missing_template_variable_is_named(make_runner: MakeRunner) -> None:
    """AGT-13, TRAP-38: no retries, the variable's name, a KeyError too."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["never"]), instruction="Hi {name}")
    runner = await make_runner(agent)
    said = "Context variable not found: `name` in agent 'a'."
    assert await fails(runner, InstructionError) == said


@pytest.mark.parametrize("args", [{}, {"count": "many"}, {"count": 2, "extra": True}])
async def test_wrong_arguments_are_told_to_the_model(
    make_runner: MakeRunner, args: dict[str, Any]
) -> None:
    """TOL-14, TOL-15: the function is called only with arguments that fit."""
    seen: list[int] = []

    def take(count: int) -> str:
        """Take some."""
        seen.append(count)
        return "taken"

    model = ScriptedModel(replies=[call("take", **args), "ok"])
    events = await send(await make_runner(LlmAgent(name="a", model=model, tools=[take])))
    response = events[1].get_function_responses()[0].response
    assert response is not None
    if args.get("count") == 2:
        assert (response, seen) == ({"result": "taken"}, [2])
    else:
        assert "count" in response["error"]
        assert seen == []


async def test_an_answer_that_does_not_fit_the_schema_ends_the_run(
    make_runner: MakeRunner,
) -> None:
    """AGT-22: what is to be kept under `output_key` has to fit; the error names the field."""

    class Answer(BaseModel):
        count: int

    model = ScriptedModel(replies=['{"count": "x"}'])
    agent = LlmAgent(name="a", model=model, output_schema=Answer, output_key="out")
    assert "count" in await fails(await make_runner(agent), OutputSchemaError)


async def test_a_blocked_answer_is_an_event_and_no_failure(make_runner: MakeRunner) -> None:
    """EVT-21, TRAP-40: a safety block is stored, final, and not retried."""
    blocked = LlmResponse(error_code="SAFETY", error_message="blocked")
    model = ScriptedModel(replies=[blocked])
    events = await send(await make_runner(LlmAgent(name="a", model=model)))
    assert [gist(event) for event in events] == ["a error SAFETY"]
    assert events[0].is_final_response()


async def test_a_state_value_that_is_not_json_is_named(make_runner: MakeRunner) -> None:
    """ACT-2, TRAP-21: found where it is written, also when it is changed in place."""

    def careless(tool_context: Any) -> str:
        """Put an object into a list."""
        tool_context.state["cart"] = []
        tool_context.state["cart"].append({1, 2})
        return "ok"

    runner = await make_runner(agent_with(careless))
    assert "state['cart'][0] is a set" in await fails(runner, StateValueError)


async def test_an_agents_own_error_ends_the_run(make_runner: MakeRunner) -> None:
    """RUN-8: what a custom agent raises is stored and raised."""

    class Broken(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            raise ZeroDivisionError("division by zero")
            yield

    with pytest.raises(ZeroDivisionError):
        await send(await make_runner(Broken(name="broken")))


async def test_an_unknown_session_is_refused(make_runner: MakeRunner) -> None:
    """RUN-16: nothing runs, and the message says what to do."""
    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=["never"])))
    with pytest.raises(SessionNotFoundError, match="create_session"):
        await anext(runner.run_async(**USER, new_message="hello"))


@pytest.mark.parametrize("message", ["", "  \n", types.Content(role="user", parts=[])])
async def test_an_empty_message_is_refused(message: Any) -> None:
    """RUN-20: nothing is stored."""
    async with InMemoryRunner(LlmAgent(name="a", model=ScriptedModel(replies=["x"]))) as runner:
        with pytest.raises(InvalidRequestError, match=r"No parts in the new_message\."):
            await send(runner, message)
        assert await stored(runner) == []


@pytest.mark.parametrize(
    "part",
    [
        types.Part(function_call=types.FunctionCall(name="f", args={})),
        types.Part(function_response=types.FunctionResponse(id="x", name="f", response={})),
    ],
)
async def test_a_forged_call_or_response_is_refused(part: types.Part) -> None:
    """RUN-21, TRAP-28: users cannot speak for the model or for tools."""
    async with InMemoryRunner(LlmAgent(name="a", model=ScriptedModel(replies=["x"]))) as runner:
        with pytest.raises(InvalidRequestError, match=r"function calls|no pending call 'x'"):
            await send(runner, types.Content(role="user", parts=[part]))


@pytest.mark.parametrize("bad", ["", "   ", "a\nb", "a\x00b", "\ud800", "x" * 129])
async def test_an_unusable_id_is_refused(bad: str, sessions: SqliteSessionService) -> None:
    """S2: control characters, empty and overlong ids; the message names the field."""
    for field in ("user_id", "session_id"):
        ids = {"user_id": "u", "session_id": "s", field: bad}
        for service in (sessions, InMemorySessionService()):
            if field == "session_id" and not bad.strip():
                continue  # create_session without an id draws one
            with pytest.raises(InvalidRequestError, match=field):
                await service.create_session(app_name="app", **ids)


async def test_a_message_of_five_megabytes_is_refused() -> None:
    """TRAP-42: with the size, the limit and the remedy."""
    async with InMemoryRunner(LlmAgent(name="a", model=ScriptedModel(replies=["x"]))) as runner:
        with pytest.raises(PayloadTooLargeError, match=r"message is 5,0.* at most 1,000,000"):
            await send(runner, "x" * 5_000_000)


async def test_an_app_nobody_serves_is_refused(
    client: Client, sessions: SqliteSessionService
) -> None:
    """The workflow fails with the apps that are served; it does not retry for ever."""
    app = App(name="served", root_agent=LlmAgent(name="a", model=ScriptedModel(replies=["x"])))
    options = WorkerOptions(task_queue=f"test-{uuid.uuid4().hex}")
    async with worker(client, apps=[app], session_service=sessions, options=options):
        request = InvocationRequest(
            app="other", user="u", session="s", message="hi", invocation_id=uuid.uuid4().hex
        )
        handle = await Invocations(client, options.task_queue).start(request)
        with pytest.raises(UnknownAppError, match=r"'other' is not served here.*: served"):
            await asyncio.wait_for(handle.result(), PATIENCE)


async def test_an_unknown_invocation_is_refused(make_runner: MakeRunner) -> None:
    """Attaching to what does not exist ends with the id in the message."""
    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=["x"])))
    await ensure_session(runner)
    with pytest.raises(InvocationNotFoundError, match="e-none"):
        await anext(runner.run_async(**USER, invocation_id="e-none"))


@pytest.mark.thorough
async def test_without_a_worker_the_message_is_kept(
    client: Client, sessions: SqliteSessionService
) -> None:
    """F48: the caller learns that nobody listens; a worker that comes later runs the message."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["late but here"]))
    app = App(name="app", root_agent=agent)
    queue = f"test-{uuid.uuid4().hex}"
    runner = Runner(app=app, session_service=sessions, client=client, task_queue=queue)
    with pytest.raises(NoWorkerError, match=queue):
        await asyncio.wait_for(send(runner, invocation_id="e-kept"), PATIENCE)
    options = WorkerOptions(task_queue=queue)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        events = [event async for event in runner.run_async(**USER, invocation_id="e-kept")]
    assert [gist(event) for event in events] == ["a text late but here"]


async def test_without_temporal_the_address_is_named() -> None:
    """The message says where it looked and what to start."""
    with pytest.raises(TemporalUnavailableError, match=r"127\.0\.0\.1:1.*durable-adk dev"):
        await asyncio.wait_for(connect("127.0.0.1:1"), PATIENCE)


async def test_the_same_id_with_another_message_is_refused(make_runner: MakeRunner) -> None:
    """SSN-12, I12: an invocation id names one message only, with one change of the state."""
    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=["one", "two"])))
    name = uuid.uuid4().hex
    same = {"invocation_id": name, "state_delta": {"a": 1, "temp:b": 2}}
    same |= {"run_config": RunConfig(custom_metadata={"c": 3})}
    first = await send(runner, "hello", **same)
    again = await send(runner, "hello", **same)
    assert [gist(event) for event in first] == ["a text one"]
    assert [shape(event) for event in again] == [shape(event) for event in first]
    with pytest.raises(EventConflictError, match="another message"):
        await send(runner, "good-bye", **same)
    for delta in ({}, {"a": True}, {"a": 1, "d": 4}):
        with pytest.raises(EventConflictError, match="another state_delta, which was kept"):
            await send(runner, "hello", **same | {"state_delta": delta})
    with pytest.raises(EventConflictError, match="another custom_metadata"):
        await send(runner, "hello", **same | {"run_config": None})
    assert len(await stored(runner)) == 2


async def test_an_id_that_another_invocations_events_may_have_is_refused(
    make_runner: MakeRunner,
) -> None:
    """S2: before anything is stored, and not when a lane's event meets one of that id."""
    lanes = [LlmAgent(name=name, model=ScriptedModel(replies=["a", "b"])) for name in ("l", "r")]
    runner = await make_runner(ParallelAgent(name="both", sub_agents=lanes))
    name = f"order-{uuid.uuid4().hex}"
    await send(runner, invocation_id=name)
    before = await stored(runner)
    assert f"{name}.1.0.1" in {event.id for event in before}
    with pytest.raises(InvalidRequestError, match="choose an id that does not begin with"):
        await send(runner, "next", invocation_id=f"{name}.1.0")
    assert await stored(runner) == before
    assert await send(runner, "next", invocation_id=f"{name}.1")


async def test_a_taken_session_id_is_refused(sessions: SqliteSessionService) -> None:
    """SSN-3."""
    for service in (sessions, InMemorySessionService()):
        await service.create_session(app_name="app", **USER)
        with pytest.raises(AlreadyExistsError):
            await service.create_session(app_name="app", **USER)


async def test_a_bad_app_and_agent_definition_is_named() -> None:
    """AGT-1, AGT-2, APP-1, RUN-11."""
    child = LlmAgent(name="child")
    LlmAgent(name="parent", sub_agents=[child])
    with pytest.raises(ValueError, match="a sub-agent of 'parent' already"):
        LlmAgent(name="other", sub_agents=[child])
    with pytest.raises(ValueError, match="must be a Python identifier"):
        LlmAgent(name="user")
    with pytest.raises(ValueError, match="must start with a letter"):
        App(name="1st", root_agent=child)
    with pytest.raises(InvalidRequestError, match="One of app, agent"):
        Runner(session_service=InMemorySessionService())
    with pytest.raises(ValueError, match="max_llm_calls must be less than"):
        RunConfig(max_llm_calls=2**63 - 1)


async def test_limits_can_be_set_in_process() -> None:
    """A runner without Temporal holds its steps to its own limits."""

    async def endless() -> None:
        """Never return."""
        await forever()

    async with InMemoryRunner(agent_with(endless), limits=Limits(tool_timeout=0.2)) as runner:
        await fails(runner, ToolTimeoutError)


@pytest.mark.thorough
async def test_attaching_to_a_run_whose_process_is_gone_says_so() -> None:
    """D7, D11: nothing will ever end it here, and waiting callers get an error."""
    sessions = InMemorySessionService()
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    await sessions.open_invocation(
        SessionKey("app", "u", "s"),
        invocation_id="e-1",
        lease_owner="local:gone:e-1",
        user_event=message,
        create_session=True,
        ttl=0.01,
    )
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["never", "next"]))
    async with Runner(app=App(name="app", root_agent=agent), session_service=sessions) as runner:
        with pytest.raises(InvocationTerminatedError, match="Send the message again"):
            await asyncio.wait_for(anext(runner.run_async(**USER, invocation_id="e-1")), PATIENCE)
        await send(runner, "next")
        with pytest.raises(InvocationTerminatedError):
            await anext(runner.run_async(**USER, invocation_id="e-1"))
