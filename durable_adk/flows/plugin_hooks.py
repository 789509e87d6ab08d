"""The plugins' hooks around a run, its messages and its events (RUN-26, PLG-5, PLG-6).

The hooks to schedule were recorded when the invocation opened, so a replay after a deploy schedules
the same ones. The worker runs those plugins that define the hook; if none does any more, the step
changes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from durable_adk.calling.closing import closing, uninterrupted
from durable_adk.conversation.tool_responses import error_event
from durable_adk.errors import (
    DurableAdkError,
    InvocationCancelledError,
    LeaseLostError,
    SessionNotFoundError,
    as_detail,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.agent_scope import AgentScope
from durable_adk.flows.runtime import Runtime
from durable_adk.flows.state import LoopState
from durable_adk.plugins.base_plugin import HookName
from durable_adk.sessions.state import without_temp
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.run_config import RunConfig
from durable_adk.wire.steps import AnswerStep, HookStep, Opened, OpenStep


async def prepared(
    runtime: Runtime, request: InvocationRequest, step: OpenStep, opened: Opened
) -> tuple[OpenStep, bool]:
    """Let the plugins change the user's message before the opening stores it.

    Args:
        runtime: Performs the hook.
        request: The request.
        step: The opening that was attempted.
        opened: Its result, by which nothing is stored yet.

    Returns:
        The opening with the message to store, and whether a plugin ends the invocation.

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
        revision=0,  # the hook reads it: other invocations may still change the session
        run_start=0,
        agent=opened.agent,
        event_id=step.event_id,
        attempt_timeout=opened.limits.callback_timeout,
        run_config=None if request.run_config == RunConfig() else request.run_config,
        artifact_owner=step.tool_run.root if step.tool_run else None,
        local_state=step.state_delta,
        hook="on_user_message_callback",
        event=sent,
        create_session=step.create_session,
    )
    result = await runtime.perform(hook)
    event = result.event or sent
    changes = {
        "message": event.content,
        "state_delta": event.actions.state_delta,
        "artifact_delta": event.actions.artifact_delta,
        "custom_metadata": event.custom_metadata,
    }
    return step.model_copy(update={**changes, "prepared": True}), result.end_invocation


async def prepare_answer(state: LoopState, step: AnswerStep) -> str | None:
    """Let the plugins change a user's answer before it is stored, as `prepared` does for messages.

    Returns:
        Why not to store it: a hook failed, or its result cannot be stored. None: store it.
    """
    if not state.hooked("on_user_message_callback"):
        return None
    hook = _step(state, "on_user_message_callback", event_id=step.event_id)
    hook.event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.author,
        content=step.answer.content(step.call_name),
        custom_metadata=step.answer.options().get("custom_metadata"),
        actions=EventActions(state_delta=step.answer.state_delta),
    )
    try:
        step.changed = (await state.runtime.perform(hook)).event
    except (LeaseLostError, SessionNotFoundError):
        raise
    except DurableAdkError as error:
        return error.message
    return None


async def hooked_run(
    state: LoopState, run: Callable[[], AsyncGenerator[Event, None]]
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run and of its hooks; an answer of `before_run` replaces the run.

    Raises:
        DurableAdkError: The run or a hook failed.
    """
    first = None if state.resumed else await _round_run(state, "before_run_callback")
    if first is not None:
        yield first
    if first is None or first.content is None:
        async with closing(run()) as events:
            async for event in events:
                yield event
    last = await _round_run(state, "after_run_callback")
    if last is not None:
        yield last


async def _round_run(state: LoopState, hook: HookName) -> Event | None:
    """Return the event of a hook, or None if there is nothing to store."""
    if not state.hooked(hook):
        return None
    result = await state.runtime.perform(_step(state, hook))
    event, state.end_invocation = result.event, state.end_invocation or result.end_invocation
    if event is None:
        return None
    state.apply_local(event.actions.state_delta, event.actions.state_read)
    delta = without_temp(event.actions.state_delta)
    return event if event.content or delta or event.actions.artifact_delta else None


async def on_event(state: LoopState, event: Event) -> None:
    """Let the plugins change, in place, an event that is about to be committed (PLG-6)."""
    if event.partial or not state.hooked("on_event_callback"):
        return
    opened = state.checkpoint.opened
    known = opened.manifest.find(event.author)
    agent = known.name if known else opened.agent
    step = _step(state, "on_event_callback", agent=agent, event_id=event.id)
    step.event, step.branch = event, event.branch
    changed = (await state.runtime.perform(step)).event
    if changed is not None:
        for name in Event.model_fields:
            setattr(event, name, getattr(changed, name))


async def error_to_store(state: LoopState, error: DurableAdkError) -> Event:
    """Return the event of the error that ends the run; plugins may change it unless cancelled.

    Whatever the outcome of the hooks, the invocation is closed with its error.
    """
    author = state.checkpoint.opened.agent
    event = error_event(error, invocation_id=state.invocation_id, author=author)
    event.timestamp = state.runtime.now()
    event.custom_metadata = state.checkpoint.request.run_config.custom_metadata or None
    if not isinstance(error, InvocationCancelledError):
        with suppress(DurableAdkError, asyncio.CancelledError):
            await uninterrupted(on_event(state, event))
        event.actions.state_read = {}  # the last write counts: a merge could fail
    return event


async def agent_failed(state: LoopState, scope: AgentScope, error: DurableAdkError) -> None:
    """Notify the plugins that an agent has failed; the caller raises the error."""
    hook = "on_agent_error_callback"
    silent = scope.branch.stopped or isinstance(error, LeaseLostError)
    if state.hooked(hook) and not silent:
        agent, event_id = scope.ctx.agent_name, scope.branch.next_id()
        step = _step(state, hook, agent=agent, event_id=event_id)
        step.branch, step.error = scope.ctx.branch, as_detail(error)
        with suppress(DurableAdkError):
            await state.runtime.perform(step)


async def run_failed(state: LoopState, error: dict[str, object]) -> None:
    """Notify the plugins that the run has failed. Its invocation is already closed.

    Args:
        state: The run's.
        error: `errors.as_detail` of the reason.
    """
    if state.hooked("on_run_error_callback"):
        step = _step(state, "on_run_error_callback")
        step.error = error
        # A cancellation comes too late: the outcome is recorded.
        with suppress(DurableAdkError):
            await uninterrupted(state.runtime.perform(step))


def _step(
    state: LoopState, hook: HookName, *, agent: str | None = None, event_id: str | None = None
) -> HookStep:
    opened = state.checkpoint.opened
    return HookStep(
        **state.step_fields(agent or opened.agent, event_id or state.main_branch.next_id()),
        attempt_timeout=opened.limits.callback_timeout,
        hook=hook,
    )
