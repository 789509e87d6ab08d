"""The conversations that are simulated."""

import itertools
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.genai import types
from temporalio import activity

from durable_adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
)
from durable_adk.apps import App
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.plugins import BasePlugin
from durable_adk.tools import ActivityTool, AgentTool, FunctionTool, exit_loop
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.run_config import Budget
from durable_adk.wire.tool_contract import ToolContract
from simulation.attempts import THEIRS, current, gate
from simulation.graph_scenarios import GRAPHS
from simulation.inputs import (
    AFTER_CLEAR,
    CANCEL,
    CANCEL_CLEARED,
    CLEAR,
    COMPETING_MESSAGE,
    DEPLOY,
    NEXT_MESSAGE,
    RESET,
    TERMINATE,
    TERMINATE_FROZEN,
    confirmed,
    responded,
)
from simulation.ledger import SimulatedModel, run_activity, run_tool
from simulation.scenario import Scenario


async def charge(ask: int, tool_context: ToolContext) -> dict[str, Any]:
    """Charge the card."""
    tool_context.state["charged"] = tool_context.state.get("charged", 0) + 1
    return await run_tool(tool_context, ask)


async def look(ask: int, place: str, tool_context: ToolContext) -> dict[str, Any]:
    """Look somewhere."""
    tool_context.state[f"seen_{place}"] = True
    tool_context.state["temp:last"] = place
    return await run_tool(tool_context, ask, place)


async def order(ask: int, tool_context: ToolContext) -> None:
    """Order something that comes later."""
    await run_tool(tool_context, ask)


@activity.defn
async def settle(ask: int) -> dict[str, Any]:
    """An activity of others."""
    return await run_activity(ask)


THEIRS["settle"] = settle


async def decline(ask: int, tool_context: ToolContext) -> None:
    """Refuse the card."""
    await run_tool(tool_context, ask)
    raise ValueError("declined")


async def leave(ask: int, tool_context: ToolContext) -> dict[str, Any]:
    """End the loop."""
    exit_loop(tool_context)
    return await run_tool(tool_context, ask)


def agent(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent whose model says these things, one per turn and then again."""
    return LlmAgent(name=name, model=SimulatedModel(replies=replies), **fields)


def app(root: BaseAgent, **fields: Any) -> App:
    """An app for it."""
    return App(name="app", root_agent=root, **fields)


CHARGE = [("charge", {})]
SETTLES = [("settle", {}), ("settle", {})]
LOOKS = [("look", {"place": place}) for place in ("here", "there", "above")]


def charger(name: str = "a", **fields: Any) -> LlmAgent:
    """Charges the card, and says so."""
    return agent(name, CHARGE, "Charged.", tools=[charge], **fields)


class Counter(BaseAgent):
    """A custom agent: state in its body, a step, a sub-agent, an event of its own."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        count = ctx.session.state.get("count", 0)
        weighed = await ctx.step(weigh, count)
        ctx.session.state["temp:weight"] = weighed
        yield Event(author=self.name, actions=EventActions(state_delta={"count": count + weighed}))
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        seen = ctx.session.state["count"]
        text = types.Part(text=f"{seen} of {ctx.session.state['temp:weight']}")
        yield Event(author=self.name, content=types.Content(role="model", parts=[text]))


class Scales(BaseAgent):
    """A custom agent that is started again, or continues in a new run, and yields no event itself.

    Who ends without having heard of all counts the model's calls by what is stored, and would take
    a text of an agent for one of the model's.
    """

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        before = ctx.session.state.get("weight", 0)
        weighed = before + await ctx.step(weigh, 0)
        yield Event(author=self.name, actions=EventActions(state_delta={"weight": weighed}))
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        weighed = ctx.session.state["weight"] + 1
        yield Event(author=self.name, actions=EventActions(state_delta={"weight": weighed}))


class Dice(BaseAgent):
    """A custom agent whose steps, and whose sub-agent's callback, give something else each time."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        cast = await ctx.step(throw)
        yield Event(author=self.name, actions=EventActions(state_delta={"cast": cast}))
        async for event in self.sub_agents[0].run_async(ctx):
            event.actions.state_delta["seen"] = [event.actions.state_delta.get("seen")]
            yield event
        kept = ctx.session.state["cast"] == cast
        delta = {"again": await ctx.step(throw), "kept": kept}
        yield Event(author=self.name, actions=EventActions(state_delta=delta))


THROWS = itertools.count()


async def throw() -> str:
    """A step that gives something else each time, as an ask does; see `simulation.normal`."""
    await gate("run.before")
    await gate("run.after")
    return f"#{next(THROWS)}"


async def throw_in_callback(callback_context: CallbackContext) -> None:
    """A callback that does so too."""
    callback_context.state["thrown"] = await throw()


async def weigh(count: int) -> int:
    """A step of the custom agent."""
    await gate("run.before")
    await gate("run.after")
    return count + 2


class Watcher(BasePlugin):
    """Has a hook wherever the loop has a place for one."""

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        invocation_context.state["opened"] = True
        await gate("run.before")

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event:
        event.custom_metadata = {"seen": event.id}
        return event

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        invocation_context.state["closed"] = True

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        user_message.parts.append(types.Part(text="and seen"))
        return user_message


async def before(callback_context: CallbackContext) -> None:
    """Note that the agent begins."""
    await gate("run.before")
    callback_context.state["began"] = callback_context.agent_name


async def after(callback_context: CallbackContext) -> types.Content:
    """Have the last word."""
    callback_context.state["temp:done"] = True
    return types.Content(role="model", parts=[types.Part(text="That was all.")])


async def polish(callback_context: CallbackContext, llm_response: Any) -> None:  # noqa: ARG001 - ADK's signature
    """Write state in a model's step."""
    callback_context.state["answers"] = callback_context.state.get("answers", 0) + 1
    callback_context.state["temp:polished"] = True


async def hesitate(callback_context: CallbackContext, llm_request: Any) -> None:  # noqa: ARG001 - ADK's signature
    """Have the answer left to the loop if it is not the first attempt's."""
    attempt = current()
    if attempt is not None and attempt.number > 1:
        callback_context.state["temp:hesitated"] = True


def _approver() -> LlmAgent:
    return agent("a", CHARGE, "Charged.", tools=[FunctionTool(charge, require_confirmation=True)])


def _buyer() -> LlmAgent:
    return agent("a", [("order", {})], "It came.", tools=[LongRunningFunctionTool(order)])


def _settler() -> LlmAgent:
    tool = ActivityTool(settle, start_to_close_timeout=timedelta(minutes=1))
    return agent("a", SETTLES, SETTLES[:1], "Settled.", tools=[tool])


def _steps() -> SequentialAgent:
    draft = agent("draft", "A draft.", output_key="draft")
    critic = agent("critic", "Again.", [("leave", {})], tools=[leave])
    writer = agent("writer", "Better.", output_key="draft")
    loop = LoopAgent(name="loop", sub_agents=[critic, writer], max_iterations=3)
    return SequentialAgent(name="steps", sub_agents=[draft, loop])


def _transfer() -> LlmAgent:
    hand_over = [("transfer_to_agent", {"agent_name": "expert"})]
    return agent("desk", hand_over, sub_agents=[charger("expert", output_key="result")])


def _callbacks() -> App:
    fields = {"before_agent_callback": before, "after_agent_callback": after}
    return app(charger(after_model_callback=polish, **fields), plugins=[Watcher("watcher")])


def _runaway(**budget: int) -> App:
    """Charges and charges; only its budget ends it."""
    return app(agent("a", CHARGE, tools=[charge]), budget=Budget(**budget))


def _side_by_side() -> ParallelAgent:
    right = agent("right", LOOKS[:1], "Right.", tools=[look])
    return ParallelAgent(name="both", sub_agents=[charger("left"), right])


def _asks() -> LlmAgent:
    """Asks another agent as a tool, which charges."""
    expert = charger("expert", description="charges")
    return agent("a", [("expert", {"request": "charge"})], "Done.", tools=[AgentTool(expert)])


TOOL_TURN = Scenario(name="tool turn", app=app(charger()), small=True)
LEFT_TO_LOOP = Scenario(name="left to the loop", app=app(charger(before_model_callback=hesitate)))
CUSTOM_ROLLS = Scenario(
    name="custom agent rolls over",
    app=app(Scales(name="scales", sub_agents=[charger()])),
    roll_over_after=1,
)
CANCELLED = Scenario(name="cancelled", app=app(charger()), inputs=[CANCEL], small=True)
ONCE = Scenario(
    name="at most once",
    app=app(
        agent(
            "a", CHARGE, "Done.", tools=[FunctionTool(charge, contract=ToolContract.AT_MOST_ONCE)]
        )
    ),
    at_most_once=True,
)
APPROVAL = Scenario(
    name="approval",
    app=app(_approver()),
    inputs=[confirmed("first"), confirmed("again"), confirmed("other")],
    waits=True,
)
TAKEOVER = Scenario(
    name="takeover", app=app(charger()), inputs=[TERMINATE, TERMINATE_FROZEN, NEXT_MESSAGE]
)
COMPETING = [
    Scenario(
        name=name,
        app=app(charger()),
        inputs=[COMPETING_MESSAGE],
        competing=competing,
        roll_over_after=roll_over_after,
    )
    for name, competing, roll_over_after in (
        ("steered", WhenBusy.STEER, None),
        ("steered and rolls over", WhenBusy.STEER, 2),
        ("interrupted", WhenBusy.INTERRUPT, None),
        ("refused", WhenBusy.REJECT, None),
    )
]
ASKED = [
    Scenario(name="asked agent", app=app(_asks())),
    Scenario(name="asked agent rolls over", app=app(_asks()), roll_over_after=2),
    Scenario(name="asked agent cancelled", app=app(_asks()), inputs=[CANCEL]),
    Scenario(name="asked agent taken over", app=app(_asks()), inputs=[TERMINATE, NEXT_MESSAGE]),
]
BUDGETS = [
    Scenario(name="budget of tool calls", app=_runaway(tool_calls=1)),
    Scenario(name="budget of model calls", app=_runaway(model_calls=1), roll_over_after=1),
    Scenario(name="budget of tokens", app=_runaway(tokens=15), roll_over_after=1),
]
CLEARED = [
    Scenario(name="cleared", app=app(charger()), inputs=[CLEAR, AFTER_CLEAR]),
    Scenario(
        name="cleared and rolls over",
        app=app(charger()),
        inputs=[CLEAR, AFTER_CLEAR],
        roll_over_after=1,
    ),
    Scenario(
        name="cleared approval",
        app=app(_approver()),
        inputs=[
            *(CLEAR, AFTER_CLEAR, CANCEL_CLEARED),
            *(confirmed("first"), confirmed("second", of="i2")),
        ],
        waits=True,
    ),
]
OPERATED = [
    Scenario(name="reset", app=app(charger()), inputs=[RESET]),
    Scenario(
        name="reset twice and rolls over",
        app=app(charger()),
        inputs=[RESET, RESET],
        roll_over_after=2,
    ),
    Scenario(
        name="reset approval",
        app=app(_approver()),
        inputs=[RESET, confirmed("first")],
        waits=True,
    ),
    Scenario(
        name="reset custom agent",
        app=app(Scales(name="scales", sub_agents=[charger()])),
        inputs=[RESET],
    ),
    Scenario(
        name="reset custom agent that draws",
        app=app(Dice(name="dice", sub_agents=[charger(before_agent_callback=throw_in_callback)])),
        inputs=[RESET],
    ),
    Scenario(
        name="reset tool that fails",
        app=app(agent("a", [("decline", {})], "Declined.", tools=[decline])),
        inputs=[RESET],
    ),
    Scenario(
        name="reset side by side",
        app=app(_side_by_side()),
        inputs=[RESET],
        side_by_side=True,
    ),
    Scenario(
        name="denied over a deploy",
        app=app(_approver()),
        next_release=app(charger()),
        inputs=[DEPLOY, confirmed("first", says=False)],
        waits=True,
    ),
]
SCENARIOS = [
    TOOL_TURN,
    ONCE,
    Scenario(name="rolls over", app=app(charger()), roll_over_after=1),
    Scenario(
        name="approval rolls over",
        app=app(_approver()),
        inputs=[confirmed("first"), confirmed("again")],
        waits=True,
        roll_over_after=2,
    ),
    Scenario(name="three calls", app=app(agent("a", LOOKS, "Seen.", tools=[look])), small=True),
    Scenario(name="activities of others", app=app(_settler())),
    Scenario(name="activities of others roll over", app=app(_settler()), roll_over_after=1),
    Scenario(name="activities of others cancelled", app=app(_settler()), inputs=[CANCEL]),
    Scenario(name="transfer", app=app(_transfer())),
    Scenario(name="sequence and loop", app=app(_steps())),
    Scenario(name="side by side", app=app(_side_by_side()), side_by_side=True),
    Scenario(name="callbacks and plugins", app=_callbacks()),
    LEFT_TO_LOOP,
    Scenario(name="custom agent", app=app(Counter(name="counter", sub_agents=[charger()]))),
    CUSTOM_ROLLS,
    APPROVAL,
    Scenario(
        name="long-running",
        app=app(_buyer()),
        inputs=[responded("first", "order"), responded("again", "order")],
        waits=True,
    ),
    Scenario(
        name="approval cancelled",
        app=app(_approver()),
        inputs=[confirmed("first"), CANCEL],
        waits=True,
    ),
    CANCELLED,
    Scenario(
        name="three calls cancelled",
        app=app(agent("a", LOOKS, "Seen.", tools=[look])),
        inputs=[CANCEL],
    ),
    Scenario(
        name="side by side cancelled", app=app(_side_by_side()), inputs=[CANCEL], side_by_side=True
    ),
    Scenario(name="two messages", app=app(charger()), messages=("hello", "hello")),
    TAKEOVER,
    *COMPETING,
    *ASKED,
    *BUDGETS,
    *CLEARED,
    *OPERATED,
]
IN_BATCHES = [
    replace(
        scenario,
        name=f"{scenario.name} in batches",
        app=scenario.app.model_copy(update={"steps_per_activity": 20}),
        next_release=scenario.next_release
        and scenario.next_release.model_copy(update={"steps_per_activity": 20}),
        small=False,
    )
    for scenario in SCENARIOS
    if not scenario.app.manifest().any_custom()
]
"""The same with several steps in one activity; custom agents are not performed so."""
SCENARIOS += IN_BATCHES
SCENARIOS += GRAPHS
