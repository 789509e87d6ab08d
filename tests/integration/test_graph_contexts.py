"""What the context of a node's code has, in process and on Temporal."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types

from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import Context
from durable_adk.events import Event, EventActions
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from durable_adk.memory import InMemoryMemoryService
from tests.conftest import MakeRunner
from tests.integration.test_graphs import answer, asks, ends, fail, fails, gives, reply, said
from tests.support.scripts import state

pytestmark = pytest.mark.replayed

TWICE = "Output already set. A node can produce at most one output."


def graph(*edges: Any, **options: Any) -> Workflow:
    """A graph of edges."""
    return Workflow(name="wf", edges=[*edges], **options)


def routed(route: str, **fields: Any) -> Event:
    """An output with a route."""
    return Event(output=1, actions=EventActions(route=route), **fields)


def left(node_input: Any) -> str:
    """One way to go on."""
    return "left"


def right(node_input: Any) -> str:
    """The other one."""
    return "right"


async def test_code_knows_its_run(make_runner: MakeRunner) -> None:
    """GR-90: also what it has asked so far."""

    async def ask(ctx: Context) -> AsyncGenerator[Any, None]:
        if not ctx.resume_inputs:
            yield RequestInput(interrupt_id="q1")
            yield RequestInput(interrupt_id="q2")
            ctx.state["asked"] = sorted(ctx.interrupt_ids)
            return
        assert not ctx.interrupt_ids
        run = (ctx.node.name, ctx.node_path, ctx.run_id, ctx.attempt_count, ctx.event_author)
        yield [*run, ctx.isolation_scope, ctx.branch, ctx.function_call_id, ctx.resume_inputs]

    runner = await make_runner(graph(("START", node(ask, rerun_on_resume=True))))
    assert [one.value for one in await said(runner)] == [
        asks("ask@1", "q1").value,
        asks("ask@1", "q2").value,
        None,
    ]
    assert await state(runner) == {"asked": ["q1", "q2"]}
    run = ["ask", "wf@1/ask@1", "1", 1, "wf", None, None, None, {"q2": "b"}]
    assert await reply(runner, answer("q2", "b")) == [ends("ask@1", run)]


def sets_twice(ctx: Context) -> None:
    """Set an output, and another one."""
    ctx.output = 1
    ctx.output = 2


def sets_and_returns(ctx: Context) -> int:
    """Set an output, and return another one."""
    ctx.output = 1
    return 2


async def yields_and_sets(ctx: Context) -> AsyncGenerator[int, None]:
    """Yield an output, and set another one."""
    yield 1
    assert ctx.output == 1
    ctx.output = 2


@pytest.mark.parametrize("code", [sets_twice, sets_and_returns, yields_and_sets])
async def test_an_output_is_set_once(make_runner: MakeRunner, code: Any) -> None:
    """GR-49, GR-90, B-14: in whichever way it is; neither is stored."""
    rows, error = await fail(await make_runner(graph(("START", code))))
    assert (type(error), str(error)) == (ValueError, TWICE)
    assert rows == [fails(f"{code.__name__}@1", "ValueError")]


async def test_the_last_route_counts(make_runner: MakeRunner) -> None:
    """GR-93: whether the code yields it or sets it in its context."""

    async def sets(ctx: Context) -> AsyncGenerator[Any, None]:
        ctx.route = "other"
        yield routed("left")
        assert ctx.route == "left"
        ctx.route = "right"

    runner = await make_runner(graph(("START", sets, {"left": left, "right": right})))
    assert await said(runner) == [
        gives("sets@1", 1, route="left"),
        gives("sets@1", None, route="right")._replace(output_for=None),
        ends("right@1", "right"),
    ]


async def test_only_a_node_chooses_its_route(make_runner: MakeRunner) -> None:
    """GR-75: not the event of another author; one that escalates goes on; a branch is kept."""

    def tells(node_input: Any) -> Event:
        event = routed("left", author="other", branch="aside")
        event.actions.escalate = True
        return event

    runner = await make_runner(graph(("START", tells, {"left": left, "__DEFAULT__": right})))
    assert await said(runner) == [
        gives("tells@1", 1, branch="aside"),
        ends("right@1", "right", branch="aside"),
    ]


async def test_code_uses_the_services(make_runner: MakeRunner) -> None:
    """GR-91: files, memory and state as in tools; only a tool's code asks for an approval."""

    async def keeps(ctx: Context) -> int:
        await ctx.save_artifact("a.txt", types.Part(text="kept"))
        ctx.actions.state_delta["k"] = 1
        with pytest.raises(ValueError, match="Only a tool's context can do this"):
            ctx.request_confirmation(hint="really?")
        await ctx.add_session_to_memory()
        return len((await ctx.search_memory("hi")).memories)

    async def reads(ctx: Context, node_input: int, k: int) -> list[Any]:
        kept = await ctx.load_artifact("a.txt")
        message = ctx.user_content and ctx.user_content.parts
        files = [kept and kept.text, await ctx.list_artifacts()]
        return [*files, node_input, k, ctx.user_id, message and message[0].text]

    services: dict[str, Any] = {
        "artifact_service": InMemoryArtifactService(),
        "memory_service": InMemoryMemoryService(),
    }
    runner = await make_runner(graph(("START", keeps, reads)), **services)
    rows = await said(runner)
    assert rows[-1] == ends("reads@1", ["kept", ["a.txt"], 1, 1, "u", "hi"])
