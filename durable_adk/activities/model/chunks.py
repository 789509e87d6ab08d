"""Publishes the chunks of a streamed model response."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from durable_adk.activities.step import ActiveStep
from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import CallbackContext
from durable_adk.conversation.call_ids import CallIds
from durable_adk.conversation.model_event import model_event
from durable_adk.errors import CallbackError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse
from durable_adk.partials.chunks import KeptChunks
from durable_adk.partials.partial import PartialEvent
from durable_adk.plugins.plugin_manager import replaced
from durable_adk.plugins.run_context import RunContext
from durable_adk.wire.steps import ModelStep


async def after_model(
    active: ActiveStep[ModelStep], context: CallbackContext, response: LlmResponse
) -> LlmResponse:
    """Apply the callbacks to the model's response or to a chunk of it (FLW-75).

    A replacement keeps the call's data that it leaves unset, such as its token usage.
    """
    changed = await answer_of(
        active.plugins,
        "after_model_callback",
        active.llm_agent.after_model_callback,
        callback_context=context,
        llm_response=response,
    )
    if changed is None:
        return response
    kept = {name: getattr(response, name) for name in _OF_CALL if getattr(changed, name) is None}
    return changed.model_copy(update=kept)


_OF_CALL = ("partial", "turn_complete", "usage_metadata")
_REPEAT = 0.25
"""Seconds between publications of all chunks for new viewers."""


class Chunks:
    """Chunks of one attempt of a model step (FLW-70 to FLW-77).

    A chunk is published and never stored, so it carries no changes: changes that callbacks make
    meanwhile are recorded in the step's context and committed with the complete event (TRAP-4).
    """

    def __init__(self, active: ActiveStep[ModelStep], context: CallbackContext) -> None:
        self._active = active
        self._context = context
        # The same context as in `plugin_hooks` for stored events, but with its own artifact key.
        self._watching = RunContext(
            active.scope,
            agent=active.agent,
            event_actions=context.actions,
            save_key="on_event_callback/chunks",
        )
        self._metadata = active.scope.run_config.custom_metadata or {}
        self._ids = CallIds.of_step(active.step, active.scope.has_call, repeats=True)
        self._count = 0
        self._published = KeptChunks()

    @asynccontextmanager
    async def repeated(self) -> AsyncGenerator[None]:
        """Publish all chunks again for new viewers while no new chunk is published."""
        repeating = asyncio.create_task(self._repeat())
        try:
            yield
        finally:
            repeating.cancel()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(_REPEAT)
            last = self._published.last
            if last is not None and self._active.deps.partials is not None:
                self._active.deps.partials.publish(last, self._published.before_last(), again=True)

    async def show(self, response: LlmResponse) -> None:
        """Let callbacks and plugins change a chunk, then publish it.

        Raises:
            CallbackError: A callback or plugin raised, as for a complete response (CB-12).
        """
        changed = await after_model(self._active, self._context, response)
        # Separate actions: otherwise viewers would see changes that are written later (FLW-77).
        event = model_event(changed, step=self._active.step, actions=EventActions(), ids=self._ids)
        event.partial = True
        event.custom_metadata = {
            **own_copy(self._metadata),
            **(event.custom_metadata or {}),
        } or None
        self._publish(await self._seen_by_plugins(event))

    async def _seen_by_plugins(self, event: Event) -> Event:
        """Apply the plugins to the chunk: a plugin that redacts names redacts them here too."""
        answer = await self._active.plugins.run(
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
        if self._active.deps.partials is None:
            return
        partial = PartialEvent(
            key=self._active.step.key,
            invocation_id=self._active.step.invocation_id,
            event=own_copy(event.model_copy(update={"actions": EventActions()})),
            attempt=self._active.attempt.number,
            index=index,
            revision=self._active.step.revision,
        )
        self._active.deps.partials.publish(partial, self._published)
        self._published.add(partial)
