"""Conversations with graphs."""

from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import Context
from durable_adk.events import Event
from durable_adk.events.request_input import REQUEST_INPUT, RequestInput
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from simulation.inputs import CANCEL, NEXT_MESSAGE, RESET, TERMINATE, responded
from simulation.ledger import SimulatedModel, run_node
from simulation.scenario import Scenario

ATTEMPTS = ROUNDS = 3
RETRY = NodeRetryConfig(max_attempts=ATTEMPTS, initial_delay=0, jitter=0)


def function(name: str, **options: Any) -> Any:
    """A node that gives its input and its name."""

    async def body(ctx: Context, node_input: Any) -> dict[str, Any]:
        await run_node(ctx)
        given = None if isinstance(node_input, types.Content) else node_input
        return {"of": name, "from": given}

    return node(FunctionNode(func=body, name=name), **options)


async def count(ctx: Context) -> AsyncGenerator[Event, None]:
    """Say something, then leave the loop or run once more."""
    await run_node(ctx)
    number = int(ctx.run_id)
    if number > 1 and ctx.state["rounds"] != number - 1:
        raise ValueError("The state is not what the last round has left.")
    yield Event(message=f"round {number}")
    yield Event(output=number, state={"rounds": number}, route="again" if number < ROUNDS else "on")


async def ask(ctx: Context, node_input: Any) -> RequestInput:
    """Ask a person."""
    await run_node(ctx)
    return RequestInput(interrupt_id="q1", payload=node_input)


async def flaky(ctx: Context) -> str:
    """Fail twice."""
    ctx.state["tried"] = ctx.attempt_count
    await run_node(ctx)
    if ctx.attempt_count < ATTEMPTS:
        raise ValueError("not yet")
    return "at last"


async def items(ctx: Context) -> list[int]:
    """Give a list."""
    await run_node(ctx)
    return [1, 2, 3]


async def item(ctx: Context, node_input: int) -> int:
    """Double an item."""
    await run_node(ctx)
    return 2 * node_input


def graph(*edges: Any, name: str = "wf") -> Workflow:
    """A graph of edges."""
    return Workflow(name=name, edges=[*edges])


def app(root: Workflow) -> App:
    """An app for it."""
    return App(name="app", root_agent=root)


def chain() -> Workflow:
    """A function, a loop that writes state, and another function."""
    return graph(("START", function("a"), count, {"again": count, "on": function("z")}))


def fan_out() -> Workflow:
    """Three branches, one of which has a graph with an agent, and their join."""
    writer = LlmAgent(name="writer", model=SimulatedModel(replies=["Written."]))
    inner = graph(("START", function("draft"), writer), name="inner")
    branches = (function("left"), inner, function("right"))
    return graph(("START", function("a"), branches, JoinNode(name="both"), function("z")))


def asking() -> Workflow:
    """A question beside another branch, and a join of both."""
    both = JoinNode(name="both")
    return graph(("START", function("a"), (ask, function("beside")), both, function("z")))


def working() -> Workflow:
    """A list whose items run by themselves, and a node that fails at first."""
    each = node(item, parallel_worker=True, max_parallel_workers=2)
    return graph(("START", items, each, node(flaky, retry_config=RETRY)))


ANSWERS = [responded(name, REQUEST_INPUT) for name in ("first", "again")]
GRAPHS = [
    Scenario(name="graph", app=app(chain())),
    Scenario(name="graph rolls over", app=app(chain()), roll_over_after=2),
    Scenario(name="graph reset", app=app(chain()), inputs=[RESET]),
    Scenario(name="graph cancelled", app=app(chain()), inputs=[CANCEL]),
    Scenario(name="graph taken over", app=app(chain()), inputs=[TERMINATE, NEXT_MESSAGE]),
    Scenario(name="graph fans out", app=app(fan_out()), side_by_side=True),
    Scenario(
        name="graph fans out and rolls over",
        app=app(fan_out()),
        side_by_side=True,
        roll_over_after=2,
    ),
    Scenario(name="graph asks", app=app(asking()), inputs=ANSWERS, waits=True, side_by_side=True),
    Scenario(
        name="graph asks and rolls over",
        app=app(asking()),
        inputs=ANSWERS,
        waits=True,
        side_by_side=True,
        roll_over_after=2,
    ),
    Scenario(
        name="graph asks and is reset",
        app=app(asking()),
        inputs=[RESET, *ANSWERS[:1]],
        waits=True,
        side_by_side=True,
    ),
    Scenario(name="graph works and retries", app=app(working()), side_by_side=True),
    Scenario(
        name="graph works, retries and rolls over",
        app=app(working()),
        side_by_side=True,
        roll_over_after=2,
    ),
]
