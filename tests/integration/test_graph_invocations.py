"""How invocations of graphs begin, continue and share a session, in process and on Temporal."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types

from durable_adk.context.activity import Context
from durable_adk.errors import EventConflictError
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from tests.conftest import MakeRunner
from tests.integration.test_graphs import Row, Runs, answer, asks, ends, gives, log, reply, said
from tests.support.scripts import USER, ensure_session, state, stored
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.replayed


def graph(*edges: Any, **options: Any) -> Workflow:
    """A graph of edges."""
    return Workflow(name="wf", edges=[*edges], **options)


def ask(node_input: Any) -> RequestInput:
    """Ask."""
    return RequestInput(interrupt_id="q1")


def same(node_input: Any) -> Any:
    """Give what it is given."""
    return node_input


class Own(BaseNode):
    """A node with code of its own."""

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        if ctx.resume_inputs:
            yield [ctx.node_path, ctx.resume_inputs]
            return
        assert isinstance(node_input, types.Content)
        yield Event(message="working")
        yield RequestInput(interrupt_id="q1")


async def test_a_node_is_the_root(make_runner: MakeRunner) -> None:
    """GR-195: as the only node of a graph of its name."""
    runner = await make_runner(Own(name="own", rerun_on_resume=True))
    path = "own@1/own@1"
    assert await said(runner) == [
        Row("own", path, None, "working"),
        Row("own", path, None, [("adk_request_input", "q1")]),
    ]
    output = [path, {"q1": 4}]
    rows = await reply(runner, answer("q1", 4))
    assert rows == [Row("own", path, None, output, [path, "own@1"])]


async def test_a_run_without_a_message_has_no_input(make_runner: MakeRunner) -> None:
    """GR-196."""
    given: list[Any] = []

    def end(node_input: Any) -> str:
        given.append(node_input)
        return "end"

    runner = await make_runner(graph(("START", end)))
    await ensure_session(runner)
    async with asyncio.timeout(PATIENCE):
        events = [event async for event in runner.run_async(**USER)]
    assert [event.output for event in events] == ["end"]
    assert given == [None]


async def test_what_a_question_leaves(make_runner: MakeRunner) -> None:
    """GR-53, GR-83, GR-87: the code ends at once, and the answer is an event of its branch."""
    runs = Runs()

    async def asking() -> AsyncGenerator[Any, None]:
        yield RequestInput(interrupt_id="q1")
        runs["after"] += 1

    def silent(node_input: Any) -> None:
        runs["silent"] += 1

    runner = await make_runner(graph(("START", (asking, silent), JoinNode(name="j"))))
    assert await said(runner) == [asks("asking@1", "q1", "asking@1")]
    assert runs == {"after": 1, "silent": 1}
    rows = await reply(runner, answer("q1", 3))
    assert rows[-1] == ends("j@1", {"asking": 3, "silent": None})
    assert rows[0] == gives("asking@1", 3, "asking@1")
    given = [event for event in await stored(runner) if event.get_function_responses()]
    assert [(event.author, event.branch) for event in given] == [("user", "asking@1")]
    assert runs == {"after": 1, "silent": 1}


async def test_an_answer_brings_state(make_runner: MakeRunner) -> None:
    """GR-140: without a message nothing new happens; another message is refused (B-43)."""

    def after(node_input: int, k: int) -> list[int]:
        return [node_input, k]

    runner = await make_runner(graph(("START", ask, after)))
    await said(runner)
    (name,) = {event.invocation_id for event in await stored(runner)}
    for _ in range(2):
        before = await log(runner)
        async with asyncio.timeout(PATIENCE):
            attached = [event async for event in runner.run_async(**USER, invocation_id=name)]
        assert len(attached) == len(before)
        assert await log(runner) == before
        with pytest.raises(EventConflictError):
            await said(runner, "something else", invocation_id=name)
        if len(before) == 1:
            rows = await reply(runner, answer("q1", 3), state_delta={"k": 9})
            assert rows[-1] == ends("after@1", [3, 9])


async def test_messages_at_once_run_one_after_the_other(make_runner: MakeRunner) -> None:
    """GR-86, GR-119, B-46: the session has the events of each together, as they were stored."""

    async def slow(node_input: str) -> str:
        await asyncio.sleep(0)
        return node_input

    runner = await make_runner(graph(("START", slow, node(same, name="end"))))
    await ensure_session(runner)
    one, two = await asyncio.gather(said(runner, "one"), said(runner, "two"))
    assert [row.value for row in one] == ["one", "one"]
    assert [row.value for row in two] == ["two", "two"]
    values = [row.value for row in await log(runner)]
    assert values in (["one"] * 2 + ["two"] * 2, ["two"] * 2 + ["one"] * 2)


async def test_branches_share_the_state(make_runner: MakeRunner) -> None:
    """GR-201, B-16: a node sees what was stored before it began; additions are merged."""
    both = asyncio.Barrier(2)

    async def count(ctx: Context, name: str) -> Any:
        seen = ctx.state.get("n", 0)
        await both.wait()
        ctx.state["n"] = seen + 1
        ctx.state[name] = True
        return name

    async def left(ctx: Context) -> Any:
        return await count(ctx, "left")

    async def right(ctx: Context) -> Any:
        return await count(ctx, "right")

    def sees(ctx: Context) -> Any:
        return sorted(ctx.state.to_dict())

    join = JoinNode(name="j")
    runner = await make_runner(graph(("START", (left, right), join, sees)))
    assert (await said(runner))[-1].value == ["left", "n", "right"]
    assert await state(runner) == {"left": True, "right": True, "n": 2}


async def test_an_output_of_a_called_node_is_handed_on(make_runner: MakeRunner) -> None:
    """B-11: also to a node that runs again after a pause."""

    @node(rerun_on_resume=True)
    async def code(ctx: Context) -> None:
        await ctx.run_node(node(lambda: "called", name="called"), use_as_output=True)

    given: list[Any] = []

    @node(rerun_on_resume=True)
    def after(ctx: Context, node_input: Any) -> Any:
        given.append(node_input)
        return ctx.resume_inputs or RequestInput(interrupt_id="q1")

    runner = await make_runner(graph(("START", code, after)))
    await said(runner)
    assert (await reply(runner, answer("q1", 1)))[-1] == ends("after@1", {"q1": 1})
    assert given == ["called", "called"]
