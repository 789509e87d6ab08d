"""google-adk's own graphs, run here."""

import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from fastapi.openapi.models import APIKey
from google.adk import Context, Event, Workflow
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_handler import AuthHandler
from google.adk.events import RequestInput
from google.adk.sessions import StateSchemaError
from google.adk.tools import FunctionTool
from google.adk.workflow import (
    DEFAULT_ROUTE,
    BaseNode,
    FunctionNode,
    JoinNode,
    Node,
    RetryConfig,
    node,
)
from google.adk.workflow._errors import DynamicNodeFailError, NodeInterruptedError
from google.genai import types
from pydantic import BaseModel

from durable_adk import events, workflow
from durable_adk.context.activity import Context as OurContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.google_objects import from_google_adk
from durable_adk.interop import nodes
from durable_adk.runners import InMemoryRunner
from tests.interop.objects.running import call, llm

PLACE = {"user_id": "u", "session_id": "s"}
REJECTED = "This tool call is rejected."
KEY = AuthConfig(
    auth_scheme=APIKey(**{"in": "header", "name": "X-Key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
    credential_key="mail",
)
NOW = RetryConfig(max_attempts=3, initial_delay=0, jitter=0)


class State(BaseModel):
    """What a graph may write."""

    n: int = 0


def started(root: Any) -> InMemoryRunner:
    """A runner of ours for a graph or an app of google-adk."""
    return InMemoryRunner(app=root) if isinstance(root, App) else InMemoryRunner(node=root)


async def rows(root: Any, *messages: Any) -> list[tuple[str, Any]]:
    """The path below the graph, and what came, of each event."""
    async with started(root) as runner:
        await runner.session_service.create_session(app_name=runner.app_name, **PLACE)
        return [
            (event.node_info.path.partition("/")[2], told(event))
            for message in messages or ["hi"]
            async for event in runner.run_async(**PLACE, new_message=content(message))
        ]


def content(message: Any) -> types.Content:
    """A text, or the answers to calls by their ids."""
    if isinstance(message, str):
        return types.Content(role="user", parts=[types.Part(text=message)])
    parts = [
        types.Part(function_response=types.FunctionResponse(id=name, name="any", response=response))
        for name, response in message.items()
    ]
    return types.Content(role="user", parts=parts)


def told(event: events.Event) -> Any:
    """An output, an error, a text, or the ids of calls."""
    if event.output is not None:
        return event.output
    calls = [call.id for call in event.get_function_calls()]
    return event.error_message or event.text or calls or event.actions.state_delta


async def test_code_gets_google_adks_context() -> None:
    """With the run, the state, the artifacts and what the node has yielded."""
    seen: dict[str, Any] = {}

    @node(name="first", rerun_on_resume=True, retry_config=NOW)
    async def first(c: Context, node_input: str) -> AsyncGenerator[Any, None]:
        if c.attempt_count == 1:
            raise ValueError("again")
        if not c.resume_inputs:
            yield RequestInput(interrupt_id="q")
            seen["asked"] = c.interrupt_ids
            return
        version = await c.save_artifact("f.txt", types.Part(text="a"))
        c.state["n"] = len(c.state.to_dict()) + version
        yield Event(message="working")
        yield Event(output=node_input, route="x")
        with pytest.raises(ValueError, match="Output already set"):
            c.output = 1
        seen["class"] = isinstance(c, Context)
        seen["run"] = (c.node_path, c.run_id, c.attempt_count, c.node and c.node.name)
        seen["said"] = (c.output, c.route, c.resume_inputs, c.agent_name, c.event_author)
        seen["of"] = (c.session.id, c.user_id, c.branch, c.function_call_id, c.user_content)

    def last(ctx: Any, n: int) -> None:
        ctx.route, ctx.output = "none", [n, ctx.state["n"], type(ctx).__mro__[1] is Context]

    root = Workflow(name="wf", edges=[("START", first, {"x": last})])
    assert await rows(root, "hi", {"q": {"result": 5}}) == [
        ("first@1", "again"),
        ("first@1", ["q"]),
        ("first@1", "working"),
        ("first@1", "hi"),
        ("last@1", [0, 0, True]),
    ]
    assert seen == {
        "asked": {"q"},
        "class": True,
        "run": ("wf@1/first@1", "1", 2, "first"),
        "said": ("hi", "x", {"q": 5}, "unknown", "wf"),
        "of": ("s", "u", None, None, content("hi")),
    }


class Doubler(Node):
    """A node for subclasses of google-adk."""

    async def run_node_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        assert isinstance(ctx, Context)
        yield 2 * node_input


class Plus(BaseNode):
    """A node with a field."""

    by: int

    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        ctx.state["plus"] = self.by
        yield Event(output=node_input + self.by)


class Collect(Plus):
    """Waits for all of its predecessors, as a join."""

    @property
    def _requires_all_predecessors(self) -> bool:
        return True

    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        yield sum(node_input.values()) + self.by


class Loud(FunctionNode):
    """A function node that does more than its function."""

    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._run_impl(ctx=ctx, node_input=node_input):
            event.output = f"{event.output}!"
            yield event


def numbers(node_input: str) -> list[int]:
    """Numbers."""
    return [len(node_input), 1]


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def pair(node_input: list[int]) -> dict[str, int]:
    """Arguments."""
    return {"a": node_input[0], "b": node_input[1]}


def said(node_input: int) -> str:
    """A text."""
    return str(node_input)


def swallowed(node_input: int) -> None:
    """Give nothing: a graph has one output."""


def total(node_input: dict[str, int]) -> int:
    """The sum."""
    return sum(node_input.values())


async def test_every_kind_of_node_runs() -> None:
    """Custom nodes with their fields, workers, tools, joins, graphs and agents."""
    inner = Workflow(name="inner", edges=[("START", Plus(name="plus", by=10))])
    one, join = Plus(name="one", by=1), JoinNode(name="both")
    loud = Loud(func=said, name="loud")
    root = Workflow(
        name="wf",
        max_concurrency=1,
        edges=[
            ("START", numbers, Doubler(name="doubled", parallel_worker=True), pair),
            (pair, FunctionTool(add), (inner, one), join, total, loud, llm("speaker", "well")),
            ((inner, one), Collect(name="all", by=100), swallowed),
        ],
    )
    made = await rows(root)
    assert made == [
        ("numbers@1", [2, 1]),
        ("doubled@1/doubled@1", 4),
        ("doubled@1/doubled@2", 2),
        ("doubled@1", [4, 2]),
        ("pair@1", {"a": 4, "b": 2}),
        ("add@1", 6),
        ("inner@1/plus@1", 16),
        ("one@1", 7),
        ("both@1", {"inner": 16, "one": 7}),
        ("all@1", 123),
        ("total@1", 23),
        ("loud@1", "23!"),
        ("speaker@1", "well"),
    ]


async def test_a_graph_is_the_root_of_an_app_and_of_every_runner() -> None:
    """With its policies: attempts, time limits and questions."""
    calls: list[str] = []

    @node(retry_config=RetryConfig(max_attempts=2, initial_delay=0, exceptions=[LookupError]))
    def flaky(node_input: str) -> str:
        calls.append("flaky")
        if len(calls) == 1:
            raise KeyError("k")
        return node_input

    @node(timeout=0.05, retry_config=NOW)
    def slow(ctx: Context, node_input: str) -> str:
        if ctx.attempt_count == 1:
            time.sleep(0.2)
        return f"{node_input} {ctx.attempt_count}"

    def ask(node_input: str) -> RequestInput:
        return RequestInput(interrupt_id="q", message="ok?", response_schema=list[int])

    graph = Workflow(name="wf", edges=[("START", flaky, slow, ask, total_of)])
    for root in (graph, App(name="shop", root_agent=graph)):
        calls.clear()
        assert await rows(root, "hi", {"q": {"result": "[1, 2]"}}) == [
            ("flaky@1", "'k'"),
            ("flaky@1", "hi"),
            ("slow@1", "Node 'slow' timed out after 0.05 seconds."),
            ("slow@1", "hi 2"),
            ("ask@1", ["q"]),
            ("ask@1", [1, 2]),
            ("total_of@1", 3),
        ]


def total_of(node_input: list[int]) -> int:
    """The sum."""
    return sum(node_input)


def large(amount: int, ctx: Context) -> bool:
    """Whether a person has to approve it."""
    assert isinstance(ctx, Context)
    return amount > ctx.state["limit"]


@pytest.mark.parametrize(
    ("amount", "confirmed", "outcome"),
    [(1, None, ["paid 1"]), (9, True, ["paid 9"]), (9, False, [{"error": REJECTED}])],
)
async def test_a_function_waits_for_its_confirmation(
    amount: int, confirmed: bool | None, outcome: list[Any]
) -> None:
    """A predicate of google-adk gets google-adk's context, whatever the function takes."""

    def set_up(node_input: str) -> Event:
        return Event(state={"amount": amount, "limit": 5})

    @node(require_confirmation=large)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    call = "wf_tool_confirmation:wf@1/pay@1"
    answers = [] if confirmed is None else [{call: {"confirmed": confirmed}}]
    found = await rows(Workflow(name="wf", edges=[("START", set_up, pay)]), "hi", *answers)
    asked = [("pay@1", [call])] if answers else []
    assert found[1:] == [*asked, ("pay@1", outcome[0])]


@pytest.mark.parametrize("handler", [False, True])
async def test_a_function_waits_for_its_credential(handler: bool) -> None:
    """GR-52: it reads what the user gives by its context, or by google-adk's handler."""

    @node(auth_config=KEY, rerun_on_resume=True)
    def mail(ctx: Context) -> str | None:
        found = (
            AuthHandler(KEY).get_auth_response(ctx.state) if handler else ctx.get_auth_response(KEY)
        )
        return found and found.api_key

    call = types.FunctionResponse(
        id="wf_auth:wf@1/mail@1", name="adk_request_credential", response={"result": "secret"}
    )
    answer = types.Content(role="user", parts=[types.Part(function_response=call)])
    async with started(Workflow(name="wf", edges=[("START", mail)])) as runner:
        await runner.session_service.create_session(app_name=runner.app_name, **PLACE)
        before = [event async for event in runner.run_async(**PLACE, new_message="hi")]
        after = [event async for event in runner.run_async(**PLACE, new_message=answer)]
    assert [told(event) for event in [*before, *after]] == [["wf_auth:wf@1/mail@1"], "secret"]


async def test_a_tool_waits_for_its_confirmation() -> None:
    """As google-adk's node of a tool, with the same question."""
    tool = FunctionTool(add, require_confirmation=True)
    call = "wf_tool_confirmation:wf@1/add@1"
    root = Workflow(name="wf", edges=[("START", two, tool)])
    found = await rows(root, "hi", {call: {"confirmed": True}})
    assert found == [("two@1", {"a": 1, "b": 2}), ("add@1", [call]), ("add@1", 3)]


def two(node_input: str) -> dict[str, int]:
    """Arguments."""
    return {"a": 1, "b": 2}


@pytest.mark.parametrize("how", ["state", "event", "custom"])
async def test_a_state_schema_is_kept(how: str) -> None:
    """Code can catch google-adk's error; an event with another key fails its node."""
    caught: list[str] = []

    class Custom(BaseNode):
        async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
            ctx.state["n"] = 1
            try:
                ctx.state["m"] = 1
            except StateSchemaError as error:
                caught.append(str(error))
            yield "well"

    def state(ctx: Context) -> str:
        for key, value in (("n", 1), ("m", 1), ("n", "x"), ("user:m", 1)):
            try:
                ctx.state[key] = value
            except StateSchemaError as error:
                caught.append(str(error).partition(" (")[0])
        return "well"

    def event() -> Event:
        return Event(output="well", state={"m": 1})

    code = {"state": state, "event": event, "custom": Custom(name="custom")}[how]
    inner = Workflow(name="inner", edges=[("START", code)])
    root = Workflow(name="wf", state_schema=State, edges=[("START", inner)])
    missing = "Key 'm' is not declared in state schema 'State'. Declared fields: ['n']"
    if how == "event":
        with pytest.raises(TypeError, match="is not declared in state schema"):
            await rows(root)
        return
    assert await rows(root) == [(f"inner@1/{how}@1", "well")]
    wrong = ["Value for 'n' does not satisfy field 'n'"] if how == "state" else []
    assert caught == [missing, *wrong]


async def test_code_of_ours_runs_in_a_graph_of_google_adk() -> None:
    """What it returns, and the context that its annotation names."""

    def first(context: OurContext, node_input: str) -> events.Event:
        return events.Event(output=context.idempotency_key[-7:], route="ask", state={"n": 1})

    def ask() -> events.RequestInput:
        return events.RequestInput(interrupt_id="q")

    root = Workflow(name="wf", edges=[("START", first, {"ask": ask, DEFAULT_ROUTE: total_of})])
    found = await rows(root, "hi", {"q": {"result": 1}})
    assert [path for path, _ in found] == ["first@1", "ask@1", "ask@1"]
    assert found[1:] == [("ask@1", ["q"]), ("ask@1", 1)]


async def test_code_of_google_adk_runs_in_a_graph_of_ours() -> None:
    """Functions that take its context or give its events, its nodes, tools and agents."""

    def first(context: Context, node_input: str) -> Event:
        assert isinstance(context, Context)
        return Event(output=len(node_input), route="x")

    def ask() -> RequestInput:
        return RequestInput(interrupt_id="q")

    agent, plus = llm("speaker", "well"), Plus(name="plus", by=3)
    root = workflow.Workflow(
        name="wf",
        edges=[("START", workflow.node(first, timeout=9), {"x": plus}), (plus, ask, agent)],
    )
    assert await rows(root, "hi", {"q": {"result": "so"}}) == [
        ("first@1", 2),
        ("plus@1", 5),
        ("ask@1", ["q"]),
        ("ask@1", "so"),
        ("speaker@1", "well"),
    ]
    graph = root.graph
    assert graph is not None
    made: Any = graph["speaker"]
    assert (made.adk, made.mode, made.include_contents) == (agent, "single_turn", "none")


async def test_code_calls_other_nodes() -> None:
    """GR-150, GR-154, GR-155: google-adk's context, with its own errors."""
    tries: list[str] = []

    def bad(node_input: int) -> None:
        tries.append("bad")
        raise LookupError("no")

    def ask(node_input: int) -> RequestInput:
        return RequestInput(interrupt_id="q", message="ok?")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        ctx.state["k"] = 1
        total = await ctx.run_node(total_of, [1, 2])
        try:
            await ctx.run_node(bad, 1)
        except DynamicNodeFailError as error:
            text = f"{type(error.error).__name__} at {error.error_node_path}"
        try:
            answer = await ctx.run_node(ask, 1)
        except NodeInterruptedError:
            tries.append("waits")
            raise
        return [total, text, answer, ctx.state["k"]]

    found = await rows(Workflow(name="wf", edges=[("START", parent)]), "hi", {"q": {"result": 5}})
    assert found == [
        ("parent@1/total_of@1", 3),
        ("parent@1/bad@1", "no"),
        ("parent@1/ask@1", ["q"]),
        ("parent@1/ask@1", 5),
        ("parent@1", [3, "LookupError at wf@1/parent@1/bad@1", 5, 1]),
    ]
    assert tries == ["bad", "waits"]


async def test_a_failure_of_a_called_node_is_that_of_its_caller() -> None:
    """GR-112: with its own exception, although google-adk's error is between them."""

    def bad(node_input: int) -> None:
        raise LookupError("no")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context) -> Any:
        return await ctx.run_node(bad, 1)

    with pytest.raises(LookupError, match="no"):
        await rows(Workflow(name="wf", edges=[("START", parent)]))


def test_a_version_with_other_nodes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of google-adk's private attributes is looked for when a graph is loaded."""
    graph = Workflow(name="wf", edges=[("START", total_of)])
    monkeypatch.setattr(FunctionNode, "__private_attributes__", {})
    nodes._require_parts.cache_clear()
    with pytest.raises(AgentDefinitionError, match=r"google-adk 2\.\S+ has no FunctionNode\._func"):
        from_google_adk(graph)
    nodes._require_parts.cache_clear()


def test_a_graph_with_a_loop_of_its_own_is_refused() -> None:
    """Its edges are run by ours."""

    class Mine(Workflow):
        async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
            yield node_input

    with pytest.raises(AgentDefinitionError, match="Mine 'mine' overrides _run_impl"):
        from_google_adk(Mine(name="mine"))


def test_an_agent_keeps_what_it_has_as_a_node() -> None:
    """GR-19: the mode of google-adk's copy, and its policies."""
    agent = LlmAgent(name="a", timeout=3, retry_config=NOW, mode="chat", model="m")
    made: Any = from_google_adk(Workflow(name="wf", edges=[("START", agent)])).graph["a"]
    assert (made.timeout, made.retry_config.max_attempts, made.mode) == (3, 3, "chat")
    assert (made.wait_for_output, made.rerun_on_resume, made.include_contents) == (
        True,
        True,
        "default",
    )


class Numbers(BaseModel):
    """Arguments of a graph."""

    numbers: list[int]


async def test_a_graph_is_a_tool_of_an_agent() -> None:
    """GR-192: its arguments are its input."""

    def add(node_input: Numbers) -> int:
        return sum(node_input.numbers)

    adder = Workflow(name="adder", edges=[("START", add)], input_schema=Numbers)
    found = await rows(llm("ag", call("adder", numbers=[1, 2]), "done", tools=[adder]))
    assert [value for _, value in found[1:]] == [3, {}, "done"]
