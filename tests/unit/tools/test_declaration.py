"""The JSON schema that a function's parameters are declared with."""

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from google.genai import types
from pydantic import BaseModel, Field

from durable_adk.tools import FunctionTool


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Point(BaseModel):
    """A point."""

    title: str
    x: float = Field(default=0, description="To the right.")


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


@dataclass
class Box:
    corner: Point
    size: Size = Size.SMALL


def schema(func) -> Any:
    return FunctionTool(func).get_declaration().parameters_json_schema


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(item)


def test_json_types():
    """Python's types become JSON's, required and defaults follow the signature (TOL-12)."""

    def book(  # noqa: PLR0917 # one of each type
        city: str,
        nights: int,
        tags: list[str],
        price: float = 1.5,
        vip: bool = False,
        kind: Literal["a", "b"] = "a",
        extra: dict[str, int] | None = None,
        anything=None,
    ): ...

    assert schema(book) == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "price": {"type": "number", "default": 1.5},
            "vip": {"type": "boolean", "default": False},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "extra": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "integer"}},
                    {"type": "null"},
                ]
            },
            "anything": {},
        },
        "required": ["city", "nights", "tags"],
    }


def test_function_without_parameters_declares_none():
    """An empty object schema, which Gemini dislikes, is never sent."""

    def ping(tool_context): ...

    assert FunctionTool(ping).get_declaration() == types.FunctionDeclaration(
        name="ping", description="", parameters_json_schema=None
    )


def test_field_descriptions_reach_the_model():
    """Annotated[..., Field(description=...)] describes one parameter."""

    def move(to: Annotated[Point, Field(description="Where to.")]): ...

    assert schema(move)["properties"]["to"] == {
        "type": "object",
        "description": "Where to.",
        "properties": {
            "title": {"type": "string"},
            "x": {"type": "number", "default": 0, "description": "To the right."},
        },
        "required": ["title"],
    }


def test_references_are_inlined():
    """A schema without recursion has no references, and a property may be called `title`."""

    def pack(boxes: list[Box], spare: Box | None, one: Literal["x"]): ...

    declared = schema(pack)
    assert "$ref" not in json.dumps(declared)
    assert "$defs" not in declared
    assert not any("const" in node for node in nodes(declared))
    box = declared["properties"]["boxes"]["items"]["properties"]
    assert set(box["corner"]["properties"]) == {"title", "x"}
    assert box["size"]["enum"] == ["small", "large"]


def test_recursive_types_keep_their_definition():
    """Only a type that contains itself is referred to, with nothing beside the reference."""

    def grow(tree: Tree, at: Annotated[Tree | None, Field(description="Where.")], box: Box): ...

    declared = schema(grow)
    assert list(declared["$defs"]) == ["Tree"]
    references = [node for node in nodes(declared) if "$ref" in node]
    assert references
    assert all(node == {"$ref": "#/$defs/Tree"} for node in references)
    assert "$ref" not in json.dumps(declared["properties"]["box"])


def test_types_of_one_name_are_told_apart():
    """Two classes with the same name keep their own fields."""

    def shift(ours: Point, theirs: make_point()): ...  # pyright: ignore[reportInvalidTypeForm]

    properties = schema(shift)["properties"]
    assert set(properties["ours"]["properties"]) == {"title", "x"}
    assert set(properties["theirs"]["properties"]) == {"latitude"}


def make_point() -> type[BaseModel]:
    class Point(BaseModel):
        latitude: float

    return Point


def test_default_that_json_cannot_hold_is_left_out():
    """The parameter stays optional, the model just does not see the default."""

    def wait(until: float = float("inf"), size: Size = Size.LARGE): ...

    declared = schema(wait)
    assert "default" not in declared["properties"]["until"]
    assert declared["properties"]["size"]["default"] == "large"
    assert "required" not in declared


def test_google_genai_sends_the_schema_unchanged():
    """The declaration survives the SDK's own JSON, as the request body has it."""

    def grow(tree: Tree, size: Size): ...

    tool = FunctionTool(grow)
    body = tool.get_declaration().model_dump(mode="json", by_alias=True, exclude_none=True)
    assert body == {
        "name": "grow",
        "description": "",
        "parametersJsonSchema": tool.get_declaration().parameters_json_schema,
    }
