"""What tools, models, callbacks and plugins give cannot wedge a run or repeat one (F13, F31)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.models import LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.tools import FunctionTool
from tests.support.payload_matrix import (
    FINE,
    HARD,
    HARD_RAISED,
    RAISED,
    RUNS,
    TEXTS,
    VALUES,
    Cell,
    Ended,
    blow,
    fits,
    once,
    say,
    scripted,
    with_tool,
)
from tests.support.scripts import call

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]


@pytest.fixture
def ended(client: Client, tmp_path: Path) -> Ended:
    """Runs an agent to its end; see `Cell.run`."""
    return Cell(client, tmp_path).run


@pytest.mark.parametrize("name", VALUES)
async def test_a_tools_result_is_told_or_ends_the_run(ended: Ended, name: str) -> None:
    """F13, I8: any value; the tool ran once and the error says which tool."""
    error = await ended(with_tool(lambda: once(VALUES[name])))
    assert RUNS == ["ran"]
    assert (error is None) == (name in FINE), error
    assert error is None or "'tool'" in str(error)


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_tool_raises_ends_the_run(ended: Ended, name: str, *, is_async: bool) -> None:
    """F12, I8: whatever it is and says; the tool ran once and its class, or ours, is raised."""

    def broken() -> None:
        RUNS.append("ran")
        blow(name)

    async def broken_later() -> None:
        broken()

    error = await ended(with_tool(broken_later if is_async else broken))
    assert RUNS == ["ran"]
    assert fits(error, name), type(error)


@pytest.mark.parametrize("name", VALUES)
async def test_a_state_value_is_stored_or_ends_the_run(ended: Ended, name: str) -> None:
    """F13: the error names the key."""

    def tool(tool_context: Any) -> str:
        RUNS.append("ran")
        tool_context.state["key"] = VALUES[name]()
        return "ok"

    error = await ended(with_tool(tool))
    assert RUNS == ["ran"]
    assert (error is None) == (name == "huge int"), error
    assert error is None or "key" in str(error) or "tool" in str(error)


@pytest.mark.parametrize("name", [*HARD, "huge int"])
async def test_metadata_of_an_artifact_is_stored_or_ends_the_run(ended: Ended, name: str) -> None:
    """F13: what is saved beside an artifact."""

    async def tool(tool_context: Any) -> str:
        RUNS.append("ran")
        part = types.Part(text="x")
        await tool_context.save_artifact("file", part, custom_metadata={"key": VALUES[name]()})
        return "ok"

    await ended(with_tool(tool))
    assert RUNS == ["ran"]


@pytest.mark.parametrize("name", TEXTS)
async def test_a_models_text_is_told_or_ends_the_run(ended: Ended, name: str) -> None:
    """F31: an answer beyond one event's size."""
    error = await ended(LlmAgent(name="a", model=scripted(VALUES[name]())))
    assert error is not None


@pytest.mark.parametrize("name", [*HARD, "huge int"])
async def test_a_models_arguments_are_taken_or_end_the_run(ended: Ended, name: str) -> None:
    """F31: arguments of a call; the tool never ran, or ran once."""

    def tool(value: Any) -> str:
        RUNS.append("ran")
        return "ok"

    def reply(_: Any) -> Any:
        return call("tool", value=VALUES[name]())

    agent = LlmAgent(name="a", model=scripted(reply), tools=[FunctionTool(tool, name="tool")])
    error = await ended(agent)
    assert (error is None) == (len(RUNS) == 1)


CALLBACKS: dict[str, Callable[[Any], Any]] = {
    "before_agent_callback": lambda value: types.Content(
        role="model", parts=[types.Part(text=value)]
    ),
    "before_model_callback": lambda value: LlmResponse(content=say(value)),
    "after_model_callback": lambda value: LlmResponse(content=say(value)),
    "before_tool_callback": lambda value: {"value": value},
    "after_tool_callback": lambda value: {"value": value},
    "after_agent_callback": lambda value: types.Content(
        role="model", parts=[types.Part(text=value)]
    ),
}


@pytest.mark.parametrize("name", ["6 MB", "surrogate", "deep"])
@pytest.mark.parametrize("hook", CALLBACKS)
async def test_what_a_callback_gives_is_told_or_ends_the_run(
    ended: Ended, hook: str, name: str
) -> None:
    """F31: callbacks answer in the place of agents, models and tools."""
    if not isinstance(VALUES[name](), str) and "tool" not in hook:
        pytest.skip("contents hold texts only")

    def callback(*args: Any, **kwargs: Any) -> Any:
        return once(lambda: CALLBACKS[hook](VALUES[name]()))

    fields: dict[str, Any] = {hook: callback}
    agent = LlmAgent(
        name="a",
        model=scripted(call("tool")),
        tools=[FunctionTool(lambda: "x", name="tool")],
        **fields,
    )
    error = await ended(agent)
    assert error is not None


@pytest.mark.parametrize("name", [*HARD, "huge int"])
@pytest.mark.parametrize("hook", ["before_agent_callback", "after_model_callback"])
async def test_state_that_a_callback_writes_is_stored_or_ends_the_run(
    ended: Ended, hook: str, name: str
) -> None:
    """F13: callbacks write state too."""

    def callback(callback_context: Any, **_: Any) -> None:
        RUNS.append("ran")
        if len(RUNS) == 1:
            callback_context.state["key"] = VALUES[name]()

    error = await ended(LlmAgent(name="a", model=scripted(), **{hook: callback}))
    assert (error is None) == (name == "huge int")


@pytest.mark.parametrize("name", HARD_RAISED)
@pytest.mark.parametrize("hook", ["before_agent_callback", "before_model_callback"])
async def test_what_a_callback_raises_ends_the_run(ended: Ended, hook: str, name: str) -> None:
    """F12: once."""

    def callback(*args: Any, **kwargs: Any) -> None:
        RUNS.append("ran")
        if len(RUNS) == 1:
            blow(name)

    error = await ended(LlmAgent(name="a", model=scripted(), **{hook: callback}))
    assert fits(error, name), type(error)
    assert RUNS[1:] in ([], ["ran"])  # the second is the next message's


class Noisy(BasePlugin):
    """Does something at one hook, the first time."""

    def __init__(self, hook: str, work: Callable[[], Any]) -> None:
        super().__init__(name="noisy")

        async def act(*args: Any, **kwargs: Any) -> Any:
            return once(work)

        setattr(self, hook, act)


@pytest.mark.parametrize("name", ["3 MB", "deep"])
@pytest.mark.parametrize("hook", ["before_tool_callback", "after_tool_callback"])
async def test_what_a_plugin_gives_is_told_or_ends_the_run(
    ended: Ended, hook: str, name: str
) -> None:
    """F31: the same for plugins."""
    plugin = type("Hooked", (Noisy,), {hook: lambda *_, **__: None})(
        hook, lambda: {"value": VALUES[name]()}
    )
    error = await ended(with_tool(lambda: "x"), plugin=plugin)
    assert error is not None


@pytest.mark.parametrize("name", HARD_RAISED)
@pytest.mark.parametrize("hook", ["before_run_callback", "on_event_callback"])
async def test_what_a_plugin_raises_ends_the_run(ended: Ended, hook: str, name: str) -> None:
    """F12: plugins raise too; as in ADK the error says which one and where."""

    def work() -> None:
        blow(name)

    plugin = type("Hooked", (Noisy,), {hook: lambda *_, **__: None})(hook, work)
    error = await ended(LlmAgent(name="a", model=scripted()), plugin=plugin)
    assert isinstance(error, RuntimeError), type(error)
    assert f"plugin 'noisy' during '{hook}'" in str(error)
