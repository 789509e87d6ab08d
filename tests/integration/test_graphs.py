"""Conversations with graphs, in process and on Temporal."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from google.genai import types
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.client import workflow_id
from durable_adk.errors import (
    AlreadyAnsweredError,
    EventConflictError,
    InvalidRequestError,
    WorkflowConfigurationError,
)
from durable_adk.events import Event, EventActions
from durable_adk.events.request_input import RequestInput
from durable_adk.flows import continue_as_new
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from durable_adk.wire.checkpoint import packed
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, ensure_session, send, state, stored
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.replayed

KEY = SessionKey("app", "u", "s")
ROUNDS_APART = 5
"""Workflow runs between the first and the last checkpoint of a long loop, at least."""
CHECKPOINT = 3_000
"""Characters of the checkpoint of a loop."""
PER_NODE = 6
"""History events of a function in a chain."""


class Row(NamedTuple):
    """What a table of a conversation has of an event."""

    author: str
    path: str
    branch: str | None
    value: Any
    """The output, else the text, else the names and ids of the calls, or the responses."""
    output_for: list[str] | None = None
    delta: dict[str, Any] | None = None
    route: Any = None
    error: str | None = None


def row(event: Event) -> Row:
    """The row of an event."""
    value: Any = event.output if event.output is not None else event.text or None
    if value is None:
        calls = [(one.name, one.id) for one in event.get_function_calls()]
        value = calls or [one.response for one in event.get_function_responses()] or None
    return Row(
        author=event.author,
        path=event.node_info.path,
        branch=event.branch,
        value=value,
        output_for=event.node_info.output_for,
        delta=event.actions.state_delta or None,
        route=event.actions.route,
        error=event.error_code,
    )


def path_of(name: str) -> str:
    """The path of a node of the graph `wf`."""
    return f"wf@1/{name}"


def gives(name: str, value: Any, branch: str | None = None, **more: Any) -> Row:
    """The row of an output of a node."""
    path = path_of(name)
    return Row(more.pop("author", "wf"), path, branch, value, [path], **more)


def ends(name: str, value: Any, branch: str | None = None, **more: Any) -> Row:
    """The row of an output that is the graph's, too."""
    path = path_of(name)
    return Row(more.pop("author", "wf"), path, branch, value, [path, "wf@1"], **more)


def asks(name: str, call_id: str, branch: str | None = None) -> Row:
    """The row of a question."""
    return Row("wf", path_of(name), branch, [("adk_request_input", call_id)])


def fails(name: str, error: str, branch: str | None = None, **more: Any) -> Row:
    """The row of a failed attempt."""
    return Row(more.pop("author", "wf"), path_of(name), branch, None, error=error, **more)


def answers(named: str = "any", **given: Any) -> types.Content:
    """A message that answers calls, by their ids."""
    parts = [
        types.Part(function_response=types.FunctionResponse(id=name, name=named, response=one))
        for name, one in given.items()
    ]
    return types.Content(role="user", parts=parts)


def answer(call_id: str, value: Any) -> types.Content:
    """A message that answers one call."""
    return answers(**{call_id: {"result": value}})


async def reply(runner: Runner, message: types.Content, **options: Any) -> list[Row]:
    """The rows of what comes of an answer."""
    events = runner.run_async(**USER, new_message=message, **options)
    async with asyncio.timeout(PATIENCE):
        return [row(event) async for event in events]


async def said(runner: Runner, message: str = "hi", **options: Any) -> list[Row]:
    """The rows of what comes of a text."""
    async with asyncio.timeout(PATIENCE):
        return [row(event) for event in await send(runner, message, **options)]


async def fail(
    runner: Runner, message: str = "hi", *, seen: asyncio.Event | None = None
) -> tuple[list[Row], Exception]:
    """The rows of a run, and the exception with which it fails.

    Args:
        runner: The runner.
        message: The message.
        seen: Set once an event has come.
    """
    await ensure_session(runner)
    rows: list[Row] = []

    async def collect() -> None:
        async for event in runner.run_async(**USER, new_message=message):
            rows.append(row(event))
            if seen is not None:
                seen.set()

    (error,) = await asyncio.gather(collect(), return_exceptions=True)
    assert isinstance(error, Exception), rows
    return rows, error


async def log(runner: Runner) -> list[Row]:
    """The rows of what is stored, without the user's."""
    return [row(event) for event in await stored(runner) if event.author != "user"]


async def status(runner: Runner) -> Status:
    """How far the newest invocation is."""
    events = await stored(runner)
    record = await runner.session_service.get_invocation(KEY, events[-1].invocation_id)
    assert record is not None
    return record.status


def by_branch(rows: Iterable[Row]) -> dict[str | None, list[Row]]:
    """The rows of each branch: branches that run at the same time interleave as they come."""
    found: dict[str | None, list[Row]] = {}
    for one in rows:
        found.setdefault(one.branch, []).append(one)
    return found


class Runs(Counter[Any]):
    """Counts what has run."""

    def named(self, name: str, value: Any = None) -> Callable[[Any], Any]:
        """A function of this name that gives a value, or its input."""

        def function(node_input: Any) -> Any:
            self[name] += 1
            return value if value is not None else node_input

        function.__name__ = name
        return function


# ----- chains, fan-outs, routes


class Number(BaseModel):
    """What a graph takes, and gives."""

    n: int


def same(node_input: Any) -> Any:
    """Give what it is given."""
    return node_input


async def test_a_graph_converts_its_input_and_output(make_runner: MakeRunner) -> None:
    """GR-190, GR-191: by its schemas, also in another graph."""
    prompts: list[Any] = []

    def reply_to(request: LlmRequest) -> str:
        prompts.append([part.text for one in request.contents for part in one.parts or ()])
        return "text"

    agent = LlmAgent(name="agent", model=ScriptedModel(replies=reply_to))
    schemas: dict[str, Any] = {"input_schema": Number, "output_schema": Number}
    inner = Workflow(name="inner", edges=[("START", node(same, name="x"))], **schemas)
    again = Runs().named("again", {"n": "5"})
    edges: list[Any] = [("START", agent, again, inner, node(same, name="end"))]
    runner = await make_runner(Workflow(name="wf", edges=edges, **schemas))
    rows = await said(runner, '{"n": "4"}')
    assert prompts == [['{"n": 4}']]
    assert [one.value for one in rows] == ["text", {"n": "5"}, {"n": 5}, {"n": 5}]


async def test_a_message_that_a_graph_cannot_read_is_refused(make_runner: MakeRunner) -> None:
    """GR-190: nothing is stored, and nothing waits behind it; a reply to a task is no input."""
    model = ScriptedModel(replies=["what?", call("finish_task", result="ok")])
    task = LlmAgent(name="task", mode="task", model=model)
    root = Workflow(name="wf", edges=[("START", task)], input_schema=Number)
    runner = await make_runner(root)
    await ensure_session(runner)
    for message in ("no JSON", '{"m": 1}'):
        with pytest.raises(InvalidRequestError, match="does not fit the input_schema of 'wf'"):
            await said(runner, message)
    assert await stored(runner) == []
    assert [one.value for one in await said(runner, '{"n": 1}')] == ["what?"]
    assert (await said(runner, "no JSON"))[-1].output_for == ["wf@1/task@1", "wf@1"]


async def test_an_output_that_does_not_fit_its_graph_fails(make_runner: MakeRunner) -> None:
    """GR-190, GR-191: the attempt that gives it, and it is not stored."""
    given = iter(["x", "1"])

    def number(node_input: Any) -> dict[str, str]:
        return {"n": next(given)}

    retry = NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0)
    inner = Workflow(
        name="inner", edges=[("START", node(number, retry_config=retry))], output_schema=Number
    )
    runner = await make_runner(Workflow(name="wf", edges=[("START", inner)]))
    rows = await said(runner)
    assert [one.error for one in rows] == ["ValidationError", None]
    assert rows[-1].value == {"n": 1}
    agent = LlmAgent(name="agent", model=ScriptedModel(replies=["text"]))
    runner = await make_runner(Workflow(name="wf", edges=[("START", agent)], output_schema=Number))
    rows, error = await fail(runner)
    assert rows == [fails("agent@1", "ValidationError", author="agent")]
    assert "Input should be a valid dictionary or instance of Number" in str(error)


def chain(runs: Runs) -> Workflow:
    """Four functions that hand on values and state."""

    def upper(node_input: str) -> str:
        runs["upper"] += 1
        return node_input.upper()

    def count(node_input: str) -> dict[str, int]:
        runs["count"] += 1
        return {"n": len(node_input)}

    def remember(ctx: Any, node_input: dict[str, int]) -> None:
        runs["remember"] += 1
        ctx.state["k"] = node_input["n"]

    def plus(k: int) -> int:
        runs["plus"] += 1
        return k + 1

    return Workflow(name="wf", edges=[("START", upper, count, remember, plus)])


async def test_a_chain_hands_on_outputs_and_state(make_runner: MakeRunner) -> None:
    """GR-44, GR-66, GR-77 to GR-79, GR-84: each function runs once per message."""
    runs = Runs()
    runner = await make_runner(chain(runs))
    table: list[Row] = []
    for text, length in (("hi", 2), ("four", 4)):
        expected = [
            gives("upper@1", text.upper()),
            gives("count@1", {"n": length}),
            Row("wf", "wf@1/remember@1", None, None, delta={"k": length}),
            ends("plus@1", length + 1),
        ]
        assert await said(runner, text) == expected
        table += expected
    assert await log(runner) == table
    assert runs == dict.fromkeys(("upper", "count", "remember", "plus"), 2)
    assert await state(runner) == {"k": 4}


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_function_of_a_chain_costs_few_history_events(
    make_runner: MakeRunner, client: Client
) -> None:
    """D4: from the start of each activity to that of the next one."""
    runs, name = Runs(), f"e-{uuid.uuid4()}"
    nodes = [runs.named(f"f{number}", number) for number in range(1, 13)]
    runner = await make_runner(Workflow(name="wf", edges=[("START", *nodes)]))
    await send(runner, invocation_id=name)
    history = await client.get_workflow_handle(workflow_id(KEY, name)).fetch_history()
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    starts = [event.event_id for event in history.events if event.event_type == scheduled]
    costs = [end - start for start, end in pairwise(starts[-len(nodes) :])]
    assert len(costs) == len(nodes) - 1
    assert max(costs) <= PER_NODE
    assert len(runs) == len(nodes)


@pytest.mark.parametrize("gives_output", [True, False])
async def test_a_join_waits_for_the_slow_branch(
    gives_output: bool, make_runner: MakeRunner
) -> None:
    """GR-57, GR-79, GR-81: a branch without output has no event, and None in the join."""
    runs, gate = Runs(), asyncio.Event()

    def x(node_input: str) -> str | None:
        runs["x"] += 1
        return "x" if gives_output else None

    async def y(node_input: str) -> str:
        runs["y"] += 1
        await gate.wait()
        return "y"

    join = JoinNode(name="j")
    edges: list[Any] = [("START", runs.named("a", "a"), (x, y), join, runs.named("z"))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    await ensure_session(runner)
    rows: list[Row] = []
    async for event in runner.run_async(**USER, new_message="hi"):
        rows.append(row(event))
        if len(rows) == (2 if gives_output else 1):
            gate.set()
    both = {"x": "x" if gives_output else None, "y": "y"}
    assert rows == [
        gives("a@1", "a"),
        *([gives("x@1", "x", "x@1")] if gives_output else []),
        gives("y@1", "y", "y@1"),
        gives("j@1", both),
        ends("z@1", both),
    ]
    assert list(rows[-1].value) == ["x", "y"]
    assert await log(runner) == rows
    assert runs == {"a": 1, "x": 1, "y": 1, "z": 1}


def routed(runs: Runs, *, default: bool = True) -> Workflow:
    """A function that routes by the text it is given."""

    def r(node_input: str) -> Event:
        runs["r"] += 1
        return Event(output=node_input, route=["A", "B"] if node_input == "both" else node_input)

    targets: dict[Any, Any] = {name: runs.named(name, name) for name in ("A", "B")}
    if default:
        targets[DEFAULT_ROUTE] = runs.named("D", "D")
    return Workflow(name="wf", edges=[("START", r, targets)])


@pytest.mark.parametrize(("text", "target"), [("A", "A"), ("B", "B"), ("zzz", "D")])
async def test_a_route_leads_to_its_node(text: str, target: str, make_runner: MakeRunner) -> None:
    """GR-6, GR-67: and without a match to the default."""
    runs = Runs()
    runner = await make_runner(routed(runs))
    expected = [gives("r@1", text, route=text), ends(f"{target}@1", target)]
    assert await said(runner, text) == expected
    assert await log(runner) == expected
    assert runs == {"r": 1, target: 1}


async def test_a_second_output_of_a_graph_fails_it(make_runner: MakeRunner) -> None:
    """GR-74: it is not stored; which of the two came first is not determined."""
    runs = Runs()
    runner = await make_runner(routed(runs))
    rows, error = await fail(runner, "both")
    first, last = rows[1], rows[-1]
    assert rows[0] == gives("r@1", "both", route=["A", "B"])
    assert first in [ends("A@1", "A", "A@1"), ends("B@1", "B", "B@1")]
    assert (last.author, last.value, last.error) == ("wf", None, "WorkflowConfigurationError")
    assert len(rows) == 3
    assert isinstance(error, WorkflowConfigurationError)
    assert "multiple terminal nodes produced output" in str(error)
    assert await log(runner) == rows
    assert await status(runner) is Status.FAILED


async def test_a_route_that_nothing_takes_ends_the_graph(make_runner: MakeRunner) -> None:
    """GR-68, GR-74: as a success without output."""
    runs = Runs()
    runner = await make_runner(routed(runs, default=False))
    assert await said(runner, "zzz") == [gives("r@1", "zzz", route="zzz")]
    assert await status(runner) is Status.COMPLETED
    assert runs == {"r": 1}


def loop(rounds: int, runs: Runs) -> Workflow:
    """A function that runs itself again, by its route."""

    def inc(ctx: Any) -> int:
        number = ctx.state.get("n", 0) + 1
        runs[number] += 1
        ctx.state["n"] = number
        ctx.route = "again" if number < rounds else "done"
        return number

    def done(node_input: int) -> str:
        return f"done {node_input}"

    return Workflow(name="wf", edges=[("START", inc, {"again": inc, "done": done})])


def loop_table(rounds: int) -> list[Row]:
    """The rows of that loop."""
    rows = [
        gives(f"inc@{n}", n, delta={"n": n}, route="again" if n < rounds else "done")
        for n in range(1, rounds + 1)
    ]
    return [*rows, ends("done@1", f"done {rounds}")]


async def test_a_loop_of_edges_runs_a_node_again(make_runner: MakeRunner) -> None:
    """GR-71, GR-93: each round has a run id of its own."""
    runs = Runs()
    runner = await make_runner(loop(3, runs))
    assert await said(runner) == loop_table(3)
    assert await log(runner) == loop_table(3)
    assert runs == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_long_loop_continues_as_new_with_a_small_position(
    make_runner: MakeRunner, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10: a late checkpoint is as large as an early one, and run ids go on."""
    sizes: list[int] = []

    def measured(text: str) -> Any:
        sizes.append(len(text))
        return packed(text)

    monkeypatch.setattr(continue_as_new, "packed", measured)
    runs, name, rounds = Runs(), f"e-{uuid.uuid4()}", 300
    runner = await make_runner(loop(rounds, runs), limits=Limits(max_history_events=200))
    assert await said(runner, invocation_id=name) == loop_table(rounds)
    assert set(runs.values()) == {1}
    assert len(runs) == rounds
    found = client.list_workflows(f"WorkflowId = '{workflow_id(KEY, name)}'")
    assert len([run async for run in found]) > ROUNDS_APART
    assert max(sizes) < CHECKPOINT
    assert abs(sizes[-1] - sizes[0]) < 20  # numbers have more digits


async def test_a_graph_limits_how_many_of_its_nodes_run_at_once(
    make_runner: MakeRunner,
) -> None:
    """GR-11, GR-69, GR-70: the others start in their order."""
    now, most, order = [0], [0], list[str]()

    def slow(name: str) -> Callable[[Any], Any]:
        async def function(node_input: Any) -> None:
            order.append(name)
            now[0] += 1
            most[0] = max(most[0], now[0])
            await asyncio.sleep(0)
            now[0] -= 1

        function.__name__ = name
        return function

    nodes = tuple(slow(name) for name in "abcd")
    edges: list[Any] = [("START", nodes)]
    runner = await make_runner(Workflow(name="wf", max_concurrency=1, edges=edges))
    assert await said(runner) == []
    assert order == list("abcd")
    assert most == [1]


async def test_a_node_collects_until_it_has_an_output(make_runner: MakeRunner) -> None:
    """GR-69, GR-72: one run for each predecessor; the successor runs once."""
    runs = Runs()

    def collect(ctx: Any, node_input: str) -> list[str] | None:
        parts = [*ctx.state.get("parts", []), node_input]
        ctx.state["parts"] = parts
        return parts if len(parts) == 3 else None

    collector = node(collect, wait_for_output=True)
    nodes = tuple(runs.named(name, name) for name in "xyz")
    edges: list[Any] = [("START", nodes, collector, runs.named("end"))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    rows = await said(runner)
    assert [one.path for one in rows if "collect" in one.path] == [
        f"wf@1/collect@{number}" for number in (1, 2, 3)
    ]
    assert sorted(rows[-1].value) == ["x", "y", "z"]
    assert rows[-1].path == "wf@1/end@1"
    assert runs == {"x": 1, "y": 1, "z": 1, "end": 1}


# ----- questions


def asking(runs: Runs) -> Workflow:
    """A graph with a question in it."""

    def ask(node_input: Any) -> RequestInput:
        runs["ask"] += 1
        return RequestInput(
            interrupt_id="q1", message="ok?", payload={"x": 1}, response_schema=bool
        )

    def after(node_input: Any) -> dict[str, Any]:
        runs["after"] += 1
        return {"got": node_input}

    return Workflow(name="wf", edges=[("START", runs.named("a", "a"), ask, after)])


async def test_the_answer_to_a_question_is_the_output_of_its_node(
    make_runner: MakeRunner,
) -> None:
    """GR-7, GR-130 to GR-133, D9: no lease is held meanwhile, and nothing runs twice."""
    runs = Runs()
    runner = await make_runner(asking(runs))
    before = [gives("a@1", "a"), asks("ask@1", "q1")]
    assert await said(runner) == before
    question = (await stored(runner))[-1]
    assert question.get_function_calls()[0].args == {
        "interruptId": "q1",
        "message": "ok?",
        "payload": {"x": 1},
        "response_schema": {"type": "boolean"},
    }
    assert question.long_running_tool_ids == {"q1"}
    assert await status(runner) is Status.PAUSED
    assert await runner.session_service.active_invocation(KEY) is None
    assert [one.call_id for one in await runner.pending(**USER)] == ["q1"]
    after = [gives("ask@1", True), ends("after@1", {"got": True})]
    assert await reply(runner, answer("q1", "true")) == after
    assert await status(runner) is Status.COMPLETED
    assert await log(runner) == before + after
    assert {event.invocation_id for event in await stored(runner)} == {question.invocation_id}
    assert runs == {"a": 1, "ask": 1, "after": 1}


async def test_an_answer_that_does_not_fit_is_refused_and_stores_nothing(
    make_runner: MakeRunner,
) -> None:
    """GR-132, GR-138: neither one of another type, nor of an unknown call, nor a second one."""
    runs = Runs()
    runner = await make_runner(asking(runs))
    await said(runner)
    events = len(await stored(runner))
    with pytest.raises(InvalidRequestError, match="is not of type 'boolean'"):
        await reply(runner, answer("q1", 5))
    with pytest.raises(ValueError, match="no pending call 'nope'"):
        await reply(runner, answer("nope", True))
    assert len(await stored(runner)) == events
    assert await reply(runner, answer("q1", False)) == [
        gives("ask@1", False),
        ends("after@1", {"got": False}),
    ]
    events = len(await stored(runner))
    with pytest.raises(AlreadyAnsweredError):
        await reply(runner, answer("q1", True))
    assert len(await stored(runner)) == events
    assert runs == {"a": 1, "ask": 1, "after": 1}


async def test_a_text_begins_anew_while_a_question_is_open(make_runner: MakeRunner) -> None:
    """GR-139, GR-142: of one id in two invocations, the newest is answered."""
    runs = Runs()
    runner = await make_runner(asking(runs))
    asked = [gives("a@1", "a"), asks("ask@1", "q1")]
    assert await said(runner) == asked
    assert await said(runner, "again") == asked
    older, newer = dict.fromkeys(event.invocation_id for event in await stored(runner))
    rows = await reply(runner, answer("q1", False))
    assert rows == [gives("ask@1", False), ends("after@1", {"got": False})]
    assert (await stored(runner))[-1].invocation_id == newer
    record = await runner.session_service.get_invocation(KEY, older)
    assert record is not None
    assert record.status is Status.PAUSED
    assert runs == {"a": 2, "ask": 2, "after": 1}


async def test_an_answer_may_name_its_invocation(make_runner: MakeRunner) -> None:
    """GR-142, B-19: although a newer one waits for an answer to the same id."""
    runner = await make_runner(asking(Runs()))
    for message in ("hi", "again"):
        await said(runner, message)
    older, newer = dict.fromkeys(event.invocation_id for event in await stored(runner))
    for name, given in ((older, False), (newer, True)):
        rows = await reply(runner, answer("q1", given), invocation_id=name)
        assert rows == [gives("ask@1", given), ends("after@1", {"got": given})]
        assert (await stored(runner))[-1].invocation_id == name
        with pytest.raises(EventConflictError):
            await reply(runner, answer("q1", not given), invocation_id=name)
        # Sent again it gives the same.
        assert await reply(runner, answer("q1", given), invocation_id=name) == rows


async def test_an_answer_that_is_sent_again_answers_no_older_question(
    make_runner: MakeRunner,
) -> None:
    """B-19: only one that names the older invocation does."""
    runner = await make_runner(asking(Runs()))
    for message in ("hi", "again"):
        await said(runner, message)
    older, newer = dict.fromkeys(event.invocation_id for event in await stored(runner))
    await reply(runner, answer("q1", True))
    with pytest.raises(AlreadyAnsweredError):
        await reply(runner, answer("q1", True))
    records = [await runner.session_service.get_invocation(KEY, name) for name in (older, newer)]
    assert [one and one.status for one in records] == [Status.PAUSED, Status.COMPLETED]
    assert await reply(runner, answer("q1", True), invocation_id=older)


async def test_each_round_of_a_named_invocation_has_its_answer(make_runner: MakeRunner) -> None:
    """B-19, GR-136: an id that is asked again is answered again."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    def decide(node_input: str) -> Event:
        return Event(output=node_input, actions=EventActions(route=node_input))

    end = Runs().named("end")
    edges: list[Any] = [("START", ask, decide, {"again": ask, "done": end})]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    assert await said(runner) == [asks("ask@1", "q1")]
    (name,) = {event.invocation_id for event in await stored(runner)}
    rows = await reply(runner, answer("q1", "again"), invocation_id=name)
    assert rows[-1] == asks("ask@2", "q1")
    rows = await reply(runner, answer("q1", "done"), invocation_id=name)
    assert rows[-1] == ends("end@1", "done")


async def test_a_node_that_runs_again_asks_its_questions_one_after_the_other(
    make_runner: MakeRunner,
) -> None:
    """GR-134: with its first input and all answers so far, as one run."""
    runs, seen = Runs(), list[Any]()

    @node(rerun_on_resume=True)
    async def ask2(ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        seen.append((dict(ctx.resume_inputs), node_input))
        for name in ("q1", "q2"):
            if name not in ctx.resume_inputs:
                yield RequestInput(interrupt_id=name)
                return
        yield dict(ctx.resume_inputs)

    runner = await make_runner(Workflow(name="wf", edges=[("START", runs.named("a", "a"), ask2)]))
    assert await said(runner) == [gives("a@1", "a"), asks("ask2@1", "q1")]
    assert await reply(runner, answer("q1", "1")) == [asks("ask2@1", "q2")]
    both = {"q1": 1, "q2": {"a": 1, "b": 2}}
    assert await reply(runner, answers(q2={"a": 1, "b": 2})) == [ends("ask2@1", both)]
    assert seen == [({}, "a"), ({"q1": 1}, "a"), (both, "a")]
    assert runs == {"a": 1}


def two_asking(runs: Runs) -> Workflow:
    """Two branches that ask, and one that does not, before a join."""

    def a1(node_input: Any) -> RequestInput:
        runs["a1"] += 1
        return RequestInput(interrupt_id="qa")

    def b1(node_input: Any) -> RequestInput:
        runs["b1"] += 1
        return RequestInput(interrupt_id="qb")

    def a2(node_input: Any) -> list[Any]:
        runs["a2"] += 1
        return ["a2", node_input]

    def b2(node_input: Any) -> list[Any]:
        runs["b2"] += 1
        return ["b2", node_input]

    c1, join = runs.named("c1", "c"), JoinNode(name="j")
    return Workflow(
        name="wf",
        edges=[
            *(("START", (a1, b1, c1)), (a1, a2, join), (b1, b2, join), (c1, join)),
            (join, runs.named("end")),
        ],
    )


ALL = {"a2": ["a2", "A"], "b2": ["b2", "B"], "c1": "c"}
ONCE = dict.fromkeys(("a1", "b1", "c1", "a2", "b2", "end"), 1)


async def test_branches_wait_and_go_on_separately(make_runner: MakeRunner) -> None:
    """GR-137, GR-81, D9: an answer's event is on the branch of its call."""
    runs = Runs()
    runner = await make_runner(two_asking(runs))
    assert by_branch(await said(runner)) == {
        "a1@1": [asks("a1@1", "qa", "a1@1")],
        "b1@1": [asks("b1@1", "qb", "b1@1")],
        "c1@1": [gives("c1@1", "c", "c1@1")],
    }
    assert await reply(runner, answer("qb", "B")) == [
        gives("b1@1", "B", "b1@1"),
        gives("b2@1", ["b2", "B"], "b1@1"),
    ]
    assert await status(runner) is Status.PAUSED
    assert await reply(runner, answer("qa", "A")) == [
        gives("a1@1", "A", "a1@1"),
        gives("a2@1", ["a2", "A"], "a1@1"),
        gives("j@1", ALL),
        ends("end@1", ALL),
    ]
    users = [event.branch for event in await stored(runner) if event.author == "user"]
    assert users == [None, "b1@1", "a1@1"]
    assert list((await stored(runner))[-1].output or {}) == list(ALL)
    assert runs == ONCE


async def test_one_message_answers_several_branches(make_runner: MakeRunner) -> None:
    """GR-137: both go on, and the join runs once."""
    runs = Runs()
    runner = await make_runner(two_asking(runs))
    await said(runner)
    rows = await reply(runner, answers(qa={"result": "A"}, qb={"result": "B"}))
    assert by_branch(rows) == {
        "a1@1": [gives("a1@1", "A", "a1@1"), gives("a2@1", ["a2", "A"], "a1@1")],
        "b1@1": [gives("b1@1", "B", "b1@1"), gives("b2@1", ["b2", "B"], "b1@1")],
        None: [gives("j@1", ALL), ends("end@1", ALL)],
    }
    assert rows[-2:] == [gives("j@1", ALL), ends("end@1", ALL)]
    assert runs == ONCE


async def test_open_questions_and_arrivals_survive_a_new_workflow_run(
    make_runner: MakeRunner,
) -> None:
    """D10, GR-57, GR-137: one history event is the limit, so each step may begin a run."""
    runs = Runs()
    runner = await make_runner(two_asking(runs), limits=Limits(max_history_events=1))
    await said(runner)
    assert await reply(runner, answer("qb", "B")) == [
        gives("b1@1", "B", "b1@1"),
        gives("b2@1", ["b2", "B"], "b1@1"),
    ]
    rows = await reply(runner, answer("qa", "A"))
    assert rows[-2:] == [gives("j@1", ALL), ends("end@1", ALL)]
    assert runs == ONCE


async def test_a_question_is_asked_again_in_each_round(make_runner: MakeRunner) -> None:
    """GR-136: with the same id; each answer is that of its round."""

    def ask(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="again")

    def check(ctx: Any, node_input: str) -> str:
        ctx.route = "more" if node_input == "more" else "done"
        return node_input

    def done(node_input: str) -> str:
        return node_input

    edges: list[Any] = [("START", ask, check, {"more": ask, "done": done})]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    assert await said(runner) == [asks("ask@1", "again")]
    assert await reply(runner, answer("again", "more")) == [
        gives("ask@1", "more"),
        gives("check@1", "more", route="more"),
        asks("ask@2", "again"),
    ]
    assert await reply(runner, answer("again", "enough")) == [
        gives("ask@2", "enough"),
        gives("check@2", "enough", route="done"),
        ends("done@1", "enough"),
    ]


async def test_a_question_wins_over_an_output_of_the_same_run(make_runner: MakeRunner) -> None:
    """GR-133, GR-135: the answer is the output that the next node is given."""
    runs = Runs()

    def ask(node_input: Any) -> Iterable[Any]:
        yield Event(message="Let me ask.")
        yield "before"
        yield RequestInput(interrupt_id="q1")

    runner = await make_runner(Workflow(name="wf", edges=[("START", ask, runs.named("end"))]))
    rows = await said(runner)
    assert [one.value for one in rows] == ["Let me ask.", "before", asks("", "q1").value]
    assert {one.path for one in rows} == {"wf@1/ask@1"}
    assert await reply(runner, answer("q1", "after")) == [
        gives("ask@1", "after"),
        ends("end@1", "after"),
    ]
    assert runs == {"end": 1}


async def test_several_questions_of_a_run_have_one_output(make_runner: MakeRunner) -> None:
    """GR-133: a dict, in the order of the answers."""
    runs = Runs()

    def ask(node_input: Any) -> Iterable[Any]:
        yield RequestInput(interrupt_id="q1")
        yield RequestInput(interrupt_id="q2")

    runner = await make_runner(Workflow(name="wf", edges=[("START", ask, runs.named("end"))]))
    assert await said(runner) == [asks("ask@1", "q1"), asks("ask@1", "q2")]
    assert await reply(runner, answer("q2", "two")) == []
    assert await status(runner) is Status.PAUSED
    both = {"q2": "two", "q1": 1}
    rows = await reply(runner, answer("q1", 1))
    assert rows == [gives("ask@1", both), ends("end@1", both)]
    assert list(rows[0].value) == ["q2", "q1"]


# ----- parallel workers


def worker_graph(runs: Runs, limit: int | None) -> Workflow:
    """A worker that asks for two of its three items."""

    def src(node_input: Any) -> list[int]:
        return [1, 2, 3]

    async def wq(ctx: Any, node_input: int) -> AsyncGenerator[Any, None]:
        runs[node_input] += 1
        name = f"q{node_input}"
        if node_input != 2 and name not in ctx.resume_inputs:
            yield RequestInput(interrupt_id=name)
            return
        yield [node_input, dict(ctx.resume_inputs)]

    options: dict[str, Any] = {"max_parallel_workers": limit} if limit else {}
    worker = node(wq, rerun_on_resume=True, parallel_worker=True, **options)
    return Workflow(name="wf", edges=[("START", src, worker, runs.named("end"))])


ITEMS = [[1, {"q1": "A"}], [2, {}], [3, {"q3": "C"}]]


def item(number: int) -> Row:
    """The row of the output of an item."""
    return gives(f"wq@1/wq@{number}", ITEMS[number - 1], f"wq@{number}")


def item_asks(number: int) -> Row:
    """The row of the question of an item."""
    return asks(f"wq@1/wq@{number}", f"q{number}", f"wq@{number}")


async def test_no_item_begins_while_one_of_a_limited_worker_waits(
    make_runner: MakeRunner,
) -> None:
    """GR-59, GR-60: items that have ended do not run again."""
    runs = Runs()
    runner = await make_runner(worker_graph(runs, 1))
    assert await said(runner) == [gives("src@1", [1, 2, 3]), item_asks(1)]
    assert await reply(runner, answer("q1", "A")) == [item(1), item(2), item_asks(3)]
    assert await reply(runner, answer("q3", "C")) == [
        item(3),
        gives("wq@1", ITEMS),
        ends("end@1", ITEMS),
    ]
    assert runs == {1: 2, 2: 1, 3: 2, "end": 1}


async def test_items_of_a_worker_without_limit_ask_at_once(make_runner: MakeRunner) -> None:
    """GR-59: the list is in the order of the items, whichever was answered first."""
    runs = Runs()
    runner = await make_runner(worker_graph(runs, None))
    source, *rest = await said(runner)
    assert source == gives("src@1", [1, 2, 3])
    assert by_branch(rest) == by_branch([item_asks(1), item(2), item_asks(3)])
    assert await reply(runner, answer("q3", "C")) == [item(3)]
    assert await reply(runner, answer("q1", "A")) == [
        item(1),
        gives("wq@1", ITEMS),
        ends("end@1", ITEMS),
    ]
    assert runs == {1: 2, 2: 1, 3: 2, "end": 1}


@pytest.mark.parametrize(
    ("text", "items"), [("[]", []), ('["a", "b"]', ["a", "b"]), ("word", ["word"])]
)
async def test_the_items_of_a_message_are_the_workers(
    text: str, items: list[str], make_runner: MakeRunner
) -> None:
    """GR-59: a text that is a JSON list, or else one item."""

    @node(parallel_worker=True)
    def w(node_input: str) -> str:
        return node_input

    runner = await make_runner(Workflow(name="wf", edges=[("START", w)]))
    rows = await said(runner, text)
    numbered = enumerate(items, 1)
    expected = [gives(f"w@1/w@{number}", one, f"w@{number}") for number, one in numbered]
    assert by_branch(rows) == by_branch([*expected, ends("w@1", items)])
    assert rows[-1] == ends("w@1", items)


# ----- failures


async def test_a_second_output_of_a_run_fails_it(make_runner: MakeRunner) -> None:
    """GR-49: neither output is stored, what was said before is."""

    def twice(ctx: Any) -> Iterable[Any]:
        yield Event(message="So far.")
        yield "one"
        yield "two"

    runner = await make_runner(Workflow(name="wf", edges=[("START", twice)]))
    rows, error = await fail(runner)
    assert rows == [
        Row("wf", "wf@1/twice@1", None, "So far."),
        fails("twice@1", "ValueError"),
    ]
    assert str(error) == "Output already set. A node can produce at most one output."
    assert await log(runner) == rows


async def test_an_output_that_is_not_json_fails_its_node(make_runner: MakeRunner) -> None:
    """GR-50: the message names the type and the place."""

    def odd(ctx: Any) -> Any:
        return {"a": [object()]}

    runner = await make_runner(Workflow(name="wf", edges=[("START", odd)]))
    rows, error = await fail(runner)
    assert [(one.path, one.value) for one in rows] == [("wf@1/odd@1", None)]
    assert "object" in str(error)


class Flaky:
    """Fails twice, and notes its attempts."""

    def __init__(self) -> None:
        self.attempts: list[int] = []

    def flaky(self, ctx: Any) -> str:
        """Fail at the first attempts."""
        self.attempts.append(ctx.attempt_count)
        ctx.state["try"] = ctx.attempt_count
        if ctx.attempt_count < 3:
            raise UnicodeError("no")
        return "ok"


def attempt(number: int) -> Row:
    """The row of a failed attempt of that."""
    return fails("flaky@1", "UnicodeError", delta={"try": number})


@pytest.mark.parametrize("kinds", [None, ["ValueError"]])
async def test_a_node_is_tried_again_and_each_failure_is_told(
    kinds: list[str] | None, make_runner: MakeRunner
) -> None:
    """GR-85, GR-110, GR-111, GR-84: with what it wrote before; classes match by their bases."""
    flaky = Flaky()
    retry = NodeRetryConfig(max_attempts=3, initial_delay=0.05, jitter=0, exceptions=kinds)
    edges: list[Any] = [("START", node(flaky.flaky, retry_config=retry))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    expected = [attempt(1), attempt(2), ends("flaky@1", "ok", delta={"try": 3})]
    assert await said(runner) == expected
    assert await log(runner) == expected
    assert flaky.attempts == [1, 2, 3]


async def test_an_exception_that_is_not_named_is_not_tried_again(
    make_runner: MakeRunner,
) -> None:
    """GR-110, GR-111, GR-112: the caller is given the original exception."""
    flaky = Flaky()
    retry = NodeRetryConfig(max_attempts=3, initial_delay=0.05, exceptions=["KeyError"])
    edges: list[Any] = [("START", node(flaky.flaky, retry_config=retry))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    rows, error = await fail(runner)
    assert rows == [attempt(1)]
    assert str(error) == "no"
    assert await status(runner) is Status.FAILED
    assert flaky.attempts == [1]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_attempt_that_takes_too_long_has_no_output(
    kind: str, make_runner: MakeRunner
) -> None:
    """GR-113: also where nobody can stop it."""

    async def slow(ctx: Any) -> str:
        if ctx.attempt_count == 1:
            await asyncio.sleep(60)
        return "second"

    def slow_sync(ctx: Any) -> str:
        if ctx.attempt_count == 1:
            time.sleep(3)
            return "first"
        return "second"

    retry = NodeRetryConfig(max_attempts=2, initial_delay=0)
    function = node(slow if kind == "async" else slow_sync, timeout=2, retry_config=retry)
    runner = await make_runner(Workflow(name="wf", edges=[("START", function)]))
    name = f"{function.name}@1"
    expected = [fails(name, "NodeTimeoutError"), ends(name, "second")]
    assert await said(runner) == expected
    first = next(event for event in await stored(runner) if event.error_code)
    assert first.error_message == f"Node '{function.name}' timed out after 2 seconds."
    assert await log(runner) == expected


async def test_the_time_of_a_graph_in_a_graph_is_limited(make_runner: MakeRunner) -> None:
    """GR-113: the error is on the path of the inner graph, whose nodes are cancelled."""
    cancelled: list[str] = []

    async def long(node_input: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("long")
            raise

    inner = Workflow(name="inner", timeout=2, edges=[("START", long)])
    runner = await make_runner(Workflow(name="wf", edges=[("START", inner)]))
    rows, error = await fail(runner)
    assert rows == [fails("inner@1", "NodeTimeoutError")]
    assert str(error) == "Node 'inner' timed out after 2 seconds."
    assert cancelled == ["long"]


async def test_a_node_that_fails_ends_its_graph(make_runner: MakeRunner) -> None:
    """GR-85, GR-112: others are cancelled, and open questions are closed."""
    cancelled, began = list[str](), asyncio.Event()

    def asker(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id="q1")

    async def bad(node_input: Any) -> None:
        await began.wait()
        raise KeyError("x")

    async def long(node_input: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("long")
            raise

    edges: list[Any] = [("START", (asker, bad, long))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    rows, raised = await fail(runner, seen=began)
    assert isinstance(raised, KeyError)
    question, error, closing = rows
    assert question == asks("asker@1", "q1", "asker@1")
    assert error == fails("bad@1", "KeyError", "bad@1")
    assert (closing.branch, closing.error) == ("asker@1", None)
    (response,) = closing.value
    assert "The run ended before this call was answered" in response["error"]
    assert await log(runner) == rows
    assert cancelled == ["long"]
    assert await status(runner) is Status.FAILED
    with pytest.raises(InvalidRequestError, match="ended before its call 'q1' was answered"):
        await reply(runner, answer("q1", 1))


async def test_a_message_after_a_failure_begins_anew(make_runner: MakeRunner) -> None:
    """GR-112: nothing of the failed invocation is left."""
    failing = [True]

    def bad(node_input: str) -> str:
        if failing.pop():
            raise ValueError("no")
        return node_input

    runner = await make_runner(Workflow(name="wf", edges=[("START", bad)]))
    rows, _ = await fail(runner)
    assert rows == [fails("bad@1", "ValueError")]
    failing.append(False)
    assert await said(runner, "again") == [ends("bad@1", "again")]


# ----- agents


class Out(BaseModel):
    """What an agent is to return."""

    city: str
    n: int = 0


class Said:
    """Makes models that say given texts, and keeps their prompts."""

    def __init__(self) -> None:
        self.prompts: list[list[Any]] = []

    def model(self, *replies: Any) -> ScriptedModel:
        """A model that repeats its last reply."""
        left = list(replies)

        def reply(request: LlmRequest) -> Any:
            self.prompts.append([part for one in request.contents for part in _parts(one)])
            return left.pop(0) if len(left) > 1 else left[0]

        return ScriptedModel(replies=reply)


def _parts(content: types.Content) -> list[Any]:
    return [
        part.text
        or (part.function_call and (part.function_call.name, part.function_call.args))
        or (part.function_response and part.function_response.response)
        for part in content.parts or []
    ]


def agents(seen: Said, *before: str) -> Workflow:
    """Three agents, of which the second returns an object."""
    retry = NodeRetryConfig(max_attempts=2, initial_delay=0)
    a1 = LlmAgent(name="a1", model=seen.model("draft text"), output_key="draft")
    a2 = LlmAgent(
        name="a2",
        model=seen.model(*before, '{"city": "Paris"}'),
        output_schema=Out,
        retry_config=retry,
    )
    a3 = LlmAgent(name="a3", model=seen.model("final"))
    return Workflow(name="wf", edges=[("START", a1, a2, a3)])


CITY = {"city": "Paris", "n": 0}
AGENTS = [
    gives("a1@1", "draft text", author="a1", delta={"draft": "draft text"}),
    gives("a2@1", CITY, author="a2"),
    ends("a3@1", "final", author="a3"),
]


def prompts(text: str) -> list[list[Any]]:
    """The prompts of these agents for a message."""
    return [[text], ["draft text"], ['{"city": "Paris", "n": 0}']]


async def test_agents_are_given_the_output_before_and_no_history(
    make_runner: MakeRunner,
) -> None:
    """GR-62, GR-79, GR-80: one event each; a final text is the output, or the object in it."""
    seen = Said()
    runner = await make_runner(agents(seen))
    for text in ("hi", "again"):
        assert await said(runner, text) == AGENTS
    assert await log(runner) == AGENTS * 2
    assert seen.prompts == prompts("hi") + prompts("again")
    events = [event for event in await stored(runner) if event.author != "user"]
    assert [event.node_info.message_as_output for event in events[:3]] == [True, None, True]
    assert events[1].text == '{"city": "Paris"}'


async def test_an_agent_whose_output_does_not_fit_is_tried_again(
    make_runner: MakeRunner,
) -> None:
    """GR-62, GR-65, GR-85: the next attempt sees nothing of the last one."""
    seen = Said()
    runner = await make_runner(agents(seen, "not json"))
    bad = fails("a2@1", "OutputSchemaError", author="a2")
    assert await said(runner) == [AGENTS[0], bad, *AGENTS[1:]]
    first, second, third = prompts("hi")
    assert seen.prompts == [first, second, second, third]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_an_agent_in_a_graph_waits_for_a_confirmation(
    confirmed: bool, make_runner: MakeRunner
) -> None:
    """GR-141: then it goes on with the same input, and the tool has run once or not at all."""
    seen, runs = Said(), Runs()

    def danger(city: str) -> dict[str, str]:
        """Do something dangerous."""
        runs["danger"] += 1
        return {"done": city}

    def src(node_input: Any) -> dict[str, str]:
        runs["src"] += 1
        return {"city": "Oslo"}

    agent = LlmAgent(
        name="ag",
        model=seen.model(call("danger", city="Bonn"), "all done"),
        tools=[FunctionTool(danger, require_confirmation=True)],
    )
    edges: list[Any] = [("START", src, agent, runs.named("end"))]
    runner = await make_runner(Workflow(name="wf", edges=edges))
    source, turn, request, *_ = await said(runner)
    assert source == gives("src@1", {"city": "Oslo"})
    assert (turn.author, turn.path, turn.value[0][0]) == ("ag", "wf@1/ag@1", "danger")
    assert (request.author, request.path) == ("ag", "wf@1/ag@1")
    assert request.value[0][0] == "adk_request_confirmation"
    assert await status(runner) is Status.PAUSED
    (pending,) = await runner.pending(**USER)
    rows = await reply(runner, answers(pending.name, **{pending.call_id: {"confirmed": confirmed}}))
    response, final, end = rows
    assert response.path == "wf@1/ag@1"
    if confirmed:
        assert response.value == [{"done": "Bonn"}]
    else:
        assert "rejected" in str(response.value)
    assert final == gives("ag@1", "all done", author="ag")
    assert end == ends("end@1", "all done")
    assert runs == {"src": 1, "end": 1} | ({"danger": 1} if confirmed else {})
    given = '{"city": "Oslo"}'
    called = ("danger", {"city": "Bonn"})
    assert seen.prompts[0] == [given]
    assert seen.prompts[1] == [given, called, response.value[0]]
    assert len(seen.prompts) == 2


async def test_a_graph_in_a_graph_is_a_node(make_runner: MakeRunner) -> None:
    """GR-71, GR-77 to GR-79: with the author and the paths of its own; its output is handed on."""
    runs = Runs()
    inner = Workflow(name="inner", edges=[("START", runs.named("x", "x"), runs.named("y"))])
    last = Workflow(name="last", edges=[("START", runs.named("z"))])
    runner = await make_runner(Workflow(name="wf", edges=[("START", inner, last)]))
    paths = ["wf@1/inner@1/x@1", "wf@1/inner@1/y@1", "wf@1/last@1/z@1"]
    expected = [
        Row("inner", paths[0], None, "x", [paths[0]]),
        Row("inner", paths[1], None, "x", [paths[1], "wf@1/inner@1"]),
        Row("last", paths[2], None, "x", [paths[2], "wf@1/last@1", "wf@1"]),
    ]
    assert await said(runner) == expected
    assert await log(runner) == expected


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
@pytest.mark.parametrize("output", ["done", {"a": [1, "é"]}])
async def test_the_output_is_the_text_of_the_result(
    client: Client, make_runner: MakeRunner, output: Any
) -> None:
    """Of the app's graph, and not of the graphs in it; as JSON, unless it is a text."""
    runs = Runs()
    inner = Workflow(name="inner", edges=[("START", runs.named("first", "inside"))])
    graph = Workflow(name="wf", edges=[("START", inner, runs.named("last", output))])
    runner = await make_runner(graph)
    name = f"e-{uuid.uuid4()}"
    await send(runner, invocation_id=name)
    found: Any = await client.get_workflow_handle(workflow_id(KEY, name)).result()
    assert found["text"] == ("done" if output == "done" else '{"a": [1, "é"]}')


OFTEN = Limits(max_history_events=1)
"""Each step may begin a workflow run."""


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_items_of_a_worker_survive_new_workflow_runs(make_runner: MakeRunner) -> None:
    """D10, GR-59, GR-60: those that have ended, those that wait, and those that have not begun."""
    runs = Runs()
    runner = await make_runner(worker_graph(runs, 1), limits=OFTEN)
    assert await said(runner) == [gives("src@1", [1, 2, 3]), item_asks(1)]
    assert await reply(runner, answer("q1", "A")) == [item(1), item(2), item_asks(3)]
    assert await reply(runner, answer("q3", "C")) == [
        item(3),
        gives("wq@1", ITEMS),
        ends("end@1", ITEMS),
    ]
    assert runs == {1: 2, 2: 1, 3: 2, "end": 1}


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_agents_of_a_graph_survive_new_workflow_runs(make_runner: MakeRunner) -> None:
    """D10, GR-62, GR-65: also one that is tried again."""
    seen = Said()
    runner = await make_runner(agents(seen, "not json"), limits=OFTEN)
    bad = fails("a2@1", "OutputSchemaError", author="a2")
    assert await said(runner) == [AGENTS[0], bad, *AGENTS[1:]]
    first, second, third = prompts("hi")
    assert seen.prompts == [first, second, second, third]


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_graphs_in_graphs_survive_new_workflow_runs(
    make_runner: MakeRunner, client: Client
) -> None:
    """D10, GR-71, GR-79: the positions of all levels, with a question in the inner one."""
    runs, name = Runs(), f"e-{uuid.uuid4()}"

    def ask(node_input: Any) -> RequestInput:
        runs["ask"] += 1
        return RequestInput(interrupt_id="q1")

    names = ("x", "y")
    pair = tuple(runs.named(name, name) for name in names)
    inner = Workflow(name="inner", edges=[("START", pair, JoinNode(name="j"), ask)])
    edges: list[Any] = [("START", runs.named("a", "a"), inner, runs.named("z"))]
    runner = await make_runner(Workflow(name="wf", edges=edges), limits=OFTEN)
    rows = await said(runner, invocation_id=name)
    assert [(one.author, one.path) for one in rows if one.branch is None] == [
        ("wf", "wf@1/a@1"),
        ("inner", "wf@1/inner@1/j@1"),
        ("inner", "wf@1/inner@1/ask@1"),
    ]
    path = "wf@1/inner@1/ask@1"
    assert await reply(runner, answer("q1", "yes")) == [
        Row("inner", path, None, "yes", [path, "wf@1/inner@1"]),
        ends("z@1", "yes"),
    ]
    found = client.list_workflows(f"WorkflowId = '{workflow_id(KEY, name)}'")
    assert len([run async for run in found]) > 3
    assert runs == {"a": 1, "x": 1, "y": 1, "ask": 1, "z": 1}
