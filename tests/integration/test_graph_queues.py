"""Nodes with a task queue of their own."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import Context
from durable_adk.errors import RunError
from durable_adk.graph.node import node
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools import FunctionTool
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import call, send

MakeApp = Callable[[str, str], App]
"""Returns the app of a place; the second argument is the queue of the special one."""


class Places:
    """Which place has run what."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def function(self, name: str, place: str) -> Callable[..., Any]:
        """A function that notes where it runs, and passes its input on."""

        def work(node_input: Any = None) -> Any:
            self.ran.append((name, place))
            return node_input

        work.__name__ = name
        return work


@asynccontextmanager
async def served(client: Client, folder: Path, make: MakeApp) -> AsyncGenerator[Runner]:
    """A runner of an app, with a worker for the app and one for the special queue."""
    queues = {name: f"{name}-{uuid.uuid4().hex}" for name in ("main", "special")}
    async with AsyncExitStack() as stack:
        store = SqliteSessionService(folder / "sessions.db")
        stack.push_async_callback(store.close)
        for place, queue in queues.items():
            app, options = make(place, queues["special"]), WorkerOptions(task_queue=queue)
            started = worker(client, apps=[app], session_service=store, options=options)
            await stack.enter_async_context(started)
        app = make("client", queues["special"])
        runner = Runner(app=app, session_service=store, client=client, task_queue=queues["main"])
        yield await stack.enter_async_context(runner)


@pytest.mark.parametrize("steps", [1, 20])
async def test_a_node_runs_where_its_task_queue_is(
    client: Client, tmp_path: Path, steps: int
) -> None:
    """D7: functions, tools and items of a worker, also where several steps have one activity."""
    places = Places()

    def make(place: str, special: str) -> App:
        def charge(amount: int) -> int:
            """Charge."""
            places.ran.append(("charge", place))
            return amount

        def items(node_input: Any) -> list[int]:
            places.ran.append(("items", place))
            return [1, 2]

        def total(node_input: list[int]) -> dict[str, int]:
            places.ran.append(("total", place))
            return {"amount": sum(node_input)}

        each = node(places.function("each", place), parallel_worker=True, task_queue=special)
        edges: list[Any] = [
            (
                "START",
                places.function("first", place),
                node(places.function("heavy", place), task_queue=special),
                items,
                each,
                total,
                FunctionTool(charge, task_queue=special),
            )
        ]
        root = Workflow(name="wf", edges=edges)
        return App(name="app", root_agent=root, steps_per_activity=steps)

    async with served(client, tmp_path, make) as runner:
        events = await send(runner)
    assert events[-1].output == 3
    assert places.ran == [
        ("first", "main"),
        ("heavy", "special"),
        ("items", "main"),
        *[("each", "special")] * 2,
        ("total", "main"),
        ("charge", "special"),
    ]


@pytest.mark.parametrize("kind", ["node", "tool"])
async def test_code_cannot_call_what_belongs_on_another_queue(
    client: Client, tmp_path: Path, kind: str
) -> None:
    """GR-150: the error says so; in process, where queues have no effect, it runs."""
    places, errors = Places(), list[str]()

    def make(place: str, special: str) -> App:
        def charge() -> str:
            """Charge."""
            places.ran.append(("charge", place))
            return "paid"

        tool = FunctionTool(charge, task_queue=special)
        model = ScriptedModel(replies=[call("charge"), "done"] * 2)
        clerk = LlmAgent(name="clerk", model=model, tools=[tool])
        heavy = node(places.function("heavy", place), task_queue=special)

        @node(rerun_on_resume=True)
        async def parent(ctx: Context) -> Any:
            try:
                return await ctx.run_node(heavy if kind == "node" else clerk, "x")
            except RunError as error:
                errors.append(str(error.__cause__ or getattr(error, "error", error)))
                return "refused"

        return App(name="app", root_agent=Workflow(name="wf", edges=[("START", parent)]))

    async with served(client, tmp_path, make) as runner:
        events = await send(runner)
    assert events[-1].output == "refused"
    assert len(errors) == 1
    assert "make it a node of the graph" in errors[0]
    assert places.ran == []
    async with InMemoryRunner(app=make("here", "special")) as runner:
        events = await send(runner)
    assert events[-1].output in ("x", "done")
    assert [place for _, place in places.ran] == ["here"]


@pytest.mark.parametrize(
    "nodes",
    [
        lambda: LlmAgent(name="a", model="scripted", task_queue="q"),
        lambda: Workflow(name="a", edges=[("START", len)], task_queue="q"),
        lambda: ParallelWorker(node=node(len, name="b"), name="a", task_queue="q"),
    ],
)
def test_a_node_without_activities_takes_no_queue(nodes: Callable[[], Any]) -> None:
    """Its parts do; the error names the node."""
    with pytest.raises(ValueError, match="'a' has a task_queue"):
        App(name="app", root_agent=Workflow(name="wf", edges=[("START", nodes())]))


@pytest.mark.parametrize("queue", ["", "  ", "x" * 1001])
def test_a_queue_has_a_name(queue: str) -> None:
    """The error names the node."""
    with pytest.raises(ValueError, match="task_queue of node 'f'"):
        node(len, name="f", task_queue=queue)
