"""Publishes the chunks of a streamed model response."""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.context.activity import CallbackContext, StepScope
from durable_adk.conversation.call_ids import CallIds
from durable_adk.conversation.model_event import model_event
from durable_adk.errors import CallbackError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse
from durable_adk.partials.partial import PartialEvent
from durable_adk.plugins.plugin_manager import PluginManager, replaced
from durable_adk.plugins.run_context import RunContext
from durable_adk.wire.steps import ModelStep


async def after_model(
    agent: LlmAgent, plugins: PluginManager, context: CallbackContext, response: LlmResponse
) -> LlmResponse:
    """The model's answer, or a chunk of it, as the callbacks have it (FLW-75)."""
    changed = await answer_of(
        plugins,
        "after_model_callback",
        agent.after_model_callback,
        callback_context=context,
        llm_response=response,
    )
    return changed or response


class Chunks:
    """The chunks of one attempt of a model step (semantics FLW-70 to FLW-77).

    A chunk is shown and never stored, so nothing rides on it: what callbacks write meanwhile is
    recorded in the step's context, and rides on the event of the whole (TRAP-4).
    """

    def __init__(
        self,
        deps: Dependencies,
        step: ModelStep,
        *,
        agent: LlmAgent,
        scope: StepScope,
        context: CallbackContext,
        attempt: int,
    ) -> None:
        self._world = deps
        self._step = step
        self._agent = agent
        self._context = context
        self._attempt = attempt
        self._plugins = deps.plugins(step)
        # As `hooks` has it for stored events, but with a key for artifacts of its own.
        self._watching = RunContext(
            scope, agent=agent, actions=context.actions, save_key="on_event_callback/chunks"
        )
        self._metadata = scope.run_config.custom_metadata or {}
        self._ids = CallIds.of_step(step, scope.has_call)
        self._count = 0

    async def show(self, response: LlmResponse) -> None:
        """Let the callbacks and the plugins change a chunk, and give it to whoever watches.

        Raises:
            CallbackError: One of them raised, as for the whole (CB-12).
        """
        changed = await after_model(self._agent, self._plugins, self._context, response)
        # Its actions are its own: viewers would see what is written later (FLW-77).
        event = model_event(changed, step=self._step, actions=EventActions(), ids=self._ids)
        event.partial = True
        event.custom_metadata = {**self._metadata, **(event.custom_metadata or {})} or None
        self._publish(await self._seen_by_plugins(event))

    async def _seen_by_plugins(self, event: Event) -> Event:
        """The chunk as the plugins want it seen: one that hides names hides them here too."""
        answer = await self._plugins.run(
            "on_event_callback", invocation_context=self._watching, event=event
        )
        self._watching.state.collect_delta()
        if answer is None:
            return event
        if not isinstance(answer, Event):
            raise CallbackError(
                f"A plugin's on_event_callback answered with {type(answer).__name__}; answer with "
                "Event or None."
            )
        return replaced(event, answer)

    def _publish(self, event: Event) -> None:
        index, self._count = self._count, self._count + 1
        if self._world.partials is None:
            return
        self._world.partials.publish(
            PartialEvent(
                key=self._step.key,
                invocation_id=self._step.invocation_id,
                event=event.model_copy(update={"actions": EventActions()}),
                attempt=self._attempt,
                index=index,
                revision=self._step.revision,
            )
        )
