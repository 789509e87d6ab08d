"""No value or error of user code or of a client wedges or repeats a run (F13, F31).

Each test is a position, such as a tool's result. It runs all values there, and its message names
the cells that fail.
"""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.service import RPCError

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.sessions import SessionKey
from durable_adk.tools import FunctionTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import workflow_id
from tests.support.payload_matrix import (
    FINE,
    HARD,
    HARD_RAISED,
    RAISED,
    RUNS,
    TEXTS,
    VALUES,
    Matrix,
    blow,
    ends,
    fits,
    once,
    raises_once,
    ran,
    reaches,
    say,
    scripted,
    with_tool,
)
from tests.support.scripts import USER, call, calls, send
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(3)]
HUGE = {"huge int"}
"""The only one of VALUES that is JSON as it is, of no great size."""


@pytest.fixture
def matrix(client: Client, tmp_path: Path) -> Matrix:
    """Runs the cells of a position."""
    return Matrix(client, tmp_path)


def quiet(*_: str, **fields: Any) -> BaseAgent:
    """An agent whose model answers at once."""
    return LlmAgent(name="a", model=scripted(), **fields)


async def test_a_tools_result_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F13, I8: any value; the tool runs once, and the error names it."""
    check = ends({*FINE, "nan", "infinity"}, runs=1, naming="'tool'")
    await matrix.run(lambda value: with_tool(lambda: ran(VALUES[value]())), check, VALUES)


async def test_what_a_tool_raises_ends_the_run(matrix: Matrix) -> None:
    """F12, I8: any class and text; the tool runs once, and its class, or ours, is raised."""

    def agent(kind: str, raised: str) -> BaseAgent:
        def broken() -> None:
            blow(ran(raised))

        async def broken_async() -> None:
            broken()

        return with_tool(broken_async if kind == "async" else broken)

    await matrix.run(agent, raises_once, ["sync", "async"], RAISED)


async def test_a_state_value_of_a_tool_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F13: the error names the key, or the tool."""

    def agent(value: str) -> BaseAgent:
        def tool(tool_context: Any) -> None:
            tool_context.state["key"] = ran(VALUES[value]())

        return with_tool(tool)

    await matrix.run(agent, ends(HUGE, runs=1, naming="key|tool"), VALUES)


async def test_metadata_of_an_artifact_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F13: what is saved beside an artifact."""

    def agent(value: str) -> BaseAgent:
        async def tool(tool_context: Any) -> None:
            metadata = {"key": ran(VALUES[value]())}
            await tool_context.save_artifact("f", types.Part(text="x"), custom_metadata=metadata)

        return with_tool(tool)

    await matrix.run(agent, ends({"3 MB", *HUGE}, runs=1), [*HARD, *HUGE])


async def test_a_models_text_beyond_an_events_size_ends_the_run(matrix: Matrix) -> None:
    """F31: so does one that is no text."""
    await matrix.run(lambda text: LlmAgent(name="a", model=scripted(VALUES[text]())), ends(), TEXTS)


async def test_a_models_arguments_reach_the_tool_or_end_the_run(matrix: Matrix) -> None:
    """F31: the tool runs once, or never."""

    def agent(value: str) -> BaseAgent:
        model = scripted(call("tool", value=VALUES[value]()))
        tool = FunctionTool(lambda value: ran(), name="tool")
        return LlmAgent(name="a", model=model, tools=[tool])

    await matrix.run(agent, reaches(HUGE), [*HARD, *HUGE])


def returned(hook: str, value: Any) -> Any:
    """What a callback may return in the place of an agent, a model or a tool."""
    if "tool" in hook:
        return {"value": value}
    return LlmResponse(content=say(value)) if "model" in hook else say(value)


async def test_a_bad_value_of_a_callback_ends_the_run(matrix: Matrix) -> None:
    """F31: callbacks answer in the place of agents, models and tools; contents hold only texts."""

    def agent(hook: str, value: str) -> BaseAgent:
        def callback(*args: Any, **kwargs: Any) -> Any:
            return once(lambda: returned(hook, VALUES[value]()))

        return with_tool(lambda: "x", **{f"{hook}_callback": callback})

    contents = ["before_agent", "before_model", "after_model", "after_agent"]
    await matrix.run(agent, ends(), contents, ["6 MB", "surrogate"])
    await matrix.run(agent, ends(), ["before_tool", "after_tool"], ["6 MB", "surrogate", "deep"])


async def test_a_state_value_of_a_callback_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F13: callbacks write state, too."""

    def agent(hook: str, value: str) -> BaseAgent:
        def callback(callback_context: Any, **_: Any) -> None:
            if made := once(VALUES[value]):
                callback_context.state["key"] = made

        return quiet(**{hook: callback})

    hooks = ["before_agent_callback", "after_model_callback"]
    await matrix.run(agent, ends(HUGE), hooks, [*HARD, *HUGE])


async def test_what_a_callback_raises_ends_the_run(matrix: Matrix) -> None:
    """F12: once."""

    def agent(hook: str, raised: str) -> BaseAgent:
        return quiet(**{hook: lambda *_, **__: once(lambda: blow(raised))})

    def check(error: Exception | None, _: str, raised: str) -> None:
        assert fits(error, raised), type(error)
        assert len(RUNS) <= 2  # the second is the next message's

    await matrix.run(agent, check, ["before_agent_callback", "before_model_callback"], HARD_RAISED)


def plugin(hook: str, work: Any) -> BasePlugin:
    """A plugin that does something at one hook, the first time."""

    async def act(*args: Any, **kwargs: Any) -> Any:
        return once(work)

    return type("Noisy", (BasePlugin,), {hook: act})(name="noisy")


async def test_a_bad_value_of_a_plugin_ends_the_run(matrix: Matrix) -> None:
    """F31: the same for plugins."""
    await matrix.run(
        lambda *_: with_tool(lambda: "x"),
        ends(),
        ["before_tool_callback", "after_tool_callback"],
        ["3 MB", "deep"],
        plugin=lambda hook, value: plugin(hook, lambda: {"value": VALUES[value]()}),
    )


async def test_what_a_plugin_raises_ends_the_run(matrix: Matrix) -> None:
    """F12: plugins raise, too; as in ADK the error says which one and where."""

    def check(error: Exception | None, hook: str, _: str) -> None:
        assert isinstance(error, RuntimeError), type(error)
        assert f"plugin 'noisy' during '{hook}'" in str(error)

    await matrix.run(
        quiet,
        check,
        ["before_run_callback", "on_event_callback"],
        HARD_RAISED,
        plugin=lambda hook, raised: plugin(hook, lambda: blow(raised)),
    )


class Once(BaseAgent):
    """A custom agent that does something in its first run."""

    first: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        if not ctx.session.state.get("seen"):
            yield Event(author=self.name, actions=EventActions(state_delta={"seen": True}))
            async for event in self.first(ctx):
                yield event
        yield Event(author=self.name, content=say())


def yielding(event: Any) -> BaseAgent:
    """A custom agent that yields the event that a function makes."""

    async def first(_: InvocationContext) -> Any:
        yield event()

    return Once(name="a", first=first)


async def test_a_state_value_of_a_custom_agent_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F31: the loop's own values."""

    def agent(value: str) -> BaseAgent:
        return yielding(lambda: Event(actions=EventActions(state_delta={"key": VALUES[value]()})))

    await matrix.run(agent, ends(HUGE), VALUES)


async def test_text_of_a_custom_agent_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F31: the loop's own texts."""

    def check(error: Exception | None, text: str) -> None:
        assert error is not None or text == "nul"

    await matrix.run(
        lambda text: yielding(lambda: Event(content=say(VALUES[text]()))), check, TEXTS
    )


async def test_what_a_custom_agent_raises_ends_the_run(matrix: Matrix) -> None:
    """F12: in the workflow itself; a GeneratorExit is how the loop ends a body."""

    def check(error: Exception | None, raised: str) -> None:
        assert fits(error, raised), type(error)

    names = [raised for raised in RAISED if raised != "generator exit"]
    await matrix.run(lambda raised: yielding(lambda: blow(raised)), check, names)


def made(name: str) -> Any:
    """A step's function that returns a value."""
    return ran(VALUES[name]())


def taken(value: Any) -> str:
    """A step's function that takes one."""
    return ran()


def blown(name: str) -> None:
    """A step's function that raises."""
    blow(ran(name))


def stepping(function: Any, argument: Any) -> BaseAgent:
    """A custom agent with one step, whose argument a function makes."""

    async def first(ctx: InvocationContext) -> Any:
        await ctx.step(function, argument())
        for event in ():
            yield event

    return Once(name="a", first=first)


async def test_the_result_of_a_step_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F31, I8: as a tool's."""
    check = ends(FINE, runs=1, naming="made")
    await matrix.run(lambda value: stepping(made, lambda: value), check, VALUES)


async def test_arguments_of_a_step_reach_it_or_end_the_run(matrix: Matrix) -> None:
    """F31: they are an activity's input, which would fail the workflow task for ever."""
    await matrix.run(lambda value: stepping(taken, VALUES[value]), reaches(HUGE), VALUES)


async def test_what_a_step_raises_ends_the_run(matrix: Matrix) -> None:
    """F12, I8: once."""
    await matrix.run(lambda raised: stepping(blown, lambda: raised), raises_once, RAISED)


async def test_the_state_of_a_request_is_stored_or_refused(matrix: Matrix) -> None:
    """F31: what a client sends beside its message."""
    await matrix.run(
        quiet, ends(HUGE), VALUES, sent=lambda value: {"state_delta": {"key": VALUES[value]()}}
    )


async def test_a_message_that_is_too_large_or_no_text_is_refused(matrix: Matrix) -> None:
    """F31: nothing of it is stored."""
    await matrix.run(
        quiet, ends(naming="message"), TEXTS, sent=lambda text: {"message": VALUES[text]()}
    )


async def test_an_agents_answer_to_an_agent_is_stored_or_ends_the_run(matrix: Matrix) -> None:
    """F31: a child workflow's result, which is short even if its text is long."""
    texts = {**VALUES, "900 kB": lambda: "y" * 900_000}

    def agent(text: str) -> BaseAgent:
        tools = [AgentTool(LlmAgent(name="child", model=scripted(texts[text]())))]
        return LlmAgent(name="a", model=scripted(call("child", request="q" * 90_000)), tools=tools)

    await matrix.run(agent, ends({"900 kB"}), ["900 kB", "3 MB", "surrogate"])


async def test_results_and_errors_of_parallel_calls_do_not_sum_up(matrix: Matrix) -> None:
    """F31: more than 4 MB in one turn; each tool runs at most once, and the run ends."""

    def agent(what: str, count: int) -> BaseAgent:
        def tool() -> str:
            if ran(what) == "results":
                return "x" * 900_000
            raise RuntimeError("x" * 1_000_000)

        model = scripted(calls(*[("tool", {})] * count))
        return LlmAgent(name="a", model=model, tools=[FunctionTool(tool, name="tool")])

    def check(error: Exception | None, what: str, count: int) -> None:
        fine = what == "results" and count * 900_000 < 8_000_000
        assert (error is None) == fine, error
        assert len(RUNS) == count if what == "results" else len(RUNS) <= count

    await matrix.run(agent, check, ["results"], [3, 7, 10])
    await matrix.run(agent, check, ["errors"], [12])


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as any client can send it."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


def order() -> None:
    """Order something; the shop answers later."""


SENT = {
    "no json": raw(b"{"),
    "not unicode": raw(b'"\xff"'),
    "unknown encoding": raw(b"x", b"binary/encrypted"),
    "nothing": raw(b"", b"binary/null"),
    "deep": raw(b"[" * 100_000 + b"]" * 100_000),
    "deep response": raw(
        b'{"callId": "CALL", "response": {"a": ' + b"[" * 1000 + b"]" * 1000 + b"}}"
    ),
    "nan": raw(b'{"callId": "CALL", "response": {"a": NaN}}'),
    "surrogate": raw(b'{"callId": "CALL", "response": {"a": "\\ud800"}}'),
    "nul": raw(b'{"callId": "CALL", "response": {"a": "\\u0000"}}'),
    "long int": raw(b'{"callId": "CALL", "response": {"a": ' + b"9" * 5000 + b"}}"),
    "1.5 MB": raw(b'{"callId": "CALL", "response": {"a": "' + b"x" * 1_500_000 + b'"}}'),
    "1.5 MB unknown": raw(b'{"' + b"x" * 1_500_000 + b'": 1}'),
}


async def test_a_bad_answer_is_refused_and_the_run_continues(
    client: Client, matrix: Matrix
) -> None:
    """F31, D9: the server refuses a larger one, and the right one is accepted."""
    tool = LongRunningFunctionTool(order)
    agent = LlmAgent(name="a", model=scripted(call("order"), "it came"), tools=[tool])
    async with matrix.serving(App(name="app", root_agent=agent)) as (runner,):
        events = await send(runner)
        (pending,) = await runner.pending(**USER)
        key = SessionKey("app", "u", "s")
        handle = client.get_workflow_handle(workflow_id(key, events[0].invocation_id))
        for number, payload in enumerate(SENT.values(), 1):
            data = payload.payload.data.replace(b"CALL", pending.call_id.encode())
            encoding = payload.payload.metadata["encoding"]
            await handle.signal("answer", raw(data, encoding))

            async def refused(number: int = number) -> dict[str, str | None] | None:
                known = await handle.query("answers")
                return known if len(known) >= number else None

            outcomes = await until(refused)
            assert all(outcomes.values()), list(SENT)[number - 1]
        assert len(str(outcomes)) < 20_000
        with pytest.raises(RPCError, match="exceeds"):
            await handle.signal("answer", {"callId": "x", "response": {"a": "x" * 3_000_000}})
        await handle.signal("answer", {"callId": pending.call_id, "response": {"ok": True}})
        async with asyncio.timeout(PATIENCE):
            result = await handle.result()
        assert result["text"] == "it came"


async def test_a_bad_start_fails_at_once(client: Client, matrix: Matrix) -> None:
    """F31, I11: any client may start an invocation, with anything."""

    async def ended(payload: RawValue) -> bool:
        handle = await client.start_workflow(
            "Invocation", payload, id=uuid.uuid4().hex, task_queue=matrix.queue
        )
        try:
            await asyncio.wait_for(handle.result(), PATIENCE)
        except WorkflowFailureError:
            return True
        except TimeoutError:
            return False
        return False

    async with matrix.serving(App(name="app", root_agent=quiet())):
        ends = await asyncio.gather(*map(ended, SENT.values()))
    assert dict(zip(SENT, ends, strict=True)) == dict.fromkeys(SENT, True)
