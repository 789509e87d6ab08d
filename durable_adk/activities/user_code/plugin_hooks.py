"""Runs the plugins' hooks around an invocation, its message and its events."""

from collections.abc import Awaitable, Callable
from functools import partial

from google.genai import types

from durable_adk.activities.commit.session_cache import KnownEvents
from durable_adk.activities.step import ActiveStep
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling import time_limit
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.call_ids import CallIds
from durable_adk.conversation.sent_message import with_digests
from durable_adk.errors import (
    CallbackError,
    InvalidRequestError,
    SessionNotFoundError,
    as_raised,
    from_detail,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.json_values import check_json
from durable_adk.plugins.base_plugin import HookName
from durable_adk.plugins.plugin_manager import replaced
from durable_adk.plugins.run_context import RunContext
from durable_adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from durable_adk.sessions.state_merge import together
from durable_adk.wire.messages import check_event, user_content
from durable_adk.wire.steps import HookStep, Step, StepResult

_SAVE_FILES = SaveFilesAsArtifactsPlugin(attach_file_reference=False).on_user_message_callback
RUN_AUTHOR = "model"
"""Author of the event with the content that `before_run_callback` returns (PLG-5)."""


async def run_hook(active: ActiveStep[HookStep]) -> StepResult:
    """Run a hook of all plugins that currently define it; without any, do nothing.

    Raises:
        CallbackError: A plugin raised, returned an unusable value, or took too long.
        DurableAdkError: The session cannot be read.
    """
    name, limit = active.step.hook, active.step.attempt_timeout
    if name == "on_user_message_callback":
        hook = partial(_user_message, await _arrival(active))
    else:
        hook = _HOOKS[name]
    await active.attempt.begins()
    failpoint("hook.before")
    try:
        async with time_limit(limit):
            result = await hook(active)
    except TimeoutError:
        raise _too_slow(name, limit) from None
    failpoint("hook.after")
    return result


async def seen_by_plugins(active: ActiveStep[Step], event: Event) -> Event:
    """Return the event to commit instead of the step's own; see `run_hook`."""
    limit = active.deps.limits.callback_timeout
    try:
        async with time_limit(limit):
            # The hook reads the session anew, without what the step's own code has changed in it.
            return await _on_event(ActiveStep(deps=active.deps, step=active.step), event)
    except TimeoutError:
        raise _too_slow("on_event_callback", limit) from None


# ----- the hooks


async def _user_message(scope: StepScope, active: ActiveStep[HookStep]) -> StepResult:
    """Let the hook change a message or an answer before it is stored (RUN-26).

    The hook's changes are committed with the user's event. The session is read past the cache:
    without the lease it may change until the invocation opens or continues.
    """
    step = active.step
    sent = _required(step.event)
    scope.user_content = scope.user_content or own_copy(sent.content)  # the message that began it
    context = _context(active, scope, "on_user_message_callback")
    context.actions.state_delta.update(sent.actions.state_delta)
    given = own_copy(types.Content.model_validate(sent.content))
    answer = await active.plugins.run(
        "on_user_message_callback", invocation_context=context, user_message=given
    )
    try:
        content = user_content(given if answer is None else answer)
    except InvalidRequestError as error:
        raise CallbackError(f"on_user_message_callback left no message: {error}") from error
    if step.run_config is not None and step.run_config.save_input_blobs_as_artifacts:
        # A retry creates no second version: the context saves under the same key (RUN-22).
        saved = await _SAVE_FILES(invocation_context=context, user_message=content)
        content = saved or content
    context.state.collect_delta()
    event = sent.model_copy(update={"content": content, "actions": context.actions})
    event.custom_metadata = with_digests(event, sent=sent)
    _check(event, "The message that on_user_message_callback has changed")
    changed = None if event == sent else event
    return StepResult(event=changed, end_invocation=scope.end_invocation)


async def _before_run(active: ActiveStep[HookStep]) -> StepResult:
    """Run the hook before the run; content that it returns replaces the whole run (PLG-5)."""
    return await _round_run(active, "before_run_callback")


async def _after_run(active: ActiveStep[HookStep]) -> StepResult:
    """Run the hook after a successful run (PLG-5)."""
    return await _round_run(active, "after_run_callback")


async def _round_run(active: ActiveStep[HookStep], hook: HookName) -> StepResult:
    await active.load()
    step, scope = active.step, active.scope
    context = _context(active, scope, hook)
    answer = await active.plugins.run(hook, invocation_context=context)
    context.state.collect_delta()
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=RUN_AUTHOR,
        content=answer,
        actions=context.actions,
    )
    _check(event, f"The answer of {hook}")
    changed = event.actions.state_delta or event.actions.artifact_delta
    event = event if event.content or changed else None
    return StepResult(event=event, end_invocation=scope.end_invocation)


async def _event(active: ActiveStep[HookStep]) -> StepResult:
    before = _required(active.step.event)
    event = await _on_event(active, before)
    return StepResult(event=None if event == before else event)


async def _on_event(active: ActiveStep[Step], event: Event) -> Event:
    """Return the event after the plugins: replaced, changed in place, or unchanged (PLG-6)."""
    await active.load()
    context = _context(active, active.scope, "on_event_callback")
    given = event.model_copy(deep=True)
    answer = await active.plugins.run("on_event_callback", invocation_context=context, event=given)
    changed = replaced(event, given if answer is None else answer)
    changed = changed.model_copy(deep=True)  # a plugin may return the same object every time
    _check_answers(event, changed)
    CallIds(changed.id).give(changed.get_function_calls())
    # State written through the hook's context is committed with the event, replaced or not.
    changed.actions.state_delta, changed.actions.state_read = together(
        changed.actions.state_delta,
        changed.actions.state_read,
        context.state.collect_delta(),
        context.actions.state_read,
    )
    changed.actions.artifact_delta |= context.actions.artifact_delta
    if changed != event:
        _check(changed, "The event that on_event_callback has changed")
    return changed


async def _agent_error(active: ActiveStep[HookStep]) -> StepResult:
    await active.load()
    await active.plugins.notify(
        "on_agent_error_callback",
        agent=active.agent,
        callback_context=CallbackContext(active.scope, save_key=active.step.hook),
        error=as_raised(from_detail(active.step.error or {})),
    )
    return StepResult()


async def _run_error(active: ActiveStep[HookStep]) -> StepResult:
    await active.load()
    await active.plugins.notify(
        "on_run_error_callback",
        invocation_context=_context(active, active.scope, "on_run_error_callback"),
        error=as_raised(from_detail(active.step.error or {})),
    )
    return StepResult()


KEPT = {"before_run_callback", "on_event_callback", "after_run_callback"}
"""Hooks whose results become events of the loop; others notify, or precede the user's event."""

_HOOKS: dict[str, Callable[[ActiveStep[HookStep]], Awaitable[StepResult]]] = {
    "before_run_callback": _before_run,
    "on_event_callback": _event,
    "after_run_callback": _after_run,
    "on_agent_error_callback": _agent_error,
    "on_run_error_callback": _run_error,
}


# ----- shared helpers


def _context(active: ActiveStep[Step], scope: StepScope, hook: HookName) -> RunContext:
    """Return the context of a hook; its artifacts are separate from those of the event's step."""
    agent: BaseAgent = active.deps.registry.agent(active.step.key.app_name, active.step.agent)
    return RunContext(scope, agent=agent, save_key=hook)


async def _arrival(active: ActiveStep[HookStep]) -> StepScope:
    """Return the session as the message finds it, or an empty one if it is yet to be created.

    Raises:
        SessionNotFoundError: The session is missing and must not be created.
    """
    deps, step = active.deps, active.step
    try:
        revision, state = await deps.sessions.read_state(step.key)
    except SessionNotFoundError:
        if not step.create_session:
            raise
        return deps.scope_over(step, {}, KnownEvents.of([], step.invocation_id))
    stored = await deps.sessions.read_events(step.key, upto=revision)
    here = step.model_copy(update={"revision": revision})
    events = [item.event for item in stored]
    return deps.scope_over(here, state, KnownEvents.of(events, step.invocation_id))


def _required(event: Event | None) -> Event:
    if event is None:
        raise InvalidRequestError("This hook needs an event.")
    return event


def _check_answers(before: Event, after: Event) -> None:
    """Check that all responses are kept: providers reject a call without a response (I9)."""
    asked = [response.id for response in before.get_function_responses()]
    if [response.id for response in after.get_function_responses()] != asked:
        raise CallbackError(
            "on_event_callback must leave the function responses of an event in their places; "
            "what they say may be changed."
        )


def _check(event: Event, what: str) -> None:
    """Reject an event that cannot be stored, while the hook responsible is still known."""
    check_json(event.model_dump(mode="json", include={"content"}), what)
    check_json(event.actions.state_delta, "state_delta")
    check_json(event.custom_metadata, "custom_metadata")
    check_event(event, what)


def _too_slow(hook: str, limit: float) -> CallbackError:
    return CallbackError(f"The plugins' {hook} did not finish in {limit:g} s.")
