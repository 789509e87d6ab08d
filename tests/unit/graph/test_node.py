"""What becomes a node, with which options; parallel workers."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.auth import AuthConfig
from durable_adk.errors import WorkflowConfigurationError
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.node import Node, build_node
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.tool_node import ToolNode
from durable_adk.tools import FunctionTool
from durable_adk.workflow import RetryConfig, Workflow, node


def work(node_input: int) -> int:
    """Work."""
    return node_input


class City(BaseModel):
    """Data."""

    name: str


class Mine(Node):
    """A subclass."""


class Talk(LlmAgent):
    """An agent of an application."""


RETRY = RetryConfig(max_attempts=2)
SIGN_IN = AuthConfig.model_validate(
    {"authScheme": {"type": "apiKey", "in": "header", "name": "X-Key"}, "credentialKey": "key"}
)


def agent(**fields: Any) -> LlmAgent:
    """An agent with a model."""
    return LlmAgent(**{"name": "agent", "model": "m", **fields})


# ----- kinds


def test_everything_that_a_graph_can_have_is_a_node() -> None:
    """GR-18, GR-19: functions, tools, nodes as they are, and START by its name."""
    assert isinstance(build_node(work), FunctionNode)
    assert isinstance(build_node(FunctionTool(work)), ToolNode)
    base = BaseNode(name="n")
    flow = Workflow(name="wf", edges=[("START", work)])
    sequence = SequentialAgent(name="s", sub_agents=[agent()])
    for known in (base, flow, sequence, START):
        assert build_node(known) is known
    assert build_node("START") is START


@pytest.mark.parametrize("thing", [5, None, "end", [work], BaseNode, FunctionTool])
def test_anything_else_is_no_node(thing: Any) -> None:
    """GR-19: in ADK's words."""
    with pytest.raises(WorkflowConfigurationError, match="Invalid node type"):
        build_node(thing)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("single_turn", "none", False)),
        ({"mode": "single_turn", "include_contents": "default"}, ("single_turn", "default", False)),
        ({"mode": "task"}, ("task", "default", True)),
        ({"mode": "chat"}, ("chat", "default", True)),
    ],
)
def test_an_agent_has_its_mode_in_a_graph(fields: dict[str, Any], expected: Any) -> None:
    """GR-12, GR-19: the graph has a copy, and the agent stays as it was."""
    original = agent(**fields)
    before = original.model_dump()
    found = build_node(build_node(original))
    assert isinstance(found, LlmAgent)
    assert (found.mode, found.include_contents, found.wait_for_output) == expected
    assert found.rerun_on_resume
    assert found is not original
    assert original.model_dump() == before


def test_a_clone_has_not_chosen_its_contents() -> None:
    """GR-19: an agent that was cloned gets no history either."""
    found = build_node(agent().clone({"name": "other"}))
    assert isinstance(found, LlmAgent)
    assert (found.name, found.include_contents) == ("other", "none")
    chosen = build_node(agent(include_contents="default").clone())
    assert isinstance(chosen, LlmAgent)
    assert chosen.include_contents == "default"


def test_a_sub_agent_chats() -> None:
    """GR-19: as ever, with its parent."""
    child = agent()
    boss = agent(name="boss", sub_agents=[child])
    found = build_node(child)
    assert isinstance(found, LlmAgent)
    assert (found.mode, found.parent_agent) == ("chat", boss)
    assert boss.sub_agents == [child]
    assert child.mode is None


def test_an_agent_may_be_a_parallel_worker() -> None:
    """GR-61: each item is a run of the agent."""
    worker = build_node(agent(parallel_worker=True, timeout=5))
    assert isinstance(worker, ParallelWorker)
    assert (worker.name, worker.timeout, worker.node.timeout) == ("agent", None, 5.0)
    assert isinstance(worker.node, LlmAgent)
    assert not worker.node.parallel_worker
    assert isinstance(build_node(Talk(name="t", model="m")), Talk)


# ----- options


@pytest.mark.parametrize(
    "thing",
    [
        work,
        FunctionNode(func=work),
        agent(),
        BaseNode(name="n"),
        FunctionTool(work),
        Mine(name="m"),
    ],
)
def test_a_node_is_copied_with_other_options(thing: Any) -> None:
    """GR-21: name, retry and timeout of every kind."""
    made = node(thing, name="x", retry_config=RETRY, timeout=3)
    assert (made.name, made.retry_config, made.timeout) == ("x", RETRY, 3.0)
    if isinstance(thing, BaseNode):
        assert (thing.name == "x", thing.retry_config, thing.timeout) == (False, None, None)


def test_node_is_a_decorator_and_makes_one() -> None:
    """GR-21: with the function's name and text."""

    @node
    def bare(node_input: int) -> int:
        """Text."""
        return node_input

    @node(name="named", rerun_on_resume=True)
    def other(node_input: int) -> int:
        return node_input

    @node(parallel_worker=True, max_parallel_workers=2, retry_config=RETRY)
    def each(node_input: int) -> int:
        return node_input

    assert isinstance(bare, FunctionNode)
    assert (bare.name, bare.description, bare.rerun_on_resume) == ("bare", "Text.", False)
    assert (other.name, other.rerun_on_resume) == ("named", True)
    assert isinstance(each, ParallelWorker)
    assert (each.name, each.max_parallel_workers, each.retry_config) == ("each", 2, None)
    assert (each.node.name, each.node.retry_config) == ("each", RETRY)


def test_what_a_person_decides_makes_a_node_run_again() -> None:
    """GR-38: unless it is told otherwise, which is refused."""
    for made in (
        node(work, require_confirmation=True),
        node(work, auth_config=SIGN_IN),
        node(FunctionNode(func=work), require_confirmation=lambda: True),
        node(FunctionNode(func=work), auth_config=SIGN_IN),
    ):
        assert made.rerun_on_resume


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: node(work, max_parallel_workers=2), "can only be set when parallel_worker is"),
        (
            lambda: node(work, parallel_worker=True, max_parallel_workers=0),
            "max_parallel_workers must be greater than or equal to 1.",
        ),
        (lambda: Mine(name="m", max_parallel_workers=2), "can only be set when parallel_worker is"),
        (
            lambda: Mine(name="m", parallel_worker=True, max_parallel_workers=0),
            "max_parallel_workers must be greater than or equal to 1.",
        ),
        (
            lambda: node(agent(), require_confirmation=True),
            "require_confirmation is only supported on FunctionNode, got LlmAgent.",
        ),
        (
            lambda: node(agent(), auth_config=SIGN_IN),
            "auth_config is only supported on FunctionNode, got LlmAgent.",
        ),
        (
            lambda: node(FunctionTool(work), require_confirmation=True),
            "require_confirmation is only supported on FunctionNode, got FunctionTool.",
        ),
        (
            lambda: node(work, require_confirmation=True, rerun_on_resume=False),
            "FunctionNode with require_confirmation requires rerun_on_resume=True.",
        ),
        (
            lambda: node(node(work, auth_config=SIGN_IN), rerun_on_resume=False),
            "FunctionNode with auth_config requires rerun_on_resume=True.",
        ),
        (
            lambda: node(BaseNode(name="n"), parameter_binding="node_input"),
            "parameter_binding is only supported for callable functions, got BaseNode.",
        ),
        (lambda: node(FunctionTool(work), rerun_on_resume=False), "always has rerun_on_resume"),
        (lambda: node("START", parallel_worker=True), "ParallelWorker cannot wrap a START node."),
        (lambda: node("START", name="begin"), "START takes no options, got name."),
        (lambda: node(BaseNode(name="n"), name="a b"), "Node name 'a b' must be a valid Python"),
        (lambda: node(work, names="x"), "did you mean 'name'"),
        (lambda: node(agent(), names="x"), "nonexistent fields in LlmAgent"),
    ],
)
def test_options_without_meaning_are_refused(make: Callable[[], Any], says: str) -> None:
    """GR-10, GR-13, GR-21, GR-37, GR-38."""
    with pytest.raises((ValueError, ValidationError), match=re.escape(says)):
        make()


# ----- parallel workers


def test_a_subclass_of_node_may_be_a_parallel_worker() -> None:
    """GR-22: each item is a run of the node."""
    worker = build_node(Mine(name="m", parallel_worker=True, max_parallel_workers=3, timeout=2))
    assert isinstance(worker, ParallelWorker)
    assert (worker.name, worker.max_parallel_workers, worker.timeout) == ("m", 3, 2.0)
    assert isinstance(worker.node, Mine)
    assert not worker.node.parallel_worker
    assert build_node(worker.node) is worker.node
    assert worker.static_children() == [worker.node]
    with pytest.raises(ValidationError, match="frozen"):
        worker.node.parallel_worker = True


def said(*texts: str) -> types.Content:
    """A user's message."""
    return types.Content(parts=[types.Part(text=text) for text in texts])


def takes(kind: Any) -> FunctionNode:
    """A node whose input has this annotation."""

    def function(node_input): ...

    if kind is not None:
        function.__annotations__["node_input"] = kind
    return FunctionNode(func=function)


PICTURE = types.Content(parts=[types.Part(inline_data=types.Blob(data=b"x", mime_type="a/b"))])


@pytest.mark.parametrize(
    ("kind", "node_input", "items"),
    [
        (None, [1, [2]], [1, [2]]),
        (None, [], []),
        (None, {"a": 1}, [{"a": 1}]),
        (None, (1, 2), [(1, 2)]),
        (None, None, [None]),
        (None, "[1]", ["[1]"]),
        (None, said("[1, ", "2]"), [1, 2]),
        (None, said("[]"), []),
        (None, said("hello"), ["hello"]),
        (None, said("7"), [7]),
        (str, said("7"), ["7"]),
        (str, said('["a", "b"]'), ["a", "b"]),
        (City, said('[{"name": "Oslo"}]'), [{"name": "Oslo"}]),
        (Any, said("[1]"), [1]),
        (types.Content, said("[1]"), [said("[1]")]),
        (None, PICTURE, [PICTURE]),
    ],
)
def test_the_items_of_a_parallel_worker(kind: Any, node_input: Any, items: list[Any]) -> None:
    """GR-59: those of a list, also one that a content says; anything else is one item."""
    assert ParallelWorker(node=takes(kind)).items(node_input) == items
