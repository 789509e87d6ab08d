"""Apps that only the matrix plays: files are saved, other agents asked, approvals waited for.

And one that ends its workers, and one that draws numbers.
"""

import multiprocessing
import os
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import Context, ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.tools import AgentTool, FunctionTool
from tests.support.chaos_apps import Traces
from tests.support.scripts import call

SAVED = "receipt.txt"
LONG = "long"
"""The app whose history has two hundred events."""


def saving(traces: Traces) -> App:
    """An app whose tool saves a file; however often it runs for a call, that is one version."""

    async def save(tool_context: ToolContext) -> int:
        """Save the receipt."""
        traces.note("save", tool_context.idempotency_key)
        return await tool_context.save_artifact(SAVED, types.Part(text="Paid."))

    model = ScriptedModel(log=traces.folder / "model", replies=[call("save"), "Saved."])
    return App(name="saving", root_agent=LlmAgent(name="clerk", model=model, tools=[save]))


def asking(traces: Traces) -> App:
    """An app whose agent asks another one as a tool, which is an invocation of its own."""
    log = traces.folder / "model"
    knowing = ScriptedModel(log=log, replies=["Seven."])
    expert = LlmAgent(name="expert", description="Knows how many.", model=knowing)
    model = ScriptedModel(log=log, replies=[call("expert", request="How many?"), "It is seven."])
    asker = LlmAgent(name="asker", model=model, tools=[AgentTool(expert)])
    return App(name="asking", root_agent=asker)


def ending(traces: Traces) -> App:
    """An app whose first message waits for an approval, and whose second one is under way then."""

    async def refund() -> str:
        """Give money back."""
        return "refunded"

    async def patient(tool_context: ToolContext) -> str:
        """Wait for the gate."""
        traces.note("patient", tool_context.idempotency_key)
        await traces.through_gate()
        return "through"

    replies = [call("refund"), call("patient"), "Done."]
    model = ScriptedModel(log=traces.folder / "model", replies=replies)
    tools = [FunctionTool(refund, require_confirmation=True), patient]
    return App(name="ending", root_agent=LlmAgent(name="clerk", model=model, tools=tools))


DRAWN = 5
"""Numbers that the app `drawing` draws."""


class Drawer(BaseAgent):
    """A custom agent that draws numbers, which differ each time, in steps of its own."""

    async def draw(self) -> str:
        """Draw a number."""
        return uuid.uuid4().hex

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(DRAWN):
            delta = {"drawn": number + 1, "last": await ctx.step(self.draw)}
            yield Event(author=self.name, actions=EventActions(state_delta=delta))


def drawing() -> App:
    """An app whose agent draws numbers."""
    return App(name="drawing", root_agent=Drawer(name="drawer"))


def stepping(traces: Traces) -> App:
    """An app whose graph has a node that fails at first, one that says more, and an agent."""

    def flaky(ctx: Context) -> str:
        traces.note("flaky", f"{ctx.idempotency_key}/{ctx.attempt_count}")
        if ctx.attempt_count == 1:
            raise ValueError("not yet")
        return "Go on."

    async def tells(ctx: Context, node_input: str) -> AsyncGenerator[Event, None]:
        traces.note("tells", ctx.idempotency_key)
        yield Event(message="Soon.")
        yield Event(output=node_input, state={"told": True}, route="on")

    writer = LlmAgent(
        name="writer", model=ScriptedModel(log=traces.folder / "model", replies=["Written."])
    )
    retry = NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0)
    edges: list[Any] = [("START", node(flaky, retry_config=retry), tells, {"on": writer})]
    return App(name="stepping", root_agent=Workflow(name="wf", edges=edges))


def long() -> App:
    """An app whose agent calls a tool many times."""

    def look() -> str:
        """Look."""
        return "seen"

    replies = [call("look")] * 16 + ["Enough."]
    agent = LlmAgent(name="looker", model=ScriptedModel(replies=replies), tools=[look])
    return App(name=LONG, root_agent=agent)


def die() -> None:
    """End the process, unless it replays histories only."""
    if multiprocessing.parent_process() is not None:
        os._exit(1)


class Deadly(BaseAgent):
    """A custom agent whose body ends its worker, behind an event."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text="alive")])
        yield Event(author=self.name, content=content)
        die()
