"""What user code raises is what the caller catches (DUR-10, RUN-8)."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, SequentialAgent
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.errors import DurableAdkError, ToolError, frames_in, frames_of_error
from durable_adk.events import Event
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.tools import ToolContext
from durable_adk.tools.agent_tool import AgentTool
from tests.conftest import MakeRunner
from tests.support.scripts import call, send, stored
from tests.support.waiting import until


class OrderError(Exception):
    """An application's own error, whose constructor takes something else than a text."""

    made = 0

    def __init__(self, order: int, *, items: list[str]) -> None:
        type(self).made += 1
        super().__init__(f"order {order} failed")
        self.order = order
        self.items = items


class StrangeError(LookupError):
    """An error that cannot be made again: its text is not in its arguments."""

    def __init__(self, thing: object) -> None:
        super().__init__(thing)
        self.thing = thing

    def __str__(self) -> str:
        return f"lost {self.thing.name}"  # pyright: ignore[reportAttributeAccessIssue]: tested


class Thing:
    """Something that is no JSON."""

    name = "ring"


RAISED: list[Exception] = []


def fail(error: Exception) -> None:
    """Raise an error that has a cause."""
    RAISED.append(error)
    raise error from KeyError("missing")


def order_error() -> OrderError:
    """The application's own error."""
    return OrderError(7, items=["a"])


class Plugin(BasePlugin):
    """Remembers the calls of the hooks."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.told: list[tuple[str, Exception]] = []

    async def on_model_error_callback(self, *, error: Exception, **_: Any) -> None:
        self.told.append(("model", error))

    async def on_tool_error_callback(self, *, error: Exception, **_: Any) -> None:
        self.told.append(("tool", error))

    async def on_agent_error_callback(self, *, error: Exception, **_: Any) -> None:
        self.told.append(("agent", error))

    async def on_run_error_callback(self, *, error: Exception, **_: Any) -> None:
        self.told.append(("run", error))


class FailingModel(BaseLlm):
    """A model that fails."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        fail(order_error())
        yield LlmResponse()


def failing(place: str, error: Any = order_error) -> BaseAgent:
    """An agent whose code fails at a place."""

    def tool() -> None:
        """Fail."""
        fail(error())

    def hook(**_: Any) -> None:
        fail(error())

    def provider(_: Any) -> str:
        fail(error())
        return ""

    async def step() -> None:
        fail(error())

    class Body(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            fail(error())
            yield Event()

    if place == "body":
        return Body(name="a")
    fields: dict[str, Any] = {
        "tool": {"tools": [tool]},
        "model": {"model": FailingModel(model="failing")},
        "instruction": {"instruction": provider},
    }.get(place, {place: hook})
    replies = [call("tool"), "done"] if place in ("tool", "after_tool_callback") else ["done"]
    return LlmAgent(**{"name": "a", "model": ScriptedModel(replies=replies)} | fields)


PLACES = ("tool", "model", "instruction", "body", "before_agent_callback", "before_model_callback")


@pytest.mark.parametrize("place", PLACES)
async def test_the_application_s_own_error_is_caught(make_runner: MakeRunner, place: str) -> None:
    """In process it is the very object, on Temporal one of its class that is the same."""
    plugin = Plugin()
    runner = await make_runner(failing(place), plugins=[plugin])
    RAISED.clear()
    made = OrderError.made
    with pytest.raises(OrderError, match=r"^order 7 failed$") as caught:
        await send(runner)
    raised, error = RAISED[0], caught.value
    assert OrderError.made == made + len(RAISED)  # the constructor is not run for a copy
    assert type(error) is OrderError
    assert (error.args, error.order, error.items) == (raised.args, 7, ["a"])
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == ("missing",)
    in_process = runner.session_service.__class__.__name__ == "InMemorySessionService"
    assert (error is raised) is in_process
    # On Temporal the caller is told first.
    await until(lambda: "run" in {kind for kind, _ in plugin.told})
    for kind, told in plugin.told:
        assert type(told) is OrderError, kind
        assert told is raised or not in_process or kind not in ("agent", "run"), kind
    assert "agent" in {kind for kind, _ in plugin.told}
    last = (await stored(runner))[-1]
    assert (last.error_code, last.error_message) == ("OrderError", "order 7 failed")


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "x.txt"),
        TimeoutError("late"),
        KeyError("k"),
        ZeroDivisionError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("place", ["tool", "model"])
async def test_errors_of_python_s_own_are_caught(
    make_runner: MakeRunner, error: Exception, place: str
) -> None:
    """OSError's family too, with its fields; the text has no prefix."""

    def raising() -> None:
        """Raise."""
        raise error

    class Model(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            raise error
            yield LlmResponse()

    agent = (
        LlmAgent(name="a", model=ScriptedModel(replies=[call("raising")]), tools=[raising])
        if place == "tool"
        else LlmAgent(name="a", model=Model(model="m"))
    )
    runner = await make_runner(agent)
    with pytest.raises(type(error)) as caught:
        await send(runner)
    assert str(caught.value) == str(error)
    if isinstance(error, OSError):
        assert (caught.value.errno, caught.value.filename) == (error.errno, error.filename)


async def test_what_cannot_be_made_again_is_caught_by_its_nearest_class(
    make_runner: MakeRunner,
) -> None:
    """Ours and its own at once; in process it is the object."""
    runner = await make_runner(failing("tool", lambda: StrangeError(Thing())))
    with pytest.raises(StrangeError, match=r"^lost ring$") as caught:
        await send(runner)
    if runner.session_service.__class__.__name__ != "InMemorySessionService":
        assert isinstance(caught.value, ToolError)
        assert isinstance(caught.value, LookupError)
        assert caught.value.error_type == "StrangeError"


async def test_a_custom_agent_catches_what_was_raised_below(make_runner: MakeRunner) -> None:
    """From a sub-agent and from a step; what it lets through is what the caller catches."""
    caught: list[Exception] = []

    class Above(BaseAgent):
        async def lookup(self) -> None:
            """Fail in a step."""
            raise OrderError(8, items=[])

        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            try:
                await ctx.step(self.lookup)
            except OrderError as error:
                caught.append(error)
            try:
                async for event in self.sub_agents[0].run_async(ctx):
                    yield event
            except OrderError as error:
                caught.append(error)
                raise

    runner = await make_runner(Above(name="above", sub_agents=[failing("tool")]))
    with pytest.raises(OrderError) as raised:
        await send(runner)
    orders = [error.order for error in caught if isinstance(error, OrderError)]
    assert orders[-2:] == [8, 7]
    assert raised.value.order == 7
    assert raised.value.__cause__ is not None
    assert (await stored(runner))[-1].error_code == "OrderError"


async def test_an_agent_s_failure_is_its_caller_s_tool_error(make_runner: MakeRunner) -> None:
    """`on_tool_error_callback` sees the error that the helper's code has raised."""
    seen: list[Exception] = []

    def note(error: Exception, **_: Any) -> dict[str, str]:
        seen.append(error)
        return {"result": "never mind"}

    helper = failing("model")
    agent = LlmAgent(
        name="root",
        model=ScriptedModel(replies=[call("a", request="go"), "fine"]),
        tools=[AgentTool(helper)],
        on_tool_error_callback=note,
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert events[-1].text == "fine"
    assert [type(error) for error in seen] == [OrderError]


async def test_a_plugin_s_failure_names_plugin_and_hook(make_runner: MakeRunner) -> None:
    """PLG-4: a RuntimeError as in ADK, whose cause is what the plugin raised."""

    class Broken(BasePlugin):
        async def before_model_callback(self, **_: Any) -> None:
            raise order_error()

    agent = LlmAgent(name="a", model=ScriptedModel(replies=["never"]))
    runner = await make_runner(agent, plugins=[Broken("broken")])
    expected = "^Error in plugin 'broken' during 'before_model_callback' callback: order 7 failed$"
    with pytest.raises(RuntimeError, match=expected) as caught:
        await send(runner)
    assert isinstance(caught.value.__cause__, OrderError)


async def step() -> None:
    """What a body has run as a step."""
    fail(order_error())


class Stepping(BaseAgent):
    """Runs a step that fails."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await ctx.step(step)
        yield Event()


class Executor(BaseCodeExecutor):
    """Runs no code."""

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        fail(order_error())


class FailingPlugin(BasePlugin):
    """Fails before a model is asked."""

    async def before_model_callback(self, **_: Any) -> None:
        fail(order_error())


async def group() -> None:
    """A tool that fails in a task of a group."""

    async def part() -> None:
        fail(order_error())

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(part())


async def cancelled() -> None:
    """A tool that is cancelled by nobody but itself."""
    raise asyncio.CancelledError


def told(runner: Any) -> LlmAgent:
    """An agent with a tool, which its model calls."""
    return LlmAgent(name="a", model=ScriptedModel(replies=[call(runner.__name__)]), tools=[runner])


CODE = ScriptedModel(replies=["```python\nprint(1)\n```"])
LINES: dict[str, tuple[Any, list[str]]] = {
    "tool": (failing("tool"), ["tool", "fail"]),
    "step": (Stepping(name="a"), ["step", "fail"]),
    "executor": (
        LlmAgent(name="a", model=CODE, code_executor=Executor()),
        ["execute_code", "fail"],
    ),
    "plugin": (
        LlmAgent(name="a", model=ScriptedModel(replies=[])),
        ["before_model_callback", "fail"],
    ),
    "group": (told(group), ["group", "part", "fail"]),
    "cancelled": (told(cancelled), ["cancelled"]),
}


@pytest.mark.parametrize("place", LINES)
async def test_the_user_s_own_lines_are_known(make_runner: MakeRunner, place: str) -> None:
    """File, line and function, and no values: where the caller is, and in the store."""
    agent, functions = LINES[place]
    plugins = [FailingPlugin("failing")] if place == "plugin" else []
    runner = await make_runner(agent.model_copy(), plugins=plugins)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whatever class
        await send(runner)
    ((_, record),) = await runner.session_service.invocations_by_time(app_name=runner.app_name)
    assert record.error is not None
    for places in (frames_of_error(caught.value), frames_in(record.error)):
        shown = places[-len(functions) :]
        assert [place.rpartition(" in ")[2] for place in shown] == functions
        assert all(place.startswith(f"{__file__}:") for place in shown)
    if place == "group":
        assert "OrderError: order 7 failed" in record.error["message"]


async def test_hooks_are_asked_about_a_tool_that_is_not_there(make_runner: MakeRunner) -> None:
    """As in ADK: before_tool may answer, and then after_tool sees it; else on_tool_error does."""
    log: list[Any] = []

    def before(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> Any:
        log.append(("before", tool.name, args))
        return {"answer": 1} if args.get("x") else None

    def after(tool_response: Any, **_: Any) -> None:
        log.append(("after", tool_response))

    def on_error(error: Exception, **_: Any) -> None:
        log.append((type(error), str(error)[:20]))

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("nope"), call("nope", x=1), "done"]),
        before_tool_callback=before,
        after_tool_callback=after,
        on_tool_error_callback=on_error,
    )
    await send(await make_runner(agent))
    assert log == [
        ("before", "nope", {}),
        (ValueError, "Tool 'nope' not foun"),
        ("before", "nope", {"x": 1}),
        ("after", {"answer": 1}),
    ]


async def test_codes_are_those_of_adk(make_runner: MakeRunner) -> None:
    """RUN-8: the names that ADK's exceptions have, for errors of ours."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["x"]), instruction="{missing}")
    runner = await make_runner(SequentialAgent(name="s", sub_agents=[agent]))
    with pytest.raises(KeyError) as caught:
        await send(runner)
    assert isinstance(caught.value, DurableAdkError)
    assert (await stored(runner))[-1].error_code == "KeyError"
