"""Makes the events of a model step, one for each complete response of the model."""

from collections.abc import Mapping
from typing import Any

from durable_adk.activities.step import ActiveStep
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.call_ids import CallIds
from durable_adk.conversation.history import USER
from durable_adk.conversation.model_event import model_event, save_output
from durable_adk.conversation.pending_calls import with_deadlines
from durable_adk.conversation.routing import hand_over_by_event
from durable_adk.events.event import MISSING_TOOLSETS, MODEL_CALL, Event
from durable_adk.models.llm_response import LlmResponse
from durable_adk.wire.manifest import Wait
from durable_adk.wire.steps import ModelStep, Step, StepResult


class ModelEvents:
    """The events of one model step, in order.

    As in ADK, each event repeats the changes of those before it, up to the first call: its tool may
    have changed the same keys by then.
    """

    def __init__(
        self,
        active: ActiveStep[ModelStep],
        context: CallbackContext,
        long_running: Mapping[str, Wait],
    ) -> None:
        self.results: list[StepResult] = []
        self._agent = active.llm_agent
        self._scope = active.scope
        self._step = active.step
        self._context = context
        self._long_running = long_running
        self._ids = CallIds.of_step(active.step, active.scope.has_call)
        self._carried: list[dict[str, Any]] = [{}, {}]
        self._text = ""

    def add(self, response: LlmResponse) -> None:
        """Add the event of the next response, unless there is nothing to store (FLW-4)."""
        self._context.state.collect_delta()
        actions = own_copy(self._context.actions)
        event = model_event(response, step=self._step, actions=actions, ids=self._ids)
        if not _has_news(response) and self._carried == [
            actions.state_delta,
            actions.artifact_delta,
        ]:
            return
        save_output(
            event,
            output_key=self._agent.output_key,
            schema=self._agent.output_schema,
            before=lambda: text_before(self._scope, self._step) + self._text,
        )
        about: dict[str, Any] = {}
        if self._scope.missing_toolsets:
            about[MISSING_TOOLSETS] = self._scope.missing_toolsets
        if self.results:
            about[MODEL_CALL] = self._step.event_id
        if about:
            event.custom_metadata = {**(event.custom_metadata or {}), **about}
        self._text += event.text
        self._carry(event)
        waits, transfer = self._mark_long_running(event), hand_over_by_event(self._agent, event)
        self.results.append(StepResult(event=event, waits=waits, transfer=transfer))

    def _carry(self, event: Event) -> None:
        actions = self._context.actions
        self._context.state.committed()
        if event.get_function_calls():
            actions.state_delta.clear()
            actions.artifact_delta.clear()
        else:
            actions.state_delta |= event.actions.state_delta
        self._carried = [dict(actions.state_delta), dict(actions.artifact_delta)]

    def _mark_long_running(self, event: Event) -> dict[str, Wait]:
        """Mark the calls of long-running tools (FLW-41); return how long each may stay pending."""
        known, calls = self._long_running, event.get_function_calls()
        waits = {call.id or "": known[call.name or ""] for call in calls if call.name in known}
        event.long_running_tool_ids = set(waits) if calls else None
        with_deadlines(event, waits)
        return waits


def _has_news(response: LlmResponse) -> bool:
    return bool(
        response.content
        or response.error_code
        or response.interrupted
        or response.grounding_metadata
    )


def text_before(scope: StepScope, step: Step) -> str:
    """Return the text of the agent's events for `save_output`.

    It starts with the agent's run, and restarts at each answer of the user to a pending call: in
    ADK that message begins another run.
    """
    events = scope.events
    # Counted from the end, because the step may not see the oldest events (SSN-6).
    start = len(events) - (step.revision - step.run_start)
    texts: list[str] = []
    for event in events[max(start, 0) :]:
        if event.invocation_id == step.invocation_id:
            if event.author == USER and event.get_function_responses():
                texts.clear()
            elif event.author == step.agent:
                texts.append(event.text)
    return "".join(texts)
