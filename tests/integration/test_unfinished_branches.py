"""A branch of a graph that ends before the last node is told (B-30)."""

import logging
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.client import workflow_id
from durable_adk.client.queries import read_unfinished
from durable_adk.events import Event
from durable_adk.flows import continue_as_new
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Workflow
from durable_adk.sessions import SessionKey, Status
from durable_adk.sessions.unfinished_branch import UnfinishedBranch
from durable_adk.settings import Limits
from tests.conftest import MakeRunner
from tests.support.scripts import send, stored
from tests.support.telemetry import watched
from tests.support.waiting import until

pytestmark = pytest.mark.replayed
KEY = SessionKey("app", "u", "s")


def route(node_input: str) -> Event:
    """Give the input as output and route."""
    return Event(output=node_input, route=node_input)


def a(node_input: Any) -> str:
    """Give a text."""
    return "a"


def b(node_input: Any) -> str:
    """Give a text."""
    return "b"


def joined() -> Workflow:
    """A join that exclusive routes leave unsatisfied, in a graph in a graph."""
    inner = Workflow(
        name="inner", edges=[("START", route, {"A": a, "B": b}), ((a, b), JoinNode(name="j"))]
    )
    return Workflow(name="wf", edges=[("START", inner)])


async def unfinished(runner: Any, message: str) -> list[UnfinishedBranch]:
    """What is stored of the branches of a run that has completed."""
    await send(runner, message)
    name = (await stored(runner))[-1].invocation_id
    record = await runner.session_service.get_invocation(KEY, name)
    assert record is not None
    assert record.status is Status.COMPLETED
    return await read_unfinished(runner.session_service, KEY, name)


async def test_a_route_that_no_edge_takes_is_told(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """With the node and the route, in the store and in the log; not one that an edge takes."""
    caplog.set_level(logging.INFO)
    runner = await make_runner(Workflow(name="wf", edges=[("START", route, {"A": a, "B": b})]))
    (one,) = await unfinished(runner, "zzz")
    assert one == UnfinishedBranch(node="wf@1/route@1", route="zzz")
    assert one.reason == 'wf@1/route@1 emitted the route "zzz", which no edge takes.'
    assert [r.message for r in caplog.records].count("branch.unfinished") == 1
    assert "zzz" not in str([vars(r) for r in caplog.records if r.message == "branch.unfinished"])
    assert await unfinished(runner, "A") == []


async def test_a_default_takes_every_route(make_runner: MakeRunner) -> None:
    """And a node without successors needs none."""
    edges: list[Any] = [("START", route, {"A": a, DEFAULT_ROUTE: b})]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    assert await unfinished(runner, "zzz") == []


async def test_a_join_that_never_ran_is_told(make_runner: MakeRunner) -> None:
    """With the nodes that did not lead to it, also in a graph in the graph."""
    runner = await make_runner(joined())
    (one,) = await unfinished(runner, "A")
    assert one == UnfinishedBranch(node="wf@1/inner@1/j", missing=["b"])
    assert one.reason == "wf@1/inner@1/j never ran: b did not lead to it."


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_the_result_of_the_workflow_tells_it(
    make_runner: MakeRunner, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after many runs of the workflow, and of a loop only the first ones."""

    def again(ctx: Any) -> Any:
        number = ctx.state.get("n", 0) + 1
        ctx.state["n"] = number
        ctx.route = ["again", "lost"] if number < 100 else "done"
        return number

    def lost(node_input: Any) -> Event:
        return Event(output=node_input, route="x" * 1_000)

    packed: list[str] = []
    monkeypatch.setattr(
        continue_as_new,
        "packed",
        lambda text, pack=continue_as_new.packed: _kept(packed, text, pack),
    )
    edges: list[Any] = [
        ("START", again, {"again": again, "done": a, "lost": lost}),
        (lost, {"y": b}),
    ]
    graph = Workflow(name="wf", edges=[*edges, ((a, b), JoinNode(name="j"))])
    runner = await make_runner(graph, limits=Limits(max_history_events=200))
    await send(runner, "hi", invocation_id="e-told")
    result = await client.get_workflow_handle(workflow_id(KEY, "e-told")).result()
    told = result["unfinished"]
    assert packed
    assert len(told) == 20
    assert told[0] == {"node": "wf@1/lost@1", "route": "x" * 100, "missing": []}


def _kept(texts: list[str], text: str, pack: Any) -> str:
    texts.append(text)
    return pack(text)


async def test_the_span_of_the_run_has_an_event(make_runner: MakeRunner) -> None:
    """Without the route, which may be a user's text."""
    with watched() as spans:
        runner = await make_runner(joined())
        await unfinished(runner, "A")
        await until(lambda: [s for s in spans.spans() if "durable_adk.status" in s.attributes])
    finished = spans.exporter.get_finished_spans()
    (root,) = [one for one in finished if "durable_adk.status" in (one.attributes or {})]
    (told,) = root.events
    assert told.name == "durable_adk.branch.unfinished"
    assert dict(told.attributes or {}) == {
        "durable_adk.node.path": "wf@1/inner@1/j",
        "durable_adk.node.missing": ("b",),
    }
