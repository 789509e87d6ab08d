"""Runs callbacks: the plugins' first, then the agent's own."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from google.genai import types

from durable_adk.activities.step import ActiveStep
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import call, contained, time_limit
from durable_adk.context.activity import CallbackContext
from durable_adk.conversation.model_event import save_output
from durable_adk.conversation.routing import hand_over_by_event
from durable_adk.errors import CallbackError, reported_as
from durable_adk.events.event import Event
from durable_adk.google_objects import callable_from_google_adk, from_google_adk
from durable_adk.json_values import check_json
from durable_adk.plugins.base_plugin import HookName, check_answer
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import CallbackStep, Hook, StepResult

_PLUGINS_NAMES = {"args": "tool_args", "tool_response": "result"}
"""Plugin argument names that differ from those of agent callbacks (TRAP-50)."""


def as_list(callbacks: Any) -> list[Callable[..., Any]]:
    """Return a callback field as a list (CB-2)."""
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]  # pyright: ignore[reportUnknownArgumentType]: fields are unions of callables


async def answer_of(plugins: PluginManager, hook: HookName, callbacks: Any, **kwargs: Any) -> Any:
    """Return the plugins' value or, if they return None, that of the agent's callbacks (PLG-3).

    Args:
        plugins: The app's plugins.
        hook: The name of the hook.
        callbacks: The agent's own callbacks, as stored in its field.
        **kwargs: The callbacks' arguments by name.
    """
    named = {_PLUGINS_NAMES.get(name, name): value for name, value in kwargs.items()}
    answer = await plugins.run(hook, **named)
    return await first_answer(hook, callbacks, **kwargs) if answer is None else answer


async def first_answer(hook: HookName, callbacks: Any, **kwargs: Any) -> Any:
    """Run callbacks in order until one returns a value other than None (CB-1, CB-2, CB-5).

    They are called with ADK's keyword names, or by position if their own names differ (CB-4).

    Raises:
        CallbackError: A callback raised, or returned a value of the wrong type; it is not retried
            (CB-12, TRAP-49).
    """
    for callback in map(callable_from_google_adk, as_list(callbacks)):
        with reported_as(CallbackError):
            answer = from_google_adk(await contained(_call_bound(callback, kwargs)))
        if answer is not None:
            check_answer(hook, answer, _described(callback, inspect.signature(callback)))
            return answer
    return None


async def _call_bound(callback: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    signature = inspect.signature(callback)
    try:
        signature.bind(**kwargs)
    except TypeError:
        try:
            signature.bind(*kwargs.values())
        except TypeError as error:
            raise TypeError(
                f"{_described(callback, signature)} is called with {', '.join(kwargs)}: {error}"
            ) from None
        return await call(callback, *kwargs.values())
    return await call(callback, **kwargs)


def _described(callback: Callable[..., Any], signature: inspect.Signature) -> str:
    """Describe a callback so that its author finds it: the error has no line of it."""
    name = getattr(callback, "__qualname__", repr(callback))
    code = getattr(inspect.unwrap(callback), "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"The callback {name}{signature}{at}"


async def run_callback(active: ActiveStep[CallbackStep]) -> StepResult:
    """Run an agent's before or after callbacks, the plugins' first (AGT-6..8, PLG-3).

    The result has an event if a callback returned content, or changed state without content.
    """
    await active.load()
    step, agent, scope = active.step, active.agent, active.scope
    context = CallbackContext(scope)
    before = step.hook is Hook.BEFORE_AGENT
    await active.attempt.begins()
    try:
        async with time_limit(step.attempt_timeout):
            content = await _content(active.plugins, agent, context, before=before)
    except TimeoutError:
        raise CallbackError(
            f"{step.hook}_callback of {agent.name} did not finish in {step.attempt_timeout:g} s."
        ) from None
    delta = context.state.collect_delta()
    if content is None and not (delta or context.actions.artifact_delta):
        return StepResult(end_invocation=scope.end_invocation)
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=agent.name,
        branch=step.branch,
        content=content,
        actions=context.actions,
    )
    if before and isinstance(agent, LlmAgent) and content and event.is_final_response():
        # The callback replaces the agent's text, so there is no earlier text.
        save_output(event, output_key=agent.output_key, schema=agent.output_schema, before=str)
    check_json(delta, "state_delta")
    check_event(event, f"The answer of {step.hook}_callback")
    transfer = hand_over_by_event(agent, event)
    return StepResult(event=event, end_invocation=scope.end_invocation, transfer=transfer)


async def _content(
    plugins: PluginManager, agent: BaseAgent, context: CallbackContext, *, before: bool
) -> types.Content | None:
    hook: HookName = "before_agent_callback" if before else "after_agent_callback"
    answer = await plugins.run(hook, agent=agent, callback_context=context)
    if answer is None:
        answer = await first_answer(hook, getattr(agent, hook), callback_context=context)
    return answer
