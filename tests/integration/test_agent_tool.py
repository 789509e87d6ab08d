"""Agents as tools (TOL-21, ART-12, TRAP-43, OPEN-6)."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from durable_adk import calling
from durable_adk.agents import BaseAgent, LlmAgent, SequentialAgent
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.agents.invocation_context import InvocationContext
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.sessions import SessionKey
from durable_adk.sessions.records import Status
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.function_tool import FunctionTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.tools.tool_context import ToolContext
from tests.conftest import MakeRunner
from tests.support.gates import until_set
from tests.support.scripts import USER, call, calls, gist, send, state
from tests.support.waiting import forever, until

KEY = SessionKey("app", "u", "s")


def expert(*replies: Any, name: str = "expert", **fields: Any) -> LlmAgent:
    """An agent to be asked."""
    return LlmAgent(
        name=name,
        description="knows it",
        model=ScriptedModel(replies=replies or ["forty-two"]),
        **fields,
    )


def asking(*tools: AgentTool, **fields: Any) -> LlmAgent:
    """An agent that asks all of its experts at once, then sums up."""
    asked = calls(*((tool.name, {"request": f"q for {tool.name}"}) for tool in tools))
    return LlmAgent(
        name="root", model=ScriptedModel(replies=[asked, "so it is"]), tools=list(tools), **fields
    )


async def test_the_answer_is_the_tool_s_result_and_the_conversation_stays_apart(
    make_runner: MakeRunner,
) -> None:
    """TOL-21: one call, one response; nothing of the child is in the caller's history or list."""
    child = expert()
    runner = await make_runner(asking(AgentTool(child)))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "root call expert",
        "root response expert",
        "root text so it is",
    ]
    assert events[1].get_function_responses()[0].response == {"result": "forty-two"}
    assert isinstance(child.model, ScriptedModel)
    (request,) = child.model.requests
    assert "q for expert" in str(request.contents)
    assert "hello" not in str(request.contents)
    listed = await runner.session_service.list_sessions(app_name="app", user_id="u")
    assert [session.id for session in listed.sessions] == ["s"]


async def test_code_in_the_answer_is_part_of_the_result(make_runner: MakeRunner) -> None:
    """TOL-21: as in ADK, what a model wrote as code, and the output of that."""
    answer = [
        types.Part(text="hm", thought=True),
        types.Part.from_executable_code(code="print(6 * 7)", language=types.Language.PYTHON),
        types.Part.from_code_execution_result(outcome=types.Outcome.OUTCOME_OK, output="42\n"),
        types.Part(text="So it is."),
    ]
    runner = await make_runner(asking(AgentTool(expert(types.Content(parts=answer)))))
    events = await send(runner)
    result = {"result": "print(6 * 7)\n42\nSo it is."}
    assert events[1].get_function_responses()[0].response == result


async def test_the_child_runs_under_the_caller_s_invocation_id(make_runner: MakeRunner) -> None:
    """OPEN-6: one id correlates all of it, in a session of its own."""
    seen: list[str] = []

    def note(callback_context: Any) -> None:
        seen.append(callback_context.invocation_id)
        assert callback_context.session.id.startswith("adk-tool:")

    runner = await make_runner(asking(AgentTool(expert(before_agent_callback=note))))
    events = await send(runner)
    assert set(seen) == {events[0].invocation_id}


async def test_several_agents_are_asked_side_by_side(make_runner: MakeRunner) -> None:
    """TOL-21, FLW-43: their responses are one event, in the order of the calls."""
    ended = asyncio.Event()

    async def later(**_: Any) -> None:
        await until(ended.is_set)

    model = ScriptedModel(replies=["late"])
    slow = LlmAgent(name="slow", model=model, before_model_callback=later)
    quick = expert(after_agent_callback=lambda **_: ended.set())
    events = await send(await make_runner(asking(AgentTool(slow), AgentTool(quick))))
    results = [item.response for item in events[1].get_function_responses()]
    assert results == [{"result": "late"}, {"result": "forty-two"}]


async def test_skip_summarization_ends_the_turn_with_the_agent_s_words(
    make_runner: MakeRunner,
) -> None:
    """17.1 TOL-21: the result is repeated as text."""
    events = await send(await make_runner(asking(AgentTool(expert(), skip_summarization=True))))
    assert len(events) == 2
    assert events[1].is_final_response()
    assert events[1].text == "forty-two"


class Verdict(BaseModel):
    """What an expert is to answer."""

    verdict: str


async def test_skip_summarization_shows_structured_output_as_text(make_runner: MakeRunner) -> None:
    """17.1 TOL-21: as JSON, which is the caller's output too."""
    child = expert('{"verdict": "yes"}', output_schema=Verdict)
    root = asking(AgentTool(child, skip_summarization=True), output_key="out")
    runner = await make_runner(root)
    events = await send(runner)
    assert events[-1].get_function_responses()[0].response == {"verdict": "yes"}
    assert events[-1].text == '{"verdict": "yes"}'
    assert await state(runner) == {"out": '{"verdict": "yes"}'}


async def test_calls_of_different_agents_have_different_keys(make_runner: MakeRunner) -> None:
    """DUR-9: though agents that are asked share an invocation id, and each counts from 1."""
    keys: list[str] = []

    def work(tool_context: ToolContext) -> None:
        keys.append(tool_context.idempotency_key)

    experts = [
        AgentTool(expert(call("work"), "done", name=name, tools=[work])) for name in ("one", "two")
    ]
    await send(await make_runner(asking(*experts)))
    assert len(set(keys)) == 2


def wait() -> None:
    """Start something."""


def told() -> dict[str, str]:
    """Start something, and say so."""
    return {"status": "started"}


def approve() -> str:
    """Do what has to be approved."""
    return "done"


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("wait", LongRunningFunctionTool(wait)),
        ("approve", FunctionTool(approve, require_confirmation=True)),
    ],
)
async def test_a_child_that_would_wait_is_told_to_the_caller(
    make_runner: MakeRunner, name: str, tool: BaseTool
) -> None:
    """TOL-21, TRAP-43: the child ends, the caller's model gets an error and continues."""
    root = asking(AgentTool(expert(call(name), "never", tools=[tool])))
    events = await send(await make_runner(root))
    assert [gist(event) for event in events] == [
        "root call expert",
        "root response expert",
        "root text so it is",
    ]
    response = events[1].get_function_responses()[0].response or {}
    assert "Error: agent 'expert' stopped" in response["result"]


async def test_a_child_goes_on_with_an_interim_result(make_runner: MakeRunner) -> None:
    """TOL-21, TOL-42: what a long-running tool says at once is enough for the child's model."""
    child = expert(call("told"), "it has begun", tools=[LongRunningFunctionTool(told)])
    events = await send(await make_runner(asking(AgentTool(child))))
    assert events[1].get_function_responses()[0].response == {"result": "it has begun"}


class Wrapped(AgentTool):
    """Asks its agent twice, with code of its own round it."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Count, ask, and ask again with the first answer."""
        tool_context.state["count"] = tool_context.state.get("count", 0) + 1
        first = await super().run_async(args={"request": "one"}, tool_context=tool_context)
        tool_context.state["first"] = first
        second = await super().run_async(args={"request": first}, tool_context=tool_context)
        return {"first": first, "second": second, "asked": args["request"]}


class Around(BaseAgent):
    """Runs its agent in a body of its own, so that results are noted for it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("around", [False, True])
async def test_a_subclass_wraps_the_agents_run(make_runner: MakeRunner, *, around: bool) -> None:
    """TOL-21, I10: its `run_async` is called, and may run the agent as often as it likes.

    Each of the call's steps has a note of its own.
    """
    seen: list[Any] = []

    def note(callback_context: CallbackContext) -> None:
        state, message = callback_context.state, callback_context.user_content
        assert message
        seen.append((state.get("count"), state.get("first"), (message.parts or [])[0].text))
        state["child"] = True

    def reply(request: LlmRequest) -> str:
        return f"re:{(request.contents[-1].parts or [])[0].text}"

    model = ScriptedModel(replies=reply)
    child = LlmAgent(name="expert", model=model, before_agent_callback=note)
    root = asking(Wrapped(child))
    runner = await make_runner(Around(name="around", sub_agents=[root]) if around else root)
    events = await send(runner)
    assert events[1].get_function_responses()[0].response == {
        "first": "re:one",
        "second": "re:re:one",
        "asked": "q for expert",
    }
    assert await state(runner) == {"count": 1, "first": "re:one", "child": True}
    assert seen == [(1, None, "one"), (1, "re:one", "re:one")]


async def _guarded(ask: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await ask()
    except:  # noqa: E722
        return "not available"


async def _stubborn(ask: Callable[[], Awaitable[Any]]) -> Any:
    for _ in range(4):
        with suppress(BaseException):
            return await ask()
    return "not available"


async def _gathered(ask: Callable[[], Awaitable[Any]]) -> Any:
    found = await asyncio.gather(ask(), ask(), return_exceptions=True)
    return [one for one in found if isinstance(one, str)]


async def _left_behind(ask: Callable[[], Awaitable[Any]]) -> Any:
    asking = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    return asking.result() if asking.done() else "too slow"


GUARDS: dict[str, tuple[Callable[..., Awaitable[Any]], Any]] = {
    "a bare except": (_guarded, "found"),
    "retries": (_stubborn, "found"),
    "gather": (_gathered, ["found", "found"]),
    "no time": (_left_behind, "found"),
    "a loop of its own": (lambda ask: asyncio.to_thread(asyncio.run, _guarded(ask)), "found"),
}


@pytest.mark.parametrize("guard", GUARDS)
async def test_code_round_an_agent_cannot_keep_it_from_running(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """TOL-21: whatever it catches, what it returns without the agent's answer does not count."""
    monkeypatch.setattr(calling, "OBEY", 0.1)
    code, result = GUARDS[guard]

    class Guarded(AgentTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            run = super().run_async
            return {"is": await code(lambda: run(args=args, tool_context=tool_context))}

    tool = Guarded(LlmAgent(name="expert", model=ScriptedModel(replies=lambda _: "found")))
    events = await send(await make_runner(asking(tool)))
    assert events[1].get_function_responses()[0].response == {"is": result}


class NotNow(Exception):  # noqa: N818 - an application's own name
    """An exception of an application, with an attribute."""

    def __init__(self, until: int) -> None:
        super().__init__(f"not before {until}")
        self.until = until


async def test_what_the_agent_fails_with_can_be_caught_round_it(make_runner: MakeRunner) -> None:
    """TOL-21: a subclass may answer for its agent; the exception is the application's own."""

    class Careful(AgentTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            try:
                return await super().run_async(args=args, tool_context=tool_context)
            except NotNow as error:
                return f"later, at {error.until}"

    def broken() -> None:
        raise NotNow(7)

    tool = Careful(expert(call("broken"), tools=[broken]))
    events = await send(await make_runner(asking(tool)))
    assert events[1].get_function_responses()[0].response == {"result": "later, at 7"}


async def test_the_child_sees_what_callbacks_before_the_call_changed(
    make_runner: MakeRunner,
) -> None:
    """TOL-21: as in ADK, though their changes are stored with the response."""
    seen: list[Any] = []

    def before(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        del tool, args
        tool_context.state["asked"] = 1

    def note(callback_context: CallbackContext) -> None:
        seen.append(callback_context.state.get("asked"))

    root = asking(AgentTool(expert(before_agent_callback=note)), before_tool_callback=before)
    await send(await make_runner(root))
    assert seen == [1]


async def test_cancelling_the_caller_cancels_the_child(make_runner: MakeRunner) -> None:
    """CAN-3: both sessions are sealed."""
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        await forever()

    runner = await make_runner(asking(AgentTool(expert(call("slow"), tools=[slow]))))
    name = f"e-{uuid.uuid4()}"  # of one server, which remembers
    running = asyncio.ensure_future(send(runner, invocation_id=name))
    await until_set(begun)
    assert await runner.cancel(**USER, invocation_id=name)
    await asyncio.gather(running, return_exceptions=True)
    found = await runner.session_service.invocations_by_time(app_name="app")
    assert [record.status for _, record in found] == [Status.CANCELLED] * 2


def test_two_agents_of_a_name_are_refused() -> None:
    """Steps name agents: one in a tool may not be called like one of the tree."""
    tree = LlmAgent(name="root", model="x", tools=[AgentTool(expert(name="twin"))])
    twin = expert(name="twin")
    with pytest.raises(ValueError, match="twin"):
        App(name="app", root_agent=SequentialAgent(name="s", sub_agents=[tree, twin]))
