"""Functions as nodes: their names, schemas and parameters."""

import functools
import re
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from google.genai import types
from pydantic import BaseModel, Field, ValidationError

from durable_adk import Context
from durable_adk.errors import WorkflowConfigurationError, WorkflowDataError
from durable_adk.events import Event, RequestInput
from durable_adk.graph.binding import read_node_parameters
from durable_adk.graph.function_node import FunctionNode, event_of
from durable_adk.tools import BaseTool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Container


class City(BaseModel):
    """Data."""

    name: str
    size: int = 0


class Caller:
    """A callable object with a method."""

    def __call__(self, node_input: str) -> str:
        """Call."""
        return node_input

    def method(self, node_input: str, k: int = 1) -> str:
        """Say it.

        Twice.
        """
        return node_input * k


def content(*texts: str) -> types.Content:
    """A user's message."""
    return types.Content(role="user", parts=[types.Part(text=text) for text in texts])


def bound(
    func: Callable[..., Any], node_input: Any = None, binding: Any = "state", **state: Any
) -> dict[str, Any]:
    """The arguments that a run gives to a function, by name."""
    parameters = read_node_parameters(func, "f")
    found = parameters.bind(ctx="CTX", state=state, node_input=node_input, binding=binding)
    return dict(found.arguments)


def annotated(x: Context, ctx: int = 5) -> None: ...
def of_a_tool(some: "ToolContext | None") -> None: ...
def plain(ctx, node_input, k): ...
def varying(*args: int, node_input: int, **kwargs: int) -> None: ...
def positional(node_input: int, /, k: int, *, last: int = 3) -> None: ...


@pytest.mark.parametrize(
    ("func", "state", "expected"),
    [
        (annotated, {}, {"x": "CTX", "ctx": 5}),
        (annotated, {"ctx": "7"}, {"x": "CTX", "ctx": 7}),
        (of_a_tool, {}, {"some": "CTX"}),
        (plain, {"k": [1], "node_input": 2}, {"ctx": "CTX", "node_input": "4", "k": [1]}),
        (varying, {"args": 1, "kwargs": 2}, {"node_input": 4, "kwargs": {}}),
        (positional, {"k": "2"}, {"node_input": 4, "k": 2, "last": 3}),
        (Caller().method, {"k": 2}, {"node_input": "4", "k": 2}),
        (functools.partial(positional, last=9), {"k": 1}, {"node_input": 4, "k": 1, "last": 9}),
    ],
)
def test_parameters_come_from_context_input_and_state(
    func: Any, state: dict[str, Any], expected: dict[str, Any]
) -> None:
    """GR-44: the annotated context, or `ctx`; `node_input`; and the state's values or defaults."""
    parameters = read_node_parameters(func, "f")
    found = parameters.bind(ctx="CTX", state=state, node_input="4")
    assert found.arguments == expected
    assert func(*found.args, **found.kwargs) is not ...


def test_a_value_that_is_nowhere_fails_the_run() -> None:
    """GR-44: the message names parameter and function."""
    with pytest.raises(WorkflowDataError) as caught:
        bound(positional, 1)
    assert str(caught.value) == (
        'Missing value for parameter "k" of function "f". It was not found in state and has no '
        "default value."
    )


def of_input(city: City, ctx: Any, n: int = 1, **rest: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"city": {"name": "Oslo"}, "n": "2", "more": [1]},
            {"city": City(name="Oslo"), "ctx": "CTX", "n": 2, "rest": {"more": [1]}},
        ),
        ({"city": City(name="x")}, {"city": City(name="x"), "ctx": "CTX", "n": 1, "rest": {}}),
    ],
)
def test_parameters_may_come_from_the_input(given: Any, expected: dict[str, Any]) -> None:
    """GR-45: from a dict or a model, and the state is not looked at."""
    assert bound(of_input, given, "node_input", n=9) == expected

    class Whole(BaseModel):
        """The input as a model."""

        city: City

    if isinstance(given["city"], City):
        assert bound(of_input, Whole(city=given["city"]), "node_input") == expected
    with pytest.raises(WorkflowDataError, match="not found in node_input"):
        bound(of_input, content("x"), "node_input", city={"name": "x"})


def takes(kind: Any) -> Callable[..., Any]:
    """A function whose input has this annotation."""

    def function(node_input): ...

    function.__annotations__["node_input"] = kind
    return function


PICTURE = types.Content(parts=[types.Part(inline_data=types.Blob(data=b"x", mime_type="a/b"))])


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (int, "41", 41),
        (City, {"name": "Oslo"}, City(name="Oslo")),
        (list[City], [{"name": "Oslo"}], [City(name="Oslo")]),
        (dict[str, City], {"a": {"name": "b"}}, {"a": City(name="b")}),
        (City | None, None, None),
        (Annotated[int, Field(gt=100)], 5, 5),
        (str, content("a", "b"), "ab"),
        (str | None, content("41"), "41"),
        (City, content('{"name": "Oslo"}'), City(name="Oslo")),
        (int, content("41"), 41),
        (list[int], content("[1, 2]"), [1, 2]),
        (int | str, content("41"), 41),
        (Any, content("41"), content("41")),
        (types.Content, content("41"), content("41")),
        (types.Content | None, content("41"), content("41")),
        (str, PICTURE, ""),
    ],
)
def test_a_value_is_converted_to_its_annotation(kind: Any, given: Any, expected: Any) -> None:
    """GR-46: by pydantic; a content is its text, or what the text says as JSON."""
    (value,) = bound(takes(kind), given).values()
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("kind", "given"), [(int, "x"), (City, {}), (str, 5), (int, content("x"))])
def test_a_value_that_does_not_fit_fails_the_run(kind: Any, given: Any) -> None:
    """GR-46."""
    with pytest.raises(ValidationError):
        bound(takes(kind), given)


def test_without_an_annotation_a_content_stays() -> None:
    """GR-46: and a thought is no text."""
    assert bound(plain, PICTURE, k=1)["node_input"] is PICTURE
    thought = types.Content(parts=[types.Part(text="hm", thought=True), types.Part(text="yes")])
    assert bound(takes(str), thought) == {"node_input": "yes"}


def unresolved(node_input: "Container[int]", k: int) -> None: ...


def test_an_annotation_for_the_type_checker_alone_is_left_out() -> None:
    """GR-46: the others are still converted to."""
    assert bound(unresolved, "x", k="3") == {"node_input": "x", "k": 3}


def gives() -> City: ...
def yields() -> Generator[City, None, None]: ...
async def yields_async(node_input: City) -> AsyncGenerator[City, None]:
    yield City(name="x")


def gives_event() -> Event: ...
def gives_list(node_input: list[City]) -> list[City]: ...


@pytest.mark.parametrize(
    ("func", "taken", "given"),
    [
        (gives, None, City),
        (yields, None, City),
        (yields_async, City, City),
        (gives_event, None, None),
        (gives_list, None, None),
    ],
)
def test_models_in_annotations_are_schemas(func: Any, taken: Any, given: Any) -> None:
    """GR-47: of the input and the output, and no other types."""
    node = FunctionNode(func=func)
    assert (node.input_schema, node.output_schema) == (taken, given)


def test_a_function_bound_to_its_input_describes_it() -> None:
    """GR-45: as JSON schemas, without the context."""

    def order(ctx: Context, city: str, n: int = 1) -> int: ...

    node = FunctionNode(func=order, parameter_binding="node_input")
    assert node.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "n": {"type": "integer", "default": 1}},
        "required": ["city"],
    }
    assert node.output_schema == {"type": "integer"}


def test_a_node_has_the_name_and_the_text_of_its_function() -> None:
    """GR-23, GR-43: bound methods and partials have those of the function."""
    node = FunctionNode(func=Caller().method)
    assert (node.name, node.description) == ("method", "Say it.\n\nTwice.")
    assert FunctionNode(func=functools.partial(plain, k=1)).name == "plain"
    assert FunctionNode(func=Caller(), name="caller").name == "caller"
    assert not FunctionNode(func=gives).is_generator
    assert FunctionNode(func=yields_async).is_generator


class Tool(BaseTool):
    """A tool is callable, and no function."""

    def __init__(self) -> None:
        super().__init__(name="tool", description="")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FunctionNode(func=5), "Function must be callable."),
        (lambda: FunctionNode(func=Tool()), "Function must be callable."),
        (lambda: FunctionNode(func=Caller()), "FunctionNode must have a name."),
        (lambda: FunctionNode(func=lambda: 1), "Node name '<lambda>' must be a valid Python ident"),
        (lambda: FunctionNode(func=plain, name="a b"), "Node name 'a b' must be a valid Python"),
        (lambda: FunctionNode(func=plain, retry=1), "did you mean 'retry_config'"),
        (
            lambda: FunctionNode(func=plain, require_confirmation=True),
            "FunctionNode with require_confirmation requires rerun_on_resume=True.",
        ),
        (lambda: FunctionNode(func=plain, timeout=0), "greater than 0"),
        (lambda: FunctionNode(func=plain, parameter_binding="ctx"), "parameter_binding"),
    ],
)
def test_what_is_no_function_is_refused(make: Callable[[], Any], says: str) -> None:
    """GR-13, GR-38, GR-39: and keywords that do not exist."""
    with pytest.raises((WorkflowConfigurationError, ValidationError), match=re.escape(says)):
        make()


def test_a_result_is_an_event() -> None:
    """GR-48: events and questions as they are, contents without output, the rest as output."""
    event, request = Event(route="x"), RequestInput()
    assert event_of(event) is event
    assert event_of(request) is request
    assert event_of(None) is None
    said = event_of(types.Content(parts=[types.Part(text="x")]))
    assert isinstance(said, Event)
    assert (said.output, said.text, said.content and said.content.role) == (None, "x", "user")
    for value in (0, "", [1], {"a": None}):
        made = event_of(value)
        assert isinstance(made, Event)
        assert made.output == value
