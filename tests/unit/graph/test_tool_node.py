"""Tools as nodes: the arguments of the call."""

from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.graph.tool_node import ToolNode
from durable_adk.tools import BaseTool, FunctionTool


class Trip(BaseModel):
    """An input."""

    city: str
    days: int = 1


class Bare(BaseTool):
    """Declares nothing, or its parameters in google-genai's form."""

    def __init__(self, *parameters: str) -> None:
        super().__init__(name="bare", description="")
        self.parameters = parameters

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        if not self.parameters:
            return None
        kinds = {name: types.Schema(type=types.Type.STRING) for name in self.parameters}
        schema = types.Schema(
            type=types.Type.OBJECT, properties=kinds, required=[self.parameters[0]]
        )
        return types.FunctionDeclaration(name="bare", parameters=schema)


def one(city: str) -> None: ...
def two(city: str, days: int = 1) -> None: ...
def both(city: str, days: int) -> None: ...
def none() -> None: ...


def said(text: str) -> types.Content:
    """A user's message."""
    return types.Content(parts=[types.Part(text=text)])


ONE, TWO, BOTH, NONE = (FunctionTool(func) for func in (one, two, both, none))


@pytest.mark.parametrize(
    ("tool", "node_input", "arguments"),
    [
        (TWO, {"city": "Oslo", "more": None}, {"city": "Oslo", "more": None}),
        (TWO, Trip(city="Oslo"), {"city": "Oslo", "days": 1}),
        (TWO, None, {"city": "from state"}),
        (TWO, said('{"city": "Oslo"}'), {"city": "Oslo"}),
        (TWO, said("  Oslo "), {"city": "Oslo"}),
        (TWO, said("[1]"), {"city": "[1]"}),
        (TWO, " ", {"city": "from state"}),
        (ONE, 5, {"city": 5}),
        (ONE, [1], {"city": [1]}),
        (ONE, "5", {"city": "5"}),
        (BOTH, {"days": 2}, {"days": 2, "city": "from state"}),
        (BOTH, None, {"city": "from state"}),
        (NONE, None, {}),
        (Bare("x", "y"), "v", {"x": "v"}),
        (Bare(), {"a": 1}, {"a": 1}),
    ],
)
def test_an_input_is_the_arguments(tool: BaseTool, node_input: Any, arguments: Any) -> None:
    """GR-54: a single value is that of the only parameter; the state has what is missing."""
    state = {"city": "from state", "other": 1}
    assert ToolNode(tool=tool).arguments(node_input, state) == arguments


def test_the_input_is_not_changed() -> None:
    """GR-54: nor is that of other nodes."""
    given: dict[str, Any] = {}
    assert ToolNode(tool=ONE).arguments(given, {"city": "x"}) == {"city": "x"}
    assert given == {}


@pytest.mark.parametrize("tool", [BOTH, NONE, Bare()])
def test_a_value_without_a_parameter_fails_the_run(tool: BaseTool) -> None:
    """GR-54: in ADK's words."""
    with pytest.raises(TypeError, match="must be a dictionary of tool arguments or None, but got"):
        ToolNode(tool=tool).arguments(5, {})


def test_a_node_of_a_tool_runs_again() -> None:
    """GR-54: once it is confirmed; it has the tool's name, which must be an identifier."""
    node = ToolNode(tool=ONE)
    assert (node.name, node.rerun_on_resume) == ("one", True)
    with pytest.raises(ValidationError, match="must be a valid Python identifier"):
        ToolNode(tool=FunctionTool(one, name="a.b"))
    assert ToolNode(tool=FunctionTool(one, name="a.b"), name="ab").name == "ab"
