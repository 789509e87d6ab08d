"""The hooks of an app's plugins round a run and its events (semantics RUN-26, PLG-5, PLG-6).

Whether a hook is scheduled goes by what was recorded when the invocation opened, never by the
plugins that the worker has now: a replay after a deploy schedules the same. The worker runs those
that it has; a hook that nobody has any more changes nothing.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from durable_adk.closing import closing, uninterrupted
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import DurableAdkError, LeaseLostError, as_detail
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.plugins.base_plugin import HookName
from durable_adk.runtime import Runtime
from durable_adk.sessions.state import without_temp
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.run_config import RunConfig
from durable_adk.wire.steps import HookStep, Opened, OpenStep

if TYPE_CHECKING:
    from durable_adk.flows.invocation import Invocation


async def prepared(
    runtime: Runtime, request: InvocationRequest, step: OpenStep, opened: Opened
) -> OpenStep:
    """The opening with the message as the plugins want it stored; `opened` has stored nothing.

    Raises:
        DurableAdkError: A hook failed, or there is no session; nothing is stored.
    """
    sent = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author="user",
        content=step.message,
        custom_metadata=step.custom_metadata,
        actions=EventActions(state_delta=step.state_delta),
    )
    hook = HookStep(
        key=step.key,
        invocation_id=step.invocation_id,
        revision=0,  # the hook looks for itself: others may be changing the session still
        run_start=0,
        agent=opened.agent,
        event_id=step.event_id,
        attempt_timeout=opened.limits.callback_timeout,
        run_config=None if request.run_config == RunConfig() else request.run_config,
        artifact_owner=step.tool_run.caller if step.tool_run else None,
        local_state=step.state_delta,
        hook="on_user_message_callback",
        event=sent,
        create_session=step.create_session,
    )
    event = (await runtime.perform(hook)).event or sent
    changes = {
        "message": event.content,
        "state_delta": event.actions.state_delta,
        "artifact_delta": event.actions.artifact_delta,
        "custom_metadata": event.custom_metadata,
    }
    return step.model_copy(update={**changes, "prepared": True})


async def hooked_run(
    invocation: "Invocation", run: Callable[[], AsyncGenerator[Event, None]]
) -> AsyncGenerator[Event, None]:
    """A run's events with those of its hooks; an answer of `before_run` is all there is of it.

    Raises:
        DurableAdkError: The run failed, or a hook did: then it fails with that.
    """
    first = None if invocation.begun else await _round_run(invocation, "before_run_callback")
    if first is not None:
        yield first
    if first is None or first.content is None:
        async with closing(run()) as events:
            async for event in events:
                yield event
    last = await _round_run(invocation, "after_run_callback")
    if last is not None:
        yield last


async def _round_run(invocation: "Invocation", hook: HookName) -> Event | None:
    """The event of a hook, if it has something to store."""
    if not invocation.hooked(hook):
        return None
    event = (await invocation.runtime.perform(_step(invocation, hook))).event
    if event is None:
        return None
    invocation.apply_local(event.actions.state_delta)
    delta = without_temp(event.actions.state_delta)
    return event if event.content or delta or event.actions.artifact_delta else None


async def on_event(invocation: "Invocation", event: Event) -> None:
    """Let the plugins change an event, in place, that is about to be committed (PLG-6)."""
    if event.partial or not invocation.hooked("on_event_callback"):
        return
    known = invocation.opened.manifest.find(event.author)
    agent = known.name if known else invocation.opened.agent
    step = _step(invocation, "on_event_callback", agent=agent, event_id=event.id)
    step.event, step.branch = event, event.branch
    changed = (await invocation.runtime.perform(step)).event
    if changed is not None:
        for name in Event.model_fields:
            setattr(event, name, getattr(changed, name))


async def agent_failed(
    invocation: "Invocation", ctx: InvocationContext, error: DurableAdkError
) -> None:
    """Tell the plugins that an agent has failed; the error is raised by the caller."""
    hook = "on_agent_error_callback"
    unheard = ctx.lane.stopped or isinstance(error, LeaseLostError)
    if invocation.hooked(hook) and not unheard:
        step = _step(invocation, hook, agent=ctx.agent_name, event_id=ctx.lane.next_id())
        step.branch, step.error = ctx.branch, as_detail(error)
        with suppress(DurableAdkError):
            await invocation.runtime.perform(step)


async def run_failed(invocation: "Invocation", error: dict[str, object]) -> None:
    """Tell the plugins that the run has failed, whose session is sealed by now.

    Args:
        invocation: The run.
        error: `errors.as_detail` of what it failed with.
    """
    if invocation.hooked("on_run_error_callback"):
        step = _step(invocation, "on_run_error_callback")
        step.error = error
        # Too late for a cancellation: how the run ended is recorded.
        with suppress(DurableAdkError):
            await uninterrupted(invocation.runtime.perform(step))


def _step(
    invocation: "Invocation",
    hook: HookName,
    *,
    agent: str | None = None,
    event_id: str | None = None,
) -> HookStep:
    return HookStep(
        **invocation.here(agent or invocation.opened.agent, event_id or invocation.lane.next_id()),
        attempt_timeout=invocation.opened.limits.callback_timeout,
        hook=hook,
    )
