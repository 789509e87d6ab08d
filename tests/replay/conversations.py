"""The conversations that are recorded at each release.

What is here is never changed once a release has it, above all the bodies of custom agents: they
are workflow code, and the histories of every release are replayed over them. New ones are added,
with the release that has them first.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.genai import types
from temporalio import activity

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from durable_adk.apps import App, EventsCompactionConfig
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionResult
from durable_adk.context.activity import ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.tools import ActivityTool, AgentTool, FunctionTool, LongRunningFunctionTool
from tests.replay.stage import Stage
from tests.support.waiting import forever, until

Drive = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """An app, and what is said to it."""

    make: Callable[[], BaseNode | App]
    drive: Drive
    since: str = "0.1.0"
    """The first release that has it."""
    often: bool = False
    """Whether the workflow continues as new wherever it may."""

    @property
    def name(self) -> str:
        """Of its file, and of its task queue."""
        return self.make.__name__

    def app(self) -> App:
        """A new one."""
        made = self.make()
        return made if isinstance(made, App) else App(name="corpus", root_agent=made)


CONVERSATIONS: list[Conversation] = []
THEIRS = {"TheirActivity"}
"""The activities that workers of others have: their names are not ours to keep."""


def recorded(drive: Drive, **fields: Any) -> Callable[[Any], Any]:
    """Take a function that makes agents as a conversation."""

    def of(make: Callable[[], BaseNode | App]) -> Callable[[], BaseNode | App]:
        CONVERSATIONS.append(Conversation(make=make, drive=drive, **fields))
        return make

    return of


# ----- what is said


async def said(stage: Stage) -> None:
    """One message."""
    await stage.send("go")


async def said_twice(stage: Stage) -> None:
    """Two messages."""
    await stage.send("go")
    await stage.send("again")


async def approved(stage: Stage) -> None:
    """A message, and the approval it asks for."""
    await stage.send("go")
    await stage.answer({"confirmed": True})


async def answered(stage: Stage) -> None:
    """A message, and the result of a call that takes long."""
    await stage.send("go")
    await stage.answer({"done": True})


async def expired(stage: Stage) -> None:
    """A message, and no approval."""
    await stage.send("go")
    await stage.ended()


async def cancelled(stage: Stage) -> None:
    """A message, taken back while its tool runs."""
    await stage.begin("go")
    await stage.cancel_in_tool()


async def steered(stage: Stage) -> None:
    """A message, and another one that is delivered while its tool runs."""
    await stage.begin("go")
    await stage.steer_in_tool("and this", RESTED)


async def failing(stage: Stage) -> None:
    """A message whose run fails."""
    await stage.send("go", fails=True)


# ----- agents


def call(*names: str, **args: Any) -> types.Content:
    """A model turn that calls functions, all with the same arguments."""
    calls = [types.FunctionCall(name=name, args=args) for name in names]
    parts = [types.Part(function_call=one) for one in calls]
    return types.Content(role="model", parts=parts)


def talker(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent with a script."""
    return LlmAgent(name=name, model=ScriptedModel(replies=list(replies)), **fields)


def look(what: str, tool_context: ToolContext) -> dict[str, str]:
    """Look something up."""
    tool_context.state["looked"] = what
    return {"found": what}


def listen(what: str) -> str:
    """Listen to something."""
    return f"heard {what}"


def sink(what: str) -> str:
    """Fail."""
    raise LookupError(f"{what} sank")


async def nap(what: str) -> str:
    """Take long."""
    await forever()
    return what


def order(what: str) -> dict[str, str]:
    """Order something; the shop answers later."""
    return {"status": "pending"}


@recorded(said_twice)
def tool_turn() -> BaseAgent:
    """A tool turn, and another message."""
    return talker("desk", call("look", what="x"), "found", "again", tools=[look])


@recorded(said_twice)
def batch() -> App:
    """The same, with all steps of a turn in one activity."""
    return App(name="corpus", root_agent=tool_turn(), steps_per_activity=20)


def plan(node_input: Any) -> dict[str, int]:
    """Say how much there is to do."""
    return {"steps": 3}


def ask(node_input: Any) -> RequestInput:
    """Ask a person."""
    return RequestInput(interrupt_id="ask", message="Go?")


def count(ctx: ToolContext) -> int:
    """Go round three times."""
    number = ctx.state.get("count", 0) + 1
    ctx.state["count"] = number
    ctx.route = "again" if number < 3 else "done"
    return number


def last(node_input: Any) -> Any:
    """Give what it is given."""
    return node_input


@recorded(answered)
def graph() -> BaseNode:
    """Nodes one after the other and side by side, one of which asks, and a join."""
    both = (talker("writer", "text"), ask)
    return Workflow(name="graph", edges=[("START", plan, both, JoinNode(name="both"), last)])


@recorded(said, often=True)
def graph_loop() -> BaseNode:
    """A loop by edges, and a node for each item of a list."""
    each = node(last, name="each", parallel_worker=True, max_parallel_workers=1)
    edges: list[Any] = [("START", count, {"again": count, "done": each}), (each, last)]
    return Workflow(name="graph", edges=edges)


@recorded(said)
def parallel_calls() -> BaseAgent:
    """Two calls of a turn."""
    return talker("desk", call("look", "listen", what="x"), "both", tools=[look, listen])


@recorded(said_twice)
def transfer() -> BaseAgent:
    """A conversation that is handed over."""
    specialist = talker("specialist", "mine", "mine again", description="Knows.")
    return talker(
        "desk", call("transfer_to_agent", agent_name="specialist"), sub_agents=[specialist]
    )


@recorded(said)
def side_by_side() -> BaseAgent:
    """Agents in lanes of their own."""
    lanes = [talker(f"lane{n}", call("look", what=f"{n}"), "done", tools=[look]) for n in (1, 2)]
    return SequentialAgent(
        name="all", sub_agents=[ParallelAgent(name="both", sub_agents=lanes), talker("last", "end")]
    )


@recorded(said)
def rounds() -> BaseAgent:
    """A loop of two rounds."""
    return LoopAgent(name="loop", sub_agents=[talker("turn", "one", "two")], max_iterations=2)


@recorded(approved)
def approval() -> BaseAgent:
    """An approval that is given."""
    tool = FunctionTool(listen, require_confirmation=True)
    return talker("desk", call("listen", what="x"), "done", tools=[tool])


@recorded(expired)
def approval_expired() -> BaseAgent:
    """An approval that is given by nobody."""
    tool = FunctionTool(listen, require_confirmation=True, deadline=0.3, on_deadline="reject")
    return talker("desk", call("listen", what="x"), "done", tools=[tool])


@recorded(answered)
def long_running() -> BaseAgent:
    """A call that is answered later."""
    return talker(
        "desk", call("order", what="x"), "ordered", "came", tools=[LongRunningFunctionTool(order)]
    )


@recorded(cancelled)
def cancel() -> BaseAgent:
    """A run that is cancelled."""
    return talker("desk", call("nap", what="x"), tools=[nap])


@recorded(failing)
def failing_tool() -> BaseAgent:
    """A tool that raises, beside one that does not."""
    return talker("desk", call("look", "sink", what="x"), tools=[look, sink])


@recorded(said)
def agent_as_tool() -> BaseAgent:
    """A child workflow."""
    expert = talker("expert", call("look", what="x"), "so it is", tools=[look])
    return talker("desk", call("expert", request="how?"), "done", tools=[AgentTool(expert)])


def _mark(callback_context: Any, **_: Any) -> None:
    callback_context.state["marked"] = True


class Seeing(BasePlugin):
    """Sees the run and its events."""

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Mark the state."""
        invocation_context.state["seen"] = True

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        """Only look."""

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Only look."""


@recorded(said)
def callbacks_and_plugins() -> App:
    """Hooks of all kinds."""
    agent = talker(
        "desk",
        call("look", what="x"),
        "done",
        tools=[look],
        before_agent_callback=_mark,
        after_agent_callback=_mark,
        before_model_callback=_mark,
    )
    return App(name="corpus", root_agent=agent, plugins=[Seeing("seeing")])


@activity.defn(name="TheirActivity")
async def theirs(what: str) -> str:
    """Nobody's worker has it."""
    return what


@recorded(said)
def activity_as_tool() -> BaseAgent:
    """An activity of others that nobody runs, alone, beside a function, and without arguments."""
    tool = ActivityTool(
        theirs,
        task_queue="nobody",
        schedule_to_start_timeout=timedelta(milliseconds=200),
        start_to_close_timeout=timedelta(seconds=5),
    )
    both = call("theirs", "look", what="x")
    return talker(
        "desk", call("theirs", what="x"), both, call("theirs"), "done", tools=[tool, look]
    )


RESTED = threading.Event()


async def rest(what: str) -> str:
    """Take a while."""
    await until(RESTED.is_set)
    return what


@recorded(steered)
def steering() -> BaseAgent:
    """A message that is delivered within a run."""
    return talker("desk", call("rest", what="x"), "both heard", "another", tools=[rest])


class Calculator(BaseCodeExecutor):
    """Knows what comes out."""

    async def execute_code(self, context: Any, code_input: Any) -> CodeExecutionResult:
        """See the base class."""
        return CodeExecutionResult(stdout="4")


@recorded(said)
def code() -> BaseAgent:
    """Code that the model wrote."""
    return talker("desk", "```python\n2 + 2\n```", "it is 4", code_executor=Calculator())


@recorded(said_twice)
def compaction() -> App:
    """Summaries after an invocation."""
    config = EventsCompactionConfig(compaction_interval=1, overlap_size=0)
    agent = talker("desk", "one", "They talked.", "two", "They talked more.")
    return App(name="corpus", root_agent=agent, events_compaction_config=config)


def measure(number: int) -> int:
    """A step of a body."""
    return number * 10


def event(author: str, text: str, **delta: Any) -> Event:
    """An event of a body."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author=author, content=content, actions=EventActions(state_delta=delta))


class Body(BaseAgent):
    """Steps, state, a sleep, a sub-agent in rounds."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        """Never to be changed."""
        ctx.session.state["dirty"] = 1
        yield event(self.name, "begin", rounds=0)
        while ctx.session.state["rounds"] < 2:
            measured = await ctx.step(measure, ctx.session.state["rounds"])
            async for one in self.sub_agents[0].run_async(ctx):
                yield one
            await asyncio.sleep(0.01)
            yield event(self.name, f"measured {measured}", rounds=ctx.session.state["rounds"] + 1)


def _worker() -> LlmAgent:
    replies = [call("look", what="x"), "one", call("look", what="y"), "two"]
    return talker("worker", *replies, tools=[look])


@recorded(said)
def custom_body() -> BaseAgent:
    """An agent with a body of its own."""
    return Body(name="body", sub_agents=[_worker()])


@recorded(said, often=True)
def continued() -> BaseAgent:
    """Runs that follow each other, without a body."""
    return LoopAgent(name="loop", sub_agents=[_worker()], max_iterations=2)


@recorded(said, often=True)
def continued_body() -> BaseAgent:
    """Runs that follow each other, with a body."""
    return Body(name="body", sub_agents=[_worker()])


@recorded(approved, often=True)
def continued_approval() -> BaseAgent:
    """Runs that follow each other, one of which waits."""
    tool = FunctionTool(listen, require_confirmation=True)
    return talker("desk", call("listen", what="x"), "done", tools=[tool])
