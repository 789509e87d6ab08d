"""A workflow: its fields, and the graph that it is made with."""

from typing import Any

import pytest
from pydantic import ValidationError

import durable_adk
from durable_adk.agents import LlmAgent
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.workflow import Graph
from durable_adk.workflow import Workflow, _errors, node


def a(node_input: Any) -> None: ...
def b(node_input: Any) -> None: ...


def test_a_workflow_is_a_node_with_a_graph() -> None:
    """GR-8, GR-10, GR-12: made and checked with the object."""
    agent = LlmAgent(name="agent", model="m")
    flow = Workflow(name="wf", edges=[("START", a, agent, {"again": a, "done": b})])
    assert isinstance(flow, BaseNode)
    assert isinstance(agent, BaseNode)
    assert flow.graph is not None
    assert flow.rerun_on_resume
    assert [one.name for one in flow.static_children()] == ["a", "agent", "b"]
    assert flow.static_children()[1] is not agent
    assert flow.graph.terminal_nodes == ["b"]
    outer = Workflow(name="outer", edges=[("START", flow, b)], max_concurrency=2)
    assert outer.static_children()[0] is flow
    assert outer.max_concurrency == 2


def test_a_workflow_without_edges_has_no_graph() -> None:
    """GR-10: it does nothing."""
    flow = Workflow(name="wf")
    assert (flow.graph, flow.static_children(), flow.edges) == (None, [], [])


def test_a_graph_may_be_given() -> None:
    """GR-10: instead of edges."""
    graph = Graph.from_edge_items([(START, a)])
    assert Workflow(name="wf", graph=graph).graph is graph


def test_a_copy_has_the_same_graph() -> None:
    """GR-21: under another name."""
    flow = Workflow(name="wf", edges=[("START", a)])
    copy = node(flow, name="other", timeout=5)
    assert isinstance(copy, Workflow)
    assert (copy.name, copy.timeout, copy.graph) == ("other", 5.0, flow.graph)
    assert flow.name == "wf"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"edge": []}, "Workflow has no keyword 'edge'; did you mean 'edges'?"),
        ({"name": "a b"}, "Node name 'a b' must be a valid Python identifier."),
        ({"name": "user"}, "cannot be named 'user'"),
        ({"edges": "START"}, "edges is a list of edges and chains, not a str."),
        ({"edges": [("START", a, {})]}, "Routing map must not be empty."),
        ({"graph": 5}, "Graph"),
    ],
)
def test_what_is_no_workflow_is_refused(fields: dict[str, Any], says: str) -> None:
    """GR-10, GR-13, GR-36."""
    with pytest.raises(ValidationError) as caught:
        Workflow(**{"name": "wf", **fields})
    assert says in str(caught.value)


def test_only_keywords_are_taken() -> None:
    """GR-10."""
    with pytest.raises(TypeError):
        Workflow("wf")  # pyright: ignore[reportCallIssue]


def test_adks_names_are_where_adk_has_them() -> None:
    """GR-1, GR-3: at the root, in `workflow`, and the errors also in its private module."""
    assert durable_adk.Workflow is Workflow
    assert issubclass(_errors.NodeInterruptedError, BaseException)
    assert not issubclass(_errors.NodeInterruptedError, Exception)
    error = _errors.NodeTimeoutError(node_name="sl", timeout=0.05)
    assert str(error) == "Node 'sl' timed out after 0.05 seconds."
    assert (error.node_name, error.timeout) == ("sl", 0.05)
    for kind in ("GraphValidationError", "WorkflowConfigurationError", "WorkflowDataError"):
        assert issubclass(getattr(_errors, kind), ValueError)
    assert issubclass(_errors.WorkflowInvariantError, RuntimeError)


def test_a_failed_child_has_its_error() -> None:
    """GR-3: with the status and details of the library that raised it."""

    class HttpError(Exception):
        """As google-genai raises them."""

        code = 503
        response = type("Response", (), {"text": "busy"})

    cause = HttpError()
    error = _errors.DynamicNodeFailError(
        message="Dynamic node x failed", error=cause, error_node_path="wf@1/x@1"
    )
    assert (error.error, error.error_node_path) == (cause, "wf@1/x@1")
    assert (error.status_code, error.details) == (503, "busy")
    assert str(error) == "Dynamic node x failed"
