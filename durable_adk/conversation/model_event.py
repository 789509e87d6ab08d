"""The event of a model step, made from the model's response."""

from collections.abc import Callable
from typing import Any

from durable_adk.calling.copies import own_copy
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.conversation.call_ids import CallIds
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse
from durable_adk.tools.output_schema import parse_output
from durable_adk.wire.steps import ModelStep


def model_event(
    response: LlmResponse, *, step: ModelStep, actions: EventActions, ids: CallIds | None = None
) -> Event:
    """Return the event of a model step (FLW-4).

    Args:
        response: The model's response, or one chunk of it.
        step: The step.
        actions: The changes that the event carries.
        ids: For a chunk, the `CallIds` used for the chunks before it.
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
        event.content = own_copy(event.content)
        if not event.content.role:  # the role of a ModelContent is frozen
            event.content.role = "model"
    (ids or CallIds(step.event_id)).give(event.get_function_calls())
    return event


def save_output(
    event: Event, *, output_key: str | None, schema: Any, before: Callable[[], str]
) -> None:
    """Write the agent's output to its `output_key`, committed with the event (AGT-21, TRAP-37).

    Args:
        event: A complete event of the agent; its state delta is changed.
        output_key: The agent's `output_key`; None: nothing is written.
        schema: The agent's `output_schema`, or None. With a schema, the final text is parsed.
            Without an `output_key` it is not, as in ADK.
        before: Returns the text of the agent's earlier events of this run. Without a schema the
            key holds the whole text, including text that came with calls (17.1). Called only when
            needed: a run may have thousands of events.

    Raises:
        OutputSchemaError: The output does not match the schema (AGT-22).
    """
    if not output_key or not event.text:
        return
    event.actions.state_read.pop(output_key, None)  # it replaces any stored value
    if schema is None:
        event.actions.state_delta[output_key] = before() + event.text
        return
    # An event that ends with code to run is not the output, although it counts as final (EVT-10).
    final = event.is_final_response() and pending_code(event.content) is None
    if final and event.text.strip():
        event.actions.state_delta[output_key] = parse_output(schema, event.text)
