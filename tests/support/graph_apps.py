"""A graph whose nodes leave traces, for workers that are killed."""

from typing import Any

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.failpoints import failpoint
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from tests.support.chaos_apps import Traces
from tests.support.scripts import call

GRAPH = "graph"
"""The name of the app."""
QUESTION = "q1"
"""The id of its question."""
NEW, AGAIN = "new", "again"
"""Whether the event of a run was stored when the run began."""


def graph_app(traces: Traces) -> App:
    """Return an app whose graph has a chain, two branches, a join, a question and an agent."""

    def begin(name: str, ctx: Any) -> None:
        """Write down that a function began, and maybe die in the middle of it."""
        known = any(is_end(event, ctx.node_path) for event in ctx.session.events)
        traces.note(name, AGAIN if known else NEW)
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
    return App(name=GRAPH, root_agent=Workflow(name="wf", edges=edges))


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


TALKING = "talking"
"""The name of an app whose task agents talk to the user."""


def talking_app(traces: Traces) -> App:
    """Return an app whose graph begins with a task agent, and whose next agent hands out a task."""

    def last(ctx: Any, node_input: str) -> str:
        traces.note("last", "new")
        return f"{node_input} Printed."

    def model(name: str, *replies: Any) -> ScriptedModel:
        return ScriptedModel(model=name, log=traces.folder / name, replies=list(replies))

    asks = model("asks", "Where?", "When?", call("finish_task", result="Rome."))
    books = model("books", "How?", call("finish_task", result="By train."))
    hands = model("hands", call("booker", request="Book."), "Booked.")
    asker = LlmAgent(name="asker", model=asks, mode="task")
    booker = LlmAgent(name="booker", model=books, mode="task")
    agent = LlmAgent(name="agent", model=hands, sub_agents=[booker], mode="single_turn")
    edges: list[Any] = [("START", asker, agent, last)]
    return App(name=TALKING, root_agent=Workflow(name="wf", edges=edges))


def is_end(event: Event, path: str) -> bool:
    """Whether an event is the output, or the question, of a run of a node."""
    return event.node_info.path == path and (
        event.output is not None or bool(event.long_running_tool_ids)
    )
