"""A graph whose nodes leave traces, for workers that are killed."""

import asyncio
from typing import Any

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import RunError
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.failpoints import failpoint
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from tests.support.chaos_apps import Traces

GRAPH = "graph"
"""The name of the app."""
AHEAD = "ahead"
"""The name of the same app, several of whose steps have one activity."""
QUESTION = "q1"
"""The id of its question."""
NEW, AGAIN = "new", "again"
"""Whether the event of a run was stored when the run began."""


def graph_app(traces: Traces, name: str = GRAPH) -> App:
    """Return an app whose graph has a chain, two branches, a join, a question and an agent."""

    def begin(node: str, ctx: Any) -> None:
        """Write down that a function began, and maybe die in the middle of it."""
        known = any(is_end(event, ctx.node_path) for event in ctx.session.events)
        traces.note(node, AGAIN if known else NEW)
        failpoint("node.halfway")

    def first(ctx: Any, node_input: str) -> str:
        begin("first", ctx)
        ctx.state["first"] = ctx.state.get("first", 0) + 1
        return node_input.upper()

    def left(ctx: Any, node_input: str) -> str:
        begin("left", ctx)
        return f"{node_input} left"

    def right(ctx: Any, node_input: str) -> str:
        begin("right", ctx)
        return f"{node_input} right"

    def ask(ctx: Any, node_input: dict[str, str]) -> RequestInput:
        begin("ask", ctx)
        return RequestInput(interrupt_id=QUESTION, payload=node_input)

    def last(ctx: Any, node_input: str) -> str:
        begin("last", ctx)
        return f"{node_input} Printed."

    model = ScriptedModel(log=traces.folder / "model", replies=["Written."] * 4)
    writer = LlmAgent(name="writer", model=model)
    edges: list[Any] = [("START", first, (left, right), JoinNode(name="both"), ask, writer, last)]
    steps = 20 if name == AHEAD else 1
    return App(name=name, root_agent=Workflow(name="wf", edges=edges), steps_per_activity=steps)


CALLER = "caller"
"""The name of an app whose node calls others."""


def caller_app(traces: Traces) -> App:
    """Return an app with a node that calls functions, an agent and one that asks."""

    def work(ctx: Any, node_input: int) -> int:
        known = any(is_end(event, ctx.node_path) for event in ctx.session.events)
        traces.note(f"work {node_input}", AGAIN if known else NEW)
        failpoint("node.halfway")
        return node_input * 10

    def silent(node_input: int) -> None:
        """Give neither an output nor an event."""
        traces.note("silent", NEW)

    def fails(node_input: int) -> None:
        traces.note("fails", NEW)
        raise ValueError("no")

    def ask(node_input: Any) -> RequestInput:
        traces.note("ask", NEW)
        return RequestInput(interrupt_id=QUESTION)

    model = ScriptedModel(log=traces.folder / "model", replies=["Draft.", "Draft 2."] * 4)
    writer = LlmAgent(name="writer", model=model)

    @node(rerun_on_resume=True)
    async def parent(ctx: Any) -> Any:
        traces.note("parent", NEW)
        yield Event(message="begins")
        found = [await ctx.run_node(work, 1), await ctx.run_node(silent, 0)]
        found.append(await ctx.run_node(writer, {"n": 1}))
        try:
            await ctx.run_node(fails, 1)
        except RunError as error:
            found.append(str(error))
        found += await asyncio.gather(ctx.run_node(ask), ctx.run_node(work, 2))
        found.append(await ctx.run_node(work, 3))
        yield Event(output=found)

    def last(node_input: Any) -> Any:
        return node_input

    return App(name=CALLER, root_agent=Workflow(name="wf", edges=[("START", parent, last)]))


RETRYING = "retrying"
"""The name of an app whose node fails twice."""


def retrying_app(traces: Traces) -> App:
    """Return an app whose node fails twice, and writes down its attempts."""

    def flaky(ctx: Any) -> str:
        traces.note("flaky", str(ctx.attempt_count))
        ctx.state["try"] = ctx.attempt_count
        if ctx.attempt_count < 3:
            raise ValueError("no")
        return "ok"

    retry = NodeRetryConfig(max_attempts=3, initial_delay=0.1, jitter=0)
    edges: list[Any] = [("START", node(flaky, retry_config=retry))]
    return App(name=RETRYING, root_agent=Workflow(name="wf", edges=edges))


ITEMS = "items"
"""The name of an app with a parallel worker."""
NUMBERS = 30
"""Number of its items: two batches."""


def items_app(traces: Traces) -> App:
    """Return an app that writes down each item that begins; every fifth one has no output."""

    def numbers(node_input: str) -> list[int]:
        return list(range(1, NUMBERS + 1))

    async def item(ctx: Any, node_input: int) -> int | None:
        known = any(is_end(event, ctx.node_path) for event in ctx.session.events)
        traces.note(f"item-{node_input}", AGAIN if known else NEW)
        failpoint("node.halfway")
        return None if node_input % 5 == 0 else node_input

    each = node(item, parallel_worker=True, max_parallel_workers=4)
    return App(name=ITEMS, root_agent=Workflow(name="wf", edges=[("START", numbers, each)]))


def is_end(event: Event, path: str) -> bool:
    """Whether an event is the output, or the question, of a run of a node."""
    return event.node_info.path == path and (
        event.output is not None or bool(event.long_running_tool_ids)
    )
