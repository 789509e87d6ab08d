"""Graphs beside google-adk's: the same edges, the same messages, the same rules."""

import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk import Agent as AdkAgent, workflow as adks
from google.adk.events import Event as AdkEvent, RequestInput as AdkRequestInput
from google.adk.workflow._errors import GraphValidationError as AdkGraphValidationError
from google.adk.workflow._node_state import NodeState
from google.adk.workflow.utils._retry_utils import _get_retry_delay, _should_retry_node
from google.adk.workflow.utils._workflow_hitl_utils import create_request_input_event
from google.genai import types
from pydantic import BaseModel

from durable_adk import Agent, workflow as ours
from durable_adk.errors import GraphValidationError
from durable_adk.events import Event, RequestInput
from durable_adk.events.request_input import request_input_event
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.retry_config import error_names
from durable_adk.graph.routes import fired


class City(BaseModel):
    """Data."""

    name: str


class Town(BaseModel):
    """Other data."""

    name: str


class State(BaseModel):
    """A schema of states."""

    n: int


def a(node_input): ...
def b(node_input): ...
def c(node_input): ...
def d(node_input): ...
def to_city(node_input) -> City: ...
def of_city(node_input: City): ...
def of_town(node_input: Town): ...
def reads(ctx, node_input, n: int): ...
def reads_more(n: int, m: int = 1): ...


def side(of: Any, agent: Any, error: type[Exception]) -> SimpleNamespace:
    """The names that a case uses, of one package."""

    class Picky(of.BaseNode):
        """Checks its own edges."""

        def _validate_outgoing_edges(self, edges: list[Any]) -> None:
            raise error(f"{self.name} wants none of {len(edges)}")

    names = {name: getattr(of, name) for name in adks.__all__}
    return SimpleNamespace(
        **names,
        agent=lambda **fields: agent(**{"name": "agent", "model": "m", **fields}),
        wf=lambda edges, **fields: of.Workflow(name="wf", edges=edges, **fields),
        picky=Picky(name="p"),
        edge=lambda one, two, route=None: of.Edge(from_node=one, to_node=two, route=route),
        x=of.FunctionNode(func=a, name="x"),
        y=of.FunctionNode(func=b, name="y"),
    )


SIDES = (
    side(adks, AdkAgent, AdkGraphValidationError),
    side(ours, Agent, GraphValidationError),
)
Case = Callable[[Any], Any]
CASES: dict[str, Case] = {
    "chain": lambda m: m.wf([("START", a, b, c)]),
    "lists": lambda m: m.wf([["START", a, [b, c]]]),
    "START": lambda m: m.wf([(m.START, a)]),
    "fan-out": lambda m: m.wf([("START", (a, b), (c, d))]),
    "map": lambda m: m.wf([("START", a, {"x": b, 7: c, True: d})]),
    "map in the middle": lambda m: m.wf([("START", a, {"x": b, "y": c}, d)]),
    "map of tuples": lambda m: m.wf([("START", (a, b), {"x": (c, d), m.DEFAULT_ROUTE: m.x})]),
    "twice in a map": lambda m: m.wf([("START", a, {"x": b, "y": b})]),
    "edges": lambda m: m.wf([("START", m.x), m.edge(m.x, m.y, ["a", "b"]), m.edge(m.x, m.y, "c")]),
    "loop": lambda m: m.wf([("START", a, b, {"again": a, "done": c})]),
    "itself": lambda m: m.wf([("START", a, {"again": a})]),
    "join": lambda m: m.wf([("START", (a, b), m.JoinNode(name="j"), c)]),
    "agent": lambda m: m.wf([("START", a, m.agent())]),
    "chat": lambda m: m.wf([("START", m.agent(mode="chat"), a)]),
    "nested": lambda m: m.wf([("START", m.Workflow(name="in", edges=[("START", a)]), b)]),
    "no edges": lambda m: m.wf([]),
    "schemas": lambda m: m.wf([("START", to_city, of_city)]),
    "state": lambda m: m.wf([("START", reads)], state_schema=State),
    "empty route": lambda m: m.wf([("START", m.x), m.edge(m.x, m.y, [])]),
    # refused
    "two names": lambda m: m.wf([("START", a), (a, m.FunctionNode(func=b, name="a"))]),
    "no START": lambda m: m.wf([(a, b)]),
    "route of START": lambda m: m.wf([("START", {"x": a})]),
    "unreachable": lambda m: m.wf([("START", a), (d, c)]),
    "to START": lambda m: m.wf([("START", a, {"x": "START"})]),
    "twice": lambda m: m.wf([("START", a, b), (a, b)]),
    "routed twice": lambda m: m.wf([("START", a, b), (a, {"x": b})]),
    "route twice": lambda m: m.wf(
        [("START", m.x), m.edge(m.x, m.y, ["a", "b"]), m.edge(m.x, m.y, "b")]
    ),
    "equal routes": lambda m: m.wf([("START", m.x), m.edge(m.x, m.y, True), m.edge(m.x, m.y, 1)]),
    "default in a list": lambda m: m.wf([("START", m.x), m.edge(m.x, m.y, ["a", m.DEFAULT_ROUTE])]),
    "cycle": lambda m: m.wf([("START", a, a)]),
    "schema": lambda m: m.wf([("START", to_city, of_town)]),
    "chat behind": lambda m: m.wf([("START", a, m.agent(mode="chat"))]),
    "own check": lambda m: m.wf([("START", m.picky)]),
    "empty map": lambda m: m.wf([("START", a, {})]),
    "two maps": lambda m: m.wf([("START", a, {"x": b}, {"y": c})]),
    "no item": lambda m: m.FunctionNode(func=5),
    "lambda": lambda m: m.FunctionNode(func=lambda node_input: 1),
    "name": lambda m: m.Workflow(name="a b"),
    "state of a function": lambda m: m.wf([("START", reads_more)], state_schema=State),
    "workers without": lambda m: m.node(a, max_parallel_workers=2),
    "no workers": lambda m: m.node(a, parallel_worker=True, max_parallel_workers=0),
    "confirmed": lambda m: m.FunctionNode(func=a, require_confirmation=True),
    "not again": lambda m: m.node(a, require_confirmation=True, rerun_on_resume=False),
    "confirmed agent": lambda m: m.node(m.agent(), require_confirmation=True),
    "exceptions": lambda m: m.RetryConfig(exceptions=[5]),
    "START as worker": lambda m: m.node("START", parallel_worker=True),
}
OTHER = {"START as worker"}
"""What google-adk accepts; see GR-21."""


def outcome(case: Case, names: Any) -> Any:
    """The edges of a graph, or the error's class and text."""
    try:
        made = case(names)
    except (ValueError, TypeError) as error:
        texts = re.findall(
            r"(?:Value error|Assertion failed), (.*?) \[type=", str(error), re.DOTALL
        )
        text = " ".join("; ".join(texts or [str(error)]).split())
        return type(error).__name__, re.sub(r"\S*(City|Town)", r"\1", text)
    graph = getattr(made, "graph", None)
    if graph is None:
        return made.name
    nodes = [(node.name, node.rerun_on_resume, node.wait_for_output) for node in graph.nodes]
    return nodes, [
        (edge.from_node.name, edge.to_node.name, edge.route, type(edge.route))
        for edge in graph.edges
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_declaration_has_the_same_outcome(name: str) -> None:
    """GR-14 to GR-41: nodes and edges in the same order, or the same message."""
    adks_outcome, our_outcome = (outcome(CASES[name], names) for names in SIDES)
    assert (adks_outcome == our_outcome) is (name not in OTHER)


@pytest.mark.parametrize("mode", [None, "single_turn", "task", "chat"])
@pytest.mark.parametrize("contents", [None, "default", "none"])
def test_an_agent_is_the_same_node(mode: Any, contents: Any) -> None:
    """GR-19: with the mode, the contents and the waiting of google-adk's."""
    given = {"mode": mode, "include_contents": contents}
    fields = {name: value for name, value in given.items() if value is not None}
    shown = [
        (node.mode, node.include_contents, node.wait_for_output, node.rerun_on_resume)
        for m in SIDES
        for node in [m.node(m.node(m.agent(**fields)), timeout=3)]
    ]
    assert shown[0] == shown[1]


ROUTES = [None, "a", "b", "zzz", ["a", "b"], ["zzz"], [], True, False, 0, 1, 2, "1"]


@pytest.mark.parametrize("emitted", ROUTES)
def test_a_route_fires_the_same_edges(emitted: Any) -> None:
    """GR-67: google-adk has default edges last."""
    routed = {"a": a, True: b, 0: c, 2: d}
    found = []
    for m in SIDES:
        last = m.FunctionNode(func=a, name="last")
        graph = m.wf([("START", m.x, m.y), (m.x, {**routed, m.DEFAULT_ROUTE: last})]).graph
        if m is SIDES[0]:
            found.append(graph.get_next_pending_nodes("x", emitted))
        else:
            found.append([edge.to_node.name for edge in fired(graph.outgoing("x"), emitted)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"jitter": 0, "initial_delay": 5, "max_delay": 12},
        {"jitter": 0.5, "backoff_factor": 3},
        {"max_attempts": 2, "exceptions": ["LookupError"]},
        {"max_attempts": 0},
        {"exceptions": [ValueError]},
    ],
)
@pytest.mark.parametrize("attempt", [1, 2, 4, 9])
def test_a_retry_is_the_same(
    fields: dict[str, Any], attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GR-110: whether there is one, and after which delay with the same dice."""
    monkeypatch.setattr("google.adk.platform._random.get_random", lambda: random.Random(attempt))
    theirs, own = adks.RetryConfig(**fields), ours.RetryConfig(**fields)
    state = NodeState(attempt_count=attempt)
    delay = own.delay(attempt, random.Random(attempt))
    assert delay == pytest.approx(_get_retry_delay(theirs, state))
    for error in (KeyError(), ValueError(), OSError()):
        allowed = own.allows(error_names(error), attempt)
        assert allowed == _should_retry_node(error, theirs, state)


CALLED = [
    (int, "41"),
    (City, {"name": "x"}),
    (list[City], [{"name": "x"}]),
    (str, types.Content(parts=[types.Part(text="41")])),
    (str | None, types.Content(parts=[types.Part(text="41")])),
    (int, types.Content(parts=[types.Part(text="41")])),
    (City, types.Content(parts=[types.Part(text='{"name": "x"}')])),
    (dict[str, Any], types.Content(parts=[types.Part(text='{"name": "x"}')])),
    (Any, types.Content(parts=[types.Part(text="41")])),
    (None, types.Content(parts=[types.Part(text="41")])),
    (int, "x"),
    (str, 5),
]


@pytest.mark.parametrize(("kind", "given"), CALLED)
def test_a_parameter_gets_the_same_value(kind: Any, given: Any) -> None:
    """GR-44, GR-46: or the same error."""

    def function(node_input, k=3, *args, **kwargs): ...

    if kind is not None:
        function.__annotations__["node_input"] = kind
    ctx = SimpleNamespace(state={"k": [1], "args": 5, "kwargs": 6})
    theirs, own = (m.FunctionNode(func=function) for m in SIDES)

    def tried(bind: Callable[[], Any]) -> Any:
        try:
            return bind()
        except ValueError as error:
            return type(error).__name__

    expected = tried(lambda: theirs._bind_parameters(ctx, given))
    found = tried(lambda: own.bind(ctx, given).arguments)
    if isinstance(found, dict):
        found.pop("kwargs")
    assert found == expected


@pytest.mark.parametrize("schema", [None, bool, list[str], City, {"type": "integer"}])
def test_a_question_is_the_same_event(schema: Any) -> None:
    """GR-7, GR-130."""
    fields = {"interrupt_id": "q", "message": "?", "payload": {"x": 1}, "response_schema": schema}
    theirs = create_request_input_event(AdkRequestInput(**fields))
    own = request_input_event(RequestInput(**fields))
    assert own.content == theirs.content
    assert own.long_running_tool_ids == theirs.long_running_tool_ids


def test_an_event_of_a_node_is_read_by_the_other() -> None:
    """GR-5, GR-6: in both directions, with all its fields."""
    fields = {
        "author": "wf",
        "output": {"x": None},
        "route": ["a", True, 1],
        "node_path": "wf@1/in@c1/x@2",
        "isolation_scope": "s",
        "id": "e",
        "timestamp": 1.0,
    }
    theirs, own = AdkEvent(**fields), Event(**fields)
    names = ("output", "isolation_scope", "author")
    for one, other in (
        (theirs, Event.from_json(theirs.model_dump_json(by_alias=True, exclude_none=True))),
        (own, AdkEvent.model_validate_json(own.to_json())),
    ):
        assert all(getattr(one, name) == getattr(other, name) for name in names)
        assert one.actions.route == other.actions.route
        assert one.node_info.model_dump() == other.node_info.model_dump()
        for part in ("name", "run_id", "parent_run_id"):
            assert getattr(one.node_info, part) == getattr(other.node_info, part)


def test_a_worker_of_ours_is_one_of_google_adks() -> None:
    """GR-21: with the options of each item inside."""
    retry = [m.RetryConfig(max_attempts=2) for m in SIDES]
    theirs, own = (
        m.node(a, parallel_worker=True, max_parallel_workers=2, retry_config=each, timeout=3)
        for m, each in zip(SIDES, retry, strict=True)
    )
    assert isinstance(own, ParallelWorker)
    for name in ("name", "rerun_on_resume", "timeout", "max_parallel_workers"):
        assert getattr(own, name) == getattr(theirs, name)
    assert (own.node.timeout, theirs._node.timeout) == (3, 3)


def test_an_event_is_made_of_the_fields_of_google_adks() -> None:
    """GR-5: its node info is an object of another class."""
    theirs = AdkEvent(author="wf", node_path="wf@1/x@2")
    own = Event(author="wf", node_info=theirs.node_info)
    assert own.node_info.path == "wf@1/x@2"
    assert own.to_json() == Event(author="wf", node_path="wf@1/x@2").to_json()
