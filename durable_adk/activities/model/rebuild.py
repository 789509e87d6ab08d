"""Rebuilds requests of model calls from committed events and the agents' present code.

The same code builds them as for a call, so it runs the agents' functions as another attempt of the
call would: instructions that are functions, toolsets, and tools that change the request. These may
run any number of times for a call anyway, because an attempt may be lost. What they would change is
dropped. Callbacks and plugins may have effects of any kind, so they do not run.
"""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, Self, cast

from google.genai import types

from durable_adk.activities.commit.session_cache import KnownEvents
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import without_later
from durable_adk.activities.model.request import build_request, label
from durable_adk.activities.user_code.callbacks import as_list
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import time_limit
from durable_adk.context.activity import StepScope
from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS
from durable_adk.conversation.history import USER
from durable_adk.errors import (
    AgentDefinitionError,
    NotFoundError,
    RequestNotRebuiltError,
    RunError,
)
from durable_adk.events.event import MISSING_TOOLSETS, MODEL_CALL, Event
from durable_adk.models.llm_request import SET_MODEL_RESPONSE, LlmRequest
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.tools.base_toolset import missed_toolsets
from durable_adk.tools.output_schema import json_schema_of
from durable_adk.wire.effect import EffectAttempt
from durable_adk.wire.messages import check_size
from durable_adk.wire.model_request import ModelRequest, ModelRequests, ReadModelRequestsStep
from durable_adk.wire.steps import ModelStep

_ELSEWHERE = ("http_options", "system_instruction", "tools", "response_schema")


class StoredSession(NamedTuple):
    """What requests are rebuilt from; the events are read last, so none is missing (D3)."""

    state: dict[str, Any]
    initial: dict[str, Any]
    log: list[StoredEvent]

    @classmethod
    async def read(cls, deps: Dependencies, key: SessionKey) -> Self:
        """Read a session as it is now.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        _, state = await deps.sessions.read_state(key)
        initial = await deps.sessions.read_initial_state(key)
        return cls(state, initial, await deps.sessions.read_events(key))


class RebuiltRequest(NamedTuple):
    """A request with what it was rebuilt from."""

    request: LlmRequest
    agent: LlmAgent
    event: Event
    """The first event that the call made."""
    missed: list[str]
    """Toolsets that could not be listed now, and why."""


async def read_model_requests(
    deps: Dependencies, step: ReadModelRequestsStep, attempt: EffectAttempt
) -> ModelRequests:
    """Rebuild the requests of a step, with `skips` as many as fit.

    Raises:
        UnknownAppError: The app is not served here.
        NotFoundError: There is no such event, or no model made it.
        RequestNotRebuiltError: The agents' present code cannot build the request.
        PayloadTooLargeError: One does not fit, and none is to be left out.
    """
    del attempt  # it changes nothing
    deps.registry.app(step.app)
    session = await StoredSession.read(deps, step.key)
    page, room = ModelRequests(), step.max_bytes
    for event_id in step.event_ids:
        try:
            found = _shown(deps, step, await rebuild_request(deps, step, session, event_id))
            found.event_id = event_id
        except (NotFoundError, RequestNotRebuiltError):
            if step.skips:
                continue
            raise
        text = found.to_json()
        room -= len(text.encode())
        if room < 0 and step.skips:
            break
        check_size(text, f"The request of {event_id}", step.max_bytes)
        page.requests.append(found)
    return page


async def rebuild_request(
    deps: Dependencies, step: ReadModelRequestsStep, session: StoredSession, event_id: str
) -> RebuiltRequest:
    """Build the request whose answer is an event, as of the event before it.

    Raises:
        NotFoundError: There is no such event, or no model made it.
        RequestNotRebuiltError: The agents' present code cannot build the request.
    """
    event, revision = _answer(session, event_id)
    try:
        agent = deps.registry.agent(step.app, event.author)
        if not isinstance(agent, LlmAgent):
            raise NotFoundError(f"Event {event_id!r} was made by {event.author}, not by a model.")
        scope = _scope(deps, step, session, event, revision=revision)
        scope.agent = agent
        async with time_limit(step.attempt_timeout):
            with missed_toolsets(waits=False) as missed:
                request = await build_request(agent, scope)
    except (RunError, AgentDefinitionError) as error:
        raise RequestNotRebuiltError(
            f"The request of {event_id!r} cannot be rebuilt: {error.message}"
        ) from error
    except TimeoutError:
        raise RequestNotRebuiltError(
            f"The instructions and toolsets of {event.author!r} took more than "
            f"{step.attempt_timeout:g} s, so the request of {event_id!r} was not rebuilt."
        ) from None
    label(request, agent)
    return RebuiltRequest(request, agent, event, [error.message for error in missed])


def _scope(
    deps: Dependencies,
    step: ReadModelRequestsStep,
    session: StoredSession,
    event: Event,
    *,
    revision: int,
) -> StepScope:
    """Return the scope of the call that made an event, as of a revision."""
    call = ModelStep(
        key=step.key,
        invocation_id=event.invocation_id,
        revision=revision,
        run_start=revision,
        agent=event.author,
        branch=event.branch,
        event_id=event.id,
        attempt_timeout=step.attempt_timeout,
        run_config=step.run_configs.get(event.invocation_id),
    )
    state = without_later(session.state, session.initial, session.log, revision=revision)
    before = [one.event for one in session.log if one.seq <= revision]
    known = KnownEvents.of(before, event.invocation_id)
    if _is_text_of_call(event, known.events[known.start :]):
        raise NotFoundError(f"Event {event.id!r} was made of the call before it.")
    return deps.scope_over(call, copy.deepcopy(state), known)


def _answer(session: StoredSession, event_id: str) -> tuple[Event, int]:
    """Return the first event that a model call made, and the revision before it."""
    known = {one.event.id: one for one in session.log}
    if event_id not in known:
        raise NotFoundError(f"The session has no event {event_id!r}.")
    stored = known[event_id]
    first = (stored.event.custom_metadata or {}).get(MODEL_CALL)
    stored = known.get(str(first), stored)
    event = stored.event
    calls = event.get_function_calls()
    if (
        event.author == USER
        or event.get_function_responses()
        or event.actions.compaction is not None
        or (calls and all(call.name in CONTROL_FUNCTIONS for call in calls))
    ):
        raise NotFoundError(f"Event {event_id!r} is not the answer of a model.")
    return event, stored.seq - 1


def _is_text_of_call(event: Event, before: list[Event]) -> bool:
    """Whether the loop made the event of a call of `set_model_response` (AGT-19)."""
    if event.finish_reason or event.usage_metadata or event.model_version:
        return False
    own = (one for one in reversed(before) if _place(one) == _place(event))
    last = next(own, None)
    responses = last.get_function_responses() if last else []
    return any(one.name == SET_MODEL_RESPONSE for one in responses)


def _place(event: Event) -> tuple[str, str | None]:
    return event.author, event.branch


def _shown(
    deps: Dependencies, step: ReadModelRequestsStep, rebuilt: RebuiltRequest
) -> ModelRequest:
    request, event = rebuilt.request, rebuilt.event
    kept = request.config.model_copy(update=dict.fromkeys(_ELSEWHERE))
    config, instruction = _dumped(kept), cast("Any", request.config).system_instruction
    if request.config.response_schema is not None:
        config["responseSchema"] = json_schema_of(request.config.response_schema)
    return ModelRequest(
        event_id=event.id,
        agent=event.author,
        model=request.model,
        system_instruction="\n\n".join(_texts(instruction)) or None,
        contents=[_content(content) for content in request.contents],
        tools=[_tool(one) for one in cast("list[Any]", request.config.tools or [])],
        config=config,
        differences=list(_differences(deps, step, rebuilt)),
    )


def _dumped(value: types.Content | types.GenerateContentConfig) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _texts(instruction: Any) -> Iterator[str]:
    match instruction:
        case None:
            pass
        case str():
            yield instruction
        case types.Content():
            yield from _texts(instruction.parts)
        case list():
            for one in cast("list[Any]", instruction):
                yield from _texts(one)
        case _:
            yield getattr(instruction, "text", None) or "[a file]"


def _tool(tool: Any) -> dict[str, Any]:
    """Return declarations, and of another tool the kind alone: its options may hold credentials."""
    if not isinstance(tool, types.Tool):
        return {type(tool).__name__: {}}
    fields = types.Tool.model_fields
    kinds = [name for name in fields if getattr(tool, name) is not None]
    shown: dict[str, Any] = {fields[name].alias or name: {} for name in kinds}
    if tool.function_declarations:
        shown["functionDeclarations"] = [
            one.model_dump(mode="json", by_alias=True, exclude_none=True)
            for one in tool.function_declarations
        ]
    return shown


def _content(content: types.Content) -> dict[str, Any]:
    """Leave out what only a model can read: the bytes of files, and signatures of thoughts."""
    shown = _dumped(content)
    for part in shown.get("parts", ()):
        part.pop("thoughtSignature", None)
        for one in (part, *part.get("functionResponse", {}).get("parts", ())):
            one.get("inlineData", {}).pop("data", None)
    return shown


def _differences(
    deps: Dependencies, step: ReadModelRequestsStep, rebuilt: RebuiltRequest
) -> Iterator[str]:
    """Yield why the model may have got another request."""
    request, agent, event = rebuilt.request, rebuilt.agent, rebuilt.event
    if event.invocation_id not in step.run_configs:
        yield "The options of the run (RunConfig) are not known any more."
    if as_list(agent.before_model_callback):
        yield f"before_model_callback of {agent.name} is not applied."
    for plugin in deps.registry.app(step.app).plugins:
        if "before_model_callback" in plugin.hooks():
            yield f"Plugin {plugin.name} is not applied."
    root = agent.root_agent
    above = [root.global_instruction] if isinstance(root, LlmAgent) else []
    if any(map(callable, [*above, agent.instruction])):
        yield "An instruction is a function, and says what it says now."
    if event.branch:
        yield "Another branch may have changed the state between the request and the answer."
    then: Any = (event.custom_metadata or {}).get(MISSING_TOOLSETS, [])
    if then != rebuilt.missed:
        yield f"Toolsets that could not be listed then: {then}; and now: {rebuilt.missed}."
    called = {call.name or "" for call in event.get_function_calls()} - CONTROL_FUNCTIONS
    for name in sorted(called - request.tools_dict.keys()):
        yield f"The answer calls {name}, which {agent.name} does not have now."
