"""A node's question to a person, and its answer."""

from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.events import RequestInput
from durable_adk.events.request_input import create_request_input_response, request_input_event


class Trip(BaseModel):
    """A type of answers."""

    city: str


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (None, None),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Trip, Trip.model_json_schema()),
        ({"type": "integer"}, {"type": "integer"}),
        (types.Schema(type=types.Type.STRING), {"type": "string"}),
    ],
)
def test_a_question_is_a_long_running_call(schema: Any, written: Any) -> None:
    """GR-7, GR-130: with its own id, and the answer's type as JSON schema."""
    request = RequestInput(
        interrupt_id="q1", message="ok?", payload={"x": None}, response_schema=schema
    )
    event = request_input_event(request)
    assert event.long_running_tool_ids == {"q1"}
    assert event.content is not None
    assert event.content.role == "model"
    (call,) = event.get_function_calls()
    assert (call.id, call.name) == ("q1", "adk_request_input")
    assert call.args == {
        "interruptId": "q1",
        "payload": {"x": None},
        "message": "ok?",
        "response_schema": written,
    }


def test_each_question_has_an_id_of_its_own() -> None:
    """GR-7: unless it is given one."""
    assert RequestInput().interrupt_id != RequestInput().interrupt_id
    assert RequestInput(interruptId="q").interrupt_id == "q"


@pytest.mark.parametrize("schema", [5, "Trip", object()])
def test_a_schema_that_describes_nothing_is_refused(schema: Any) -> None:
    """GR-7: where it is written, not when a person answers."""
    with pytest.raises(ValidationError, match="describes no JSON"):
        RequestInput(response_schema=schema)


def test_an_answer_names_the_question() -> None:
    """GR-132."""
    part = create_request_input_response("q1", {"result": True})
    assert part.function_response is not None
    assert part.function_response.id == "q1"
    assert part.function_response.name == "adk_request_input"
    assert part.function_response.response == {"result": True}
