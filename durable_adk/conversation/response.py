"""A model's response as the event of its step."""

import uuid
from collections.abc import Callable
from typing import Any

from google.genai import types

from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse
from durable_adk.tools._output_schema import parse_answer
from durable_adk.wire.steps import ModelStep

ID_PREFIX = "adk-"
_NAMESPACE = uuid.UUID("6f1c1c6e-2d0e-5a55-9a5f-5c1c0d3f8e11")


def call_ids(step: ModelStep, has_call: Callable[[str], bool]) -> "CallIds":
    """What identifies the calls of a step's event, which are not to be taken for earlier ones.

    A call's id is its idempotency key, and names what waits for an answer.
    """
    return CallIds(step.event_id, has_call=has_call, own=step.branch is not None)


class CallIds:
    """Gives each call of an event an id no other call has; providers leave them out or repeat them.

    Such an id is derived from the event's and the call's position in it, so it is the same at every
    attempt and replay (FLW-40, TRAP-19, F15). A position is counted on from chunk to chunk: the
    whole has the same calls in the same order, and so the same ids (FLW-74).
    """

    def __init__(
        self,
        event_id: str,
        *,
        has_call: Callable[[str], bool] = frozenset[str]().__contains__,
        own: bool = False,
    ) -> None:
        """Begin with the first call of an event.

        Args:
            event_id: The event's.
            has_call: Whether an earlier call has an id: some providers count anew with every
                answer.
            own: Whether no id of the provider's is kept. On a branch another one may get the same
                at the same moment, and nothing of it is known here.
        """
        self._event_id = event_id
        self._has_call = has_call
        self._own = own
        self._taken: list[str] = []

    def give(self, calls: list[types.FunctionCall]) -> None:
        """Identify the calls that come next, in place."""
        for call in calls:
            if self._own or not call.id or self._has_call(call.id) or call.id in self._taken:
                name = f"{self._event_id}/{len(self._taken)}"
                call.id = f"{ID_PREFIX}{uuid.uuid5(_NAMESPACE, name)}"
            call.args = call.args or {}
            self._taken.append(call.id)


def to_event(
    response: LlmResponse, *, step: ModelStep, actions: EventActions, ids: CallIds | None = None
) -> Event:
    """The event of a model step (semantics FLW-4).

    Args:
        response: The model's answer, or a chunk of it.
        step: The step.
        actions: What the event changes.
        ids: Of a chunk, what has identified the calls of the chunks before it.
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
    (ids or CallIds(step.event_id)).give(event.get_function_calls())
    return event


def save_output(
    event: Event, *, output_key: str | None, schema: Any, before: Callable[[], str]
) -> None:
    """Put the agent's answer under its `output_key`, committed with the event (AGT-21, TRAP-37).

    Args:
        event: A whole event of the agent; its state delta is changed.
        output_key: The agent's; None: nothing happens.
        schema: The agent's `output_schema`, or None: the final answer is parsed with it.
        before: Gives the text of the agent's earlier events of this run; without a schema the key
            holds it all, text that came with calls included (17.1). Asked for if it is needed: a
            run may have thousands of events.

    Raises:
        OutputSchemaError: The answer does not fit the schema (AGT-22).
    """
    if not event.text or event.error_code:
        return
    if schema is None:
        if output_key:
            event.actions.state_delta[output_key] = before() + event.text
        return
    # An event that ends with code to run is no answer, although it counts as final (EVT-10).
    final = event.is_final_response() and pending_code(event.content) is None
    if final and event.text.strip():
        value = parse_answer(schema, event.text)
        if output_key:
            event.actions.state_delta[output_key] = value
