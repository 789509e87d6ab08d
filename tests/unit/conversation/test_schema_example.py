"""Examples of answers, for the commands that a person is shown."""

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from durable_adk.conversation.client_requests import shown_request
from durable_adk.conversation.nodes.answers import read_answer
from durable_adk.conversation.nodes.schema_example import schema_example
from durable_adk.events.request_input import REQUEST_INPUT, RequestInput, request_input_event


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    """A part of an order."""

    product: str = Field(min_length=5)
    number: int = Field(gt=0, le=9)


class Order(BaseModel):
    """An object with objects in it, which pydantic writes with references."""

    lines: list[Line]
    colour: Colour
    due: date
    ok: bool
    note: str | None = None


class Tree(BaseModel):
    """An object that may contain itself, which pydantic writes as a reference."""

    name: str
    children: "list[Tree]"


class Result(BaseModel):
    """An object whose only key is that of an answer."""

    result: int


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (bool, {"result": True}),
        (str, {"result": "..."}),
        (int, {"result": 1}),
        (Annotated[int, Field(ge=10, le=20, multiple_of=4)], {"result": 12}),
        (Annotated[float, Field(gt=0, lt=0.5)], {"result": 0.25}),
        (Literal["yes", "no"], {"result": "yes"}),
        (Colour, {"result": "red"}),
        (list[str], {"result": ["..."]}),
        (tuple[int, str], {"result": [1, "..."]}),
        (Annotated[list[bool], Field(min_length=2)], {"result": [True, True]}),
        (int | None, {"result": 1}),
        (Result, {"result": {"result": 1}}),
        (
            Order,
            {
                "lines": [{"product": ".....", "number": 1}],
                "colour": "red",
                "due": "2026-01-31",
                "ok": True,
                "note": "...",
            },
        ),
        (Tree, {"result": {"name": "...", "children": []}}),
        (dict[str, Any], {}),
        ({"type": "object", "properties": {"a": {"default": 7}}}, {"a": 7}),
        ({"allOf": [{"type": "integer", "minimum": 3}]}, {"result": 3}),
    ],
)
def test_an_example_of_an_answer_is_accepted(asked: Any, answer: dict[str, Any]) -> None:
    """A person who only presses Enter is told by nobody that it does not fit."""
    event = request_input_event(RequestInput(interrupt_id="q", response_schema=asked))
    (call,) = event.get_function_calls()
    args = call.args or {}
    schema = shown_request(REQUEST_INPUT, args)["responseSchema"]
    example = schema_example(schema)
    assert example == answer
    assert read_answer(example, args["response_schema"], "The answer") is not None


def test_a_schema_that_contains_itself_ends() -> None:
    """Whoever wrote it."""
    schema: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert schema_example(schema) == "..."
    nested = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert isinstance(schema_example(nested), dict)
    assert schema_example({"$ref": "elsewhere.json"}) == "..."
