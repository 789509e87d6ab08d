"""Code that runs at the same time changes the same state, and nothing of it is lost (STA-19)."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from durable_adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    ParallelAgent,
    SequentialAgent,
)
from durable_adk.errors import StateConflictError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.tools import ToolContext
from durable_adk.tools.agent_tool import AgentTool
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, gist, send, state, stored
from tests.support.waiting import PATIENCE

PLACES = ("cart", "user:cart", "app:cart", "temp:cart")


class Together:
    """A place where code waits until so many have read the state."""

    def __init__(self, number: int) -> None:
        self._barrier = threading.Barrier(number)

    def meet(self) -> None:
        """Wait for the others; an attempt that comes again does not."""
        if not self._barrier.broken:
            self._barrier.wait(timeout=PATIENCE)


def change(values: Any, item: str) -> None:
    """Extend lists in place and by assignment, count, and add to a dict, in every scope."""
    for place in PLACES:
        values[place] = [*values.get(place, []), item]
        values.setdefault(f"{place}/in place", []).append(item)
        values[f"{place}/count"] = values.get(f"{place}/count", 0) + 1
        values.setdefault(f"{place}/by item", {})[item] = {"count": 1}


def expected(*items: str, places: tuple[str, ...] = PLACES) -> dict[str, Any]:
    """What is left when each has changed it."""
    result: dict[str, Any] = {}
    for place in places:
        result |= {place: list(items), f"{place}/in place": list(items)}
        result[f"{place}/count"] = len(items)
        result[f"{place}/by item"] = {item: {"count": 1} for item in items}
    return result


def in_any_order(values: dict[str, Any]) -> dict[str, Any]:
    """State with its lists sorted: the order of branches is that of their steps."""
    return {key: sorted(one) if isinstance(one, list) else one for key, one in values.items()}


def adding(together: Together) -> Callable[..., str]:
    """A tool that adds to the state when all calls have read it."""

    def add(item: str, tool_context: ToolContext) -> str:
        """Add."""
        before = tool_context.state.to_dict()
        together.meet()
        change(tool_context.state, item)
        return f"{item} after {len(before)}"

    return add


async def test_calls_of_one_turn_lose_nothing(make_runner: MakeRunner) -> None:
    """In the order of the calls, whichever ends first; the next turn sees all of it."""
    seen: list[Any] = []

    def look(tool_context: ToolContext) -> None:
        """Look."""
        seen.append(tool_context.state.get("temp:cart"))

    turn = calls(*(("add", {"item": item}) for item in "abc"))
    model = ScriptedModel(replies=[turn, call("look"), call("add", item="d"), "done"])
    together = Together(3)
    add = adding(together)

    def once(item: str, tool_context: ToolContext) -> str:
        """Add."""
        if item == "d":
            change(tool_context.state, item)
            return "later"
        return add(item, tool_context)

    once.__name__ = "add"
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[once, look]))
    events = await send(runner)
    assert await state(runner) == expected(*"abcd", places=PLACES[:3])
    assert seen == [["a", "b", "c"]]
    assert all(not event.actions.state_read for event in events)
    assert all(not event.actions.state_read for event in await stored(runner))
    (response,) = [e for e in events if len(e.get_function_responses()) == 3]
    assert response.actions.state_delta == expected(*"abc", places=PLACES[:3])


@pytest.mark.parametrize("where", ["tool", "before_agent_callback", "after_agent_callback"])
async def test_branches_lose_nothing(make_runner: MakeRunner, where: str) -> None:
    """Tools and callbacks of a ParallelAgent's children; a later agent and its bodies see all."""
    together = Together(2)

    def child(name: str) -> LlmAgent:
        def note(callback_context: Any) -> None:
            callback_context.state.to_dict()
            together.meet()
            change(callback_context.state, name)

        if where == "tool":
            model = ScriptedModel(replies=[call("add", item=name), "done"])
            return LlmAgent(name=name, model=model, tools=[adding(together)])
        return LlmAgent(name=name, model=ScriptedModel(replies=["done"]), **{where: note})

    seen: list[Any] = []

    class Reader(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            seen.append(dict(ctx.session.state))
            yield Event(author=self.name)

    par = ParallelAgent(name="par", sub_agents=[child("a"), child("b")])
    runner = await make_runner(SequentialAgent(name="s", sub_agents=[par, Reader(name="reader")]))
    await send(runner)
    assert in_any_order(await state(runner)) == expected("a", "b", places=PLACES[:3])
    assert in_any_order(seen[0]) == expected("a", "b")


async def test_sessions_lose_nothing_of_what_they_share(make_runner: MakeRunner) -> None:
    """Two conversations of one user, at once."""
    together = Together(2)

    def reply(request: Any) -> Any:
        part = request.contents[-1].parts[0]
        return "done" if part.function_response else call("add", item=part.text)

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[adding(together)])
    runner = await make_runner(agent)

    async def talk(session_id: str) -> None:
        place = {"user_id": "u", "session_id": session_id}
        await runner.session_service.create_session(app_name="app", **place)
        async for _ in runner.run_async(**place, new_message=session_id):
            pass

    await asyncio.gather(talk("s"), talk("t"))
    values = in_any_order(await state(runner))
    shared = {key: value for key, value in values.items() if ":" in key}
    assert shared == expected("s", "t", places=PLACES[1:3])
    assert values["cart"] == ["s"]


async def test_agents_that_are_tools_lose_nothing(make_runner: MakeRunner) -> None:
    """Each reads a copy of its caller's state, and its changes are merged into the caller's."""
    together = Together(2)

    def helper(name: str) -> AgentTool:
        model = ScriptedModel(replies=[call("add", item=name), "done"])
        return AgentTool(LlmAgent(name=name, model=model, tools=[adding(together)]))

    turn = calls(("one", {"request": "go"}), ("two", {"request": "go"}))
    model = ScriptedModel(replies=[turn, "done"])
    runner = await make_runner(
        LlmAgent(name="a", model=model, tools=[helper("one"), helper("two")])
    )
    await send(runner)
    values = in_any_order(await state(runner))
    assert values == expected("one", "two", places=PLACES[:3])


async def test_an_agent_that_is_called_twice_may_say_different_things(
    make_runner: MakeRunner,
) -> None:
    """Its `output_key` is written without a read, so the later call's output stays."""
    helper = LlmAgent(
        name="helper",
        model=ScriptedModel(replies=lambda request: request.contents[-1].parts[0].text),
        output_key="said",
    )
    turn = calls(("helper", {"request": "one"}), ("helper", {"request": "two"}))
    model = ScriptedModel(replies=[turn, "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[AgentTool(helper)]))
    await send(runner)
    assert (await state(runner))["said"] == "two"


async def test_a_plugin_and_a_tool_lose_nothing(make_runner: MakeRunner) -> None:
    """`on_event_callback` has read what was stored before the event."""

    class Noting(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
            if event.get_function_responses():
                change(invocation_context.state, "plugin")

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("add", item="tool"), "done"]),
        tools=[adding(Together(1))],
    )
    runner = await make_runner(agent, plugins=[Noting("noting")])
    await send(runner)
    assert await state(runner) == expected("tool", "plugin", places=PLACES[:3])


def setting(*, reads: bool) -> Callable[..., None]:
    """A tool that sets a value."""
    together = Together(2)

    def choose(value: str, tool_context: ToolContext) -> None:
        """Choose."""
        if reads:
            tool_context.state.get("choice")
        together.meet()
        tool_context.state["choice"] = value

    return choose


async def test_the_last_call_s_value_stays_if_none_has_read_it(make_runner: MakeRunner) -> None:
    """As if the calls had come one after the other."""
    turn = calls(("choose", {"value": "one"}), ("choose", {"value": "two"}))
    model = ScriptedModel(replies=[turn, "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[setting(reads=False)]))
    await send(runner)
    assert await state(runner) == {"choice": "two"}


async def test_what_cannot_be_merged_fails_with_key_and_tools(make_runner: MakeRunner) -> None:
    """The first call's change is stored, both are answered, and the conversation continues."""
    turn = calls(("choose", {"value": "one"}), ("choose", {"value": "two"}))
    model = ScriptedModel(replies=[turn, "fine"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[setting(reads=True)]))
    with pytest.raises(StateConflictError, match=r"'choose' .*'choose' .*state\['choice'\]"):
        await send(runner)
    assert await state(runner) == {"choice": "one"}
    kept = await stored(runner)
    assert [gist(event) for event in kept[1:]] == [
        "a call choose,choose",
        "a response choose,choose",
        "a error StateConflictError",
    ]
    answers = [response.response for response in kept[2].get_function_responses()]
    assert answers[0] == {"result": None}
    assert "state['choice']" in answers[1]["error"]
    assert [gist(event) for event in await send(runner)] == ["a text fine"]


async def test_branches_that_cannot_be_merged_fail_too(make_runner: MakeRunner) -> None:
    """The error names the key and the later tool."""
    choose = setting(reads=True)

    def child(name: str) -> LlmAgent:
        model = ScriptedModel(replies=[call("choose", value=name), "done"])
        return LlmAgent(name=name, model=model, tools=[choose])

    par = ParallelAgent(name="par", sub_agents=[child("a"), child("b")])
    runner = await make_runner(par)
    with pytest.raises(StateConflictError, match=r"Tool 'choose': state\['choice'\]"):
        await send(runner)
    assert (await state(runner))["choice"] in ("a", "b")


async def test_the_state_at_the_start_counts_as_read(make_runner: MakeRunner) -> None:
    """Values that the session was created with are extended by both calls."""
    together = Together(2)

    def push(item: str, tool_context: ToolContext) -> None:
        """Push."""
        items = tool_context.state["stack"]
        together.meet()
        items.append(item)

    turn = calls(("push", {"item": "a"}), ("push", {"item": "b"}))
    model = ScriptedModel(replies=[turn, "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[push]))
    await runner.session_service.create_session(
        app_name=runner.app_name, **USER, state={"stack": ["zero"]}
    )
    await send(runner)
    assert await state(runner) == {"stack": ["zero", "a", "b"]}
