"""Answers of a certain shape (AGT-19, AGT-22)."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from durable_adk.errors import OutputSchemaError
from durable_adk.events import EventActions
from durable_adk.tools.output_schema import (
    output_from_args,
    output_key_of,
    output_parameters,
    parse_output,
)
from durable_adk.tools.set_model_response_tool import SetModelResponseTool


class Town(BaseModel):
    """A town."""

    name: str
    people: int = 1
    mayor: str | None = None


class Trip(BaseModel):
    """Something with a definition of its own."""

    towns: list[Town]


ROME = {"name": "Rome", "people": 1}
PLAIN = {"type": "object", "properties": {"name": {"type": "string"}}}
CASES = [
    (Town, {"name": "Rome"}, ROME),
    (Trip, {"towns": [{"name": "Rome"}]}, {"towns": [ROME]}),
    (list[Town], {"items": [{"name": "Rome"}]}, [ROME]),
    (list[str], {"response": ["Rome"]}, ["Rome"]),
    (dict[str, int], {"response": {"Rome": 3}}, {"Rome": 3}),
    (int, {"response": "3"}, 3),
    (PLAIN, {"response": {"any": 1}}, {"any": 1}),
    (types.Schema(type=types.Type.INTEGER), {"response": 3}, 3),
]


def context() -> Any:
    """What a tool context has to do with answers."""
    return SimpleNamespace(actions=EventActions())


@pytest.mark.parametrize(("schema", "args", "value"), CASES)
async def test_a_fitting_answer_is_taken(schema: Any, args: dict[str, Any], value: Any) -> None:
    """AGT-19, AGT-21: as JSON without nulls; the same value comes of the answer as text."""
    here = context()
    assert await SetModelResponseTool(schema).run_async(args=args, tool_context=here) == value
    assert here.actions.set_model_response == value
    assert parse_output(schema, json.dumps(value)) == value
    assert parse_output(schema, f" ```json\n{json.dumps(value)}\n```\n") == value


@pytest.mark.parametrize(("schema", "args", "value"), CASES)
def test_the_parameters_declare_what_is_taken(schema: Any, args: Any, value: Any) -> None:
    """AGT-19: an object whose required names the arguments have, and whose references resolve."""
    declared = output_parameters(schema, key=output_key_of(schema))
    assert set(declared["required"]) <= set(args) <= set(declared["properties"])
    references = json.dumps(declared).count("#/$defs/Town")
    assert bool(references) is ("$defs" in declared)
    assert "$defs" not in json.dumps(declared["properties"]).replace("#/$defs/", "")


def test_declaring_changes_no_schema() -> None:
    """AGT-18: the user's dict stays as it is."""
    schema = {"$defs": {"A": {"type": "string"}}, "type": "array"}
    output_parameters(schema, key=output_key_of(schema))
    assert set(schema) == {"$defs", "type"}


@pytest.mark.parametrize(
    ("schema", "args", "problem"),
    [
        (Town, {}, "name: Field required"),
        (Town, {"name": "Rome", "people": "many"}, "people: "),
        (list[Town], {}, "lacks the argument 'items'"),
        (int, {"response": "x"}, "output: "),
    ],
)
async def test_another_answer_goes_back(schema: Any, args: dict[str, Any], problem: str) -> None:
    """AGT-19: named, so that the model can give a better one; nothing is taken."""
    here = context()
    with pytest.raises(OutputSchemaError, match=problem):
        output_from_args(schema, args, key=output_key_of(schema))
    told = await SetModelResponseTool(schema).run_async(args=args, tool_context=here)
    assert problem in told["error"]
    assert here.actions.set_model_response is None


def test_the_class_is_not_told_to_the_model() -> None:
    """As in ADK: its docstring is for its readers; those of parts of it are kept."""
    assert "description" not in output_parameters(Town, key=None)
    assert output_parameters(Trip, key=None)["$defs"]["Town"]["description"] == "A town."
