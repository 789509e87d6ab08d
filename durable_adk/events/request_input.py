"""`RequestInput`: a node's question to a person."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from google.genai import types
from pydantic import ConfigDict, Field, TypeAdapter, field_validator

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel

REQUEST_INPUT = "adk_request_input"
"""Name of the function call that asks."""


class RequestInput(JsonModel):
    """What a node asks for; the invocation then waits for the answer (GR-7)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    interrupt_id: str = Field(default_factory=lambda: str(uuid4()))
    """Id of the question; the answer names it. A loop may use the same one again."""
    payload: Any = None
    """JSON that the person needs for the answer."""
    message: str | None = None
    """Text for the person."""
    response_schema: Any = None
    """The answer's type, ``list[str]`` or a pydantic model for example, or its JSON schema. None
    accepts everything."""

    @field_validator("response_schema")
    @classmethod
    def _usable_schema(cls, value: Any) -> Any:
        if value is not None:
            json_schema(value)
        return value


def json_schema(schema: Any) -> dict[str, Any]:
    """Return a type, or a schema of google-genai, as JSON schema.

    Raises:
        WorkflowConfigurationError: It is no type that JSON schema can describe.
    """
    match schema:
        case dict():
            return dict(schema)  # pyright: ignore[reportUnknownArgumentType]: JSON
        case types.Schema():
            return schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        case str():
            pass  # pydantic would take it for a type's name
        case _:
            try:
                return TypeAdapter(schema).json_schema()
            except Exception as error:
                raise _unusable(schema) from error
    raise _unusable(schema)


def request_input_event(request: RequestInput) -> Event:
    """Return the event that asks: a long-running call whose id is the interrupt id (GR-130)."""
    schema = request.response_schema
    args = request.model_dump(by_alias=True, exclude={"response_schema"})
    args["response_schema"] = None if schema is None else json_schema(schema)
    call = types.FunctionCall(name=REQUEST_INPUT, id=request.interrupt_id, args=args)
    return Event(
        content=types.Content(role="model", parts=[types.Part(function_call=call)]),
        long_running_tool_ids={request.interrupt_id},
    )


def create_request_input_response(interrupt_id: str, response: Mapping[str, Any]) -> types.Part:
    """Return the part of a message that answers a question (GR-132).

    Args:
        interrupt_id: The question's `RequestInput.interrupt_id`.
        response: The answer; ``{"result": x}`` answers with x.
    """
    return types.Part(
        function_response=types.FunctionResponse(
            id=interrupt_id, name=REQUEST_INPUT, response=dict(response)
        )
    )


def _unusable(schema: Any) -> WorkflowConfigurationError:
    return WorkflowConfigurationError(
        f"response_schema {schema!r} describes no JSON; pass a type, list[str] or a pydantic model "
        "for example, or a JSON schema."
    )
