"""A model's response as the event of its step."""

import uuid
from typing import Any

from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.errors import OutputSchemaError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse
from durable_adk.payloads import ModelStep

ID_PREFIX = "adk-"
_NAMESPACE = uuid.UUID("6f1c1c6e-2d0e-5a55-9a5f-5c1c0d3f8e11")


def to_event(response: LlmResponse, *, step: ModelStep, actions: EventActions) -> Event:
    """The event of a model step (semantics FLW-4).

    Calls without a usable id get one derived from the event's id and their position, so that it is
    the same at every attempt and replay (FLW-40, TRAP-19).
    """
    fields = {name: getattr(response, name) for name in LlmResponse.model_fields}
    event = Event(
        **fields,
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        actions=actions,
    )
    if event.content:
        event.content = event.content.model_copy(deep=True)
        event.content.role = event.content.role or "model"
    _identify_calls(event.get_function_calls(), step.event_id)
    return event


def _identify_calls(calls: list[types.FunctionCall], event_id: str) -> None:
    """Give each call an id no other call has; providers leave them out or repeat them (F15)."""
    taken: set[str] = set()
    for index, call in enumerate(calls):
        if not call.id or call.id in taken:
            call.id = f"{ID_PREFIX}{uuid.uuid5(_NAMESPACE, f'{event_id}/{index}')}"
        call.args = call.args or {}
        taken.add(call.id)


def save_output(
    event: Event, *, output_key: str | None, schema: type[BaseModel] | None, before: str
) -> None:
    """Put the agent's answer under its `output_key`, committed with the event (AGT-21, TRAP-37).

    Args:
        event: A whole event of the agent; its state delta is changed.
        output_key: The agent's; None: nothing happens.
        schema: The agent's `output_schema`: the final answer is parsed with it.
        before: Text of the agent's earlier events of this run; without a schema the key holds it
            all, text that came with calls included (17.1).

    Raises:
        OutputSchemaError: The answer does not fit the schema (AGT-22).
    """
    if not event.text or event.error_code:
        return
    if schema is None:
        if output_key:
            event.actions.state_delta[output_key] = before + event.text
        return
    if event.is_final_response() and event.text.strip():
        value = _parse(schema, event.text)
        if output_key:
            event.actions.state_delta[output_key] = value


def _parse(schema: type[BaseModel], text: str) -> Any:
    try:
        return schema.model_validate_json(text).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'answer'}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise OutputSchemaError(
            f"The answer does not fit output_schema {schema.__name__}: {problems}"
        ) from None
