"""What every node has, and what its code yields."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from durable_adk import Context
from durable_adk.errors import AgentDefinitionError, StateValueError, WorkflowConfigurationError
from durable_adk.events import Event, RequestInput
from durable_adk.graph.base_node import START, BaseNode, Edge
from durable_adk.graph.join_node import JoinNode
from durable_adk.graph.node import Node


class City(BaseModel):
    """Data."""

    name: str
    size: int | None = None


class Says(BaseNode):
    """Yields what it is given."""

    items: list[Any]
    inputs: list[Any] = Field(default_factory=list)

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        self.inputs.append(node_input)
        for item in self.items:
            yield item


async def events(node: BaseNode, node_input: Any = None) -> list[Event]:
    """The events of a run."""
    unused: Any = None
    return [event async for event in node.run(ctx=unused, node_input=node_input)]


async def test_what_a_node_yields_are_events() -> None:
    """GR-20: None is left out, and a question is a call."""
    given = Event(message="hm", route="x")
    found = await events(Says(name="n", items=[None, given, 5, RequestInput(interrupt_id="q")]))
    assert found[0] is given
    assert [event.output for event in found] == [None, 5, None]
    assert found[2].long_running_tool_ids == {"q"}


@pytest.mark.parametrize(
    ("schema", "output", "stored"),
    [
        (City, City(name="Oslo"), {"name": "Oslo"}),
        (City, {"name": "Oslo"}, {"name": "Oslo"}),
        (list[City], [City(name="Oslo")], [{"name": "Oslo"}]),
        (int, "5", 5),
        ({"type": "integer"}, "five", "five"),
        (None, City(name="Oslo"), {"name": "Oslo", "size": None}),
        (None, (1, [2]), [1, [2]]),
    ],
)
async def test_an_output_is_what_the_store_will_have(schema: Any, output: Any, stored: Any) -> None:
    """GR-50: plain JSON; a model of the schema without the fields that are None."""
    for item in (output, Event(output=output)):
        (event,) = await events(Says(name="n", items=[item], output_schema=schema))
        assert event.output == stored
        assert type(event.output) is type(stored)


async def test_an_output_that_is_not_json_fails_the_run() -> None:
    """GR-50: naming type and place."""
    with pytest.raises(StateValueError, match=r"node 'n'\['a'\]\[0\] is a object"):
        await events(Says(name="n", items=[{"a": [object()]}]))
    with pytest.raises(ValidationError):
        await events(Says(name="n", items=["x"], output_schema=int))


async def test_an_input_is_converted_by_its_schema() -> None:
    """GR-20: also what a content says."""
    said = types.Content(parts=[types.Part(text='{"name": "Oslo"}')])
    node = Says(name="n", items=[], input_schema=City, inputs=[])
    for given in (said, {"name": "Oslo"}, City(name="Oslo"), None):
        await events(node, given)
    assert node.inputs == [{"name": "Oslo"}] * 3 + [None]
    with pytest.raises(ValidationError):
        await events(node, {"name": 5})


async def test_a_node_without_code_says_what_is_missing() -> None:
    """GR-20, GR-22: START has none either."""
    for node, method in ((START, "_run_impl"), (Node(name="n"), "run_node_impl")):
        with pytest.raises(AgentDefinitionError, match=method):
            await events(node)


async def test_a_join_checks_each_output() -> None:
    """GR-57: and passes them on in their order."""
    (event,) = await events(JoinNode(name="j", input_schema=City), {"b": {"name": "x"}, "a": None})
    assert list(event.output.items()) == [("b", {"name": "x"}), ("a", None)]
    assert JoinNode(name="j").requires_all_predecessors
    with pytest.raises(ValidationError):
        await events(JoinNode(name="j", input_schema=City), {"b": 5})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "a b"}, "Node name 'a b' must be a valid Python identifier."),
        ({"name": ""}, "Node name '' must be a valid Python identifier."),
        ({"rerun": True}, "BaseNode has no keyword 'rerun'; did you mean 'rerun_on_resume'?"),
        ({"zzz": 1}, "it takes description, input_schema"),
        ({"input_schema": 5}, "input_schema 5 is no schema"),
        ({"output_schema": "City"}, "output_schema 'City' is no schema"),
        ({"state_schema": 5}, "state_schema"),
        ({"timeout": -1}, "greater than 0"),
        ({"timeout": float("nan")}, "finite"),
    ],
)
def test_what_a_node_cannot_have_is_refused(fields: dict[str, Any], says: str) -> None:
    """GR-10, GR-13, GR-20: an unknown keyword with the nearest name."""
    with pytest.raises(ValidationError) as caught:
        BaseNode(**{"name": "n", **fields})
    assert says in str(caught.value)


def test_a_subclass_may_take_any_keyword() -> None:
    """GR-10: if it says so."""

    class Loose(BaseNode):
        """Takes anything."""

        model_config = ConfigDict(extra="ignore")

    assert Loose(name="n", zzz=1).name == "n"


def test_a_copy_has_other_values() -> None:
    """GR-21: validated, and the original stays."""
    node = Says(name="n", items=[1])
    copy = node.with_changes(name="m", timeout=5)
    assert (copy.name, copy.timeout, copy.items) == ("m", 5.0, [1])
    assert (node.name, node.timeout) == ("n", None)
    with pytest.raises(ValidationError, match="must be a valid Python identifier"):
        node.with_changes(name="a b")
    with pytest.raises(WorkflowConfigurationError, match="did you mean 'timeout'"):
        node.with_changes(timeouts=5)


def test_an_edge_is_written_by_place_or_by_name() -> None:
    """GR-14: with a route or several, and no other keyword."""
    node = BaseNode(name="n")
    assert Edge(START, node, "x") == Edge(from_node=START, to_node=node, route="x")
    assert Edge(START, node).from_node is START
    assert [
        type(route) for route in (Edge(START, node, True).route, Edge(START, node, 1).route)
    ] == [
        bool,
        int,
    ]
    with pytest.raises(ValidationError, match="did you mean 'route'"):
        Edge(START, node, routes=["x"])
    with pytest.raises(ValidationError):
        Edge(START, node, 1.5)
