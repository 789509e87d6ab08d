"""Rebuilds requests of model calls from committed events and the agents' current code.

The code that builds requests for calls builds these, so it runs the agents' functions as another
attempt of the call would: instructions that are functions, toolsets, and tools that change the
request. These may run any number of times for a call anyway, because an attempt may be lost. Their
changes to the session are dropped, and the services reject changes. Callbacks and plugins may have
effects of any kind, so they do not run.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, TypeVar, cast

from google.genai import types

from durable_adk.activities.commit.session_cache import KnownEvents
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import without_later
from durable_adk.activities.model.readonly_services import read_only
from durable_adk.activities.model.request import build_request, label
from durable_adk.activities.user_code.callbacks import as_list
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import time_limit
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.client_requests import is_request
from durable_adk.conversation.history import USER
from durable_adk.errors import (
    AgentDefinitionError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    RequestNotRebuiltError,
    RunError,
)
from durable_adk.events.event import MISSING_TOOLSETS, MODEL_CALL, Event
from durable_adk.models.llm_request import SET_MODEL_RESPONSE, LlmRequest
from durable_adk.retrying import Deadline
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.tools.base_toolset import missed_toolsets
from durable_adk.tools.output_schema import json_schema_of
from durable_adk.wire.effect import Attempt
from durable_adk.wire.model_request import ModelRequest, ModelRequests, ReadModelRequestsStep
from durable_adk.wire.steps import ModelStep

_ELSEWHERE = ("http_options", "system_instruction", "tools", "response_schema")


class StoredSession(NamedTuple):
    """The source of rebuilt requests; the events are read last, so none is missing (D3)."""

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
    """A request with its sources."""

    request: LlmRequest
    agent: LlmAgent
    event: Event
    """The first event that the call produced."""
    missed: list[str]
    """Toolsets that could not be listed now, and why."""


async def read_model_requests(
    deps: Dependencies, step: ReadModelRequestsStep, attempt: Attempt
) -> ModelRequests:
    """Rebuild the requests of a step; with `skips` as many as fit into its size and time.

    Raises:
        UnknownAppError: The app is not served here.
        RateLimitError: Other attempts of this worker took all of the step's time.
        NotFoundError: There is no such event, or it is not from a model.
        RequestNotRebuiltError: The agents' current code cannot build the request.
        PayloadTooLargeError: They do not fit, and none may be skipped.
    """
    del attempt  # an attempt changes nothing
    deps.registry.app(step.app)
    page, room, deadline = ModelRequests(), step.max_bytes, Deadline(step.attempt_timeout)
    async with _turn(deps, step):
        session = await StoredSession.read(deps, step.key)
        for event_id in step.event_ids:
            if step.skips and deadline.left() <= 0:
                break
            try:
                found = await _found(deps, step, session, event_id, deadline)
            except (NotFoundError, RequestNotRebuiltError):
                if step.skips:
                    continue
                raise
            room -= len(found.to_json().encode())
            if room < 0 and step.skips:
                break
            if room < 0:
                raise PayloadTooLargeError(
                    f"The requests up to that of {event_id!r} have {step.max_bytes - room:,} "
                    f"bytes; together they may have at most {step.max_bytes:,}."
                )
            page.requests.append(found)
    return page


@asynccontextmanager
async def _turn(deps: Dependencies, step: ReadModelRequestsStep) -> AsyncGenerator[None]:
    """Wait until no other attempt of this worker has a session in memory."""
    try:
        async with asyncio.timeout(step.attempt_timeout):
            await deps.rebuilding.acquire()
    except TimeoutError:
        raise RateLimitError(
            "The worker rebuilds other requests of model calls; try again in some seconds."
        ) from None
    try:
        yield
    finally:
        deps.rebuilding.release()


async def _found(
    deps: Dependencies,
    step: ReadModelRequestsStep,
    session: StoredSession,
    event_id: str,
    deadline: Deadline,
) -> ModelRequest:
    try:
        async with time_limit(deadline.left()):
            rebuilt = await rebuild_request(deps, step, session, event_id)
    except TimeoutError:
        raise RequestNotRebuiltError(
            f"The request of {event_id!r} was not rebuilt within {step.attempt_timeout:g} s: its "
            "instructions and toolsets are slow, or the worker rebuilds others."
        ) from None
    if step.skips and not _is_marked(rebuilt.event):
        raise NotFoundError(f"A callback may have made event {event_id!r}.")
    found = _shown(deps, step, rebuilt)
    found.event_id = event_id
    return found


async def rebuild_request(
    deps: Dependencies, step: ReadModelRequestsStep, session: StoredSession, event_id: str
) -> RebuiltRequest:
    """Build the request that led to a model's event, as of the event before it.

    Raises:
        NotFoundError: There is no such event, or it is not from a model.
        RequestNotRebuiltError: The agents' current code cannot build the request.
    """
    event, revision = _answer(session, event_id)
    try:
        agent = deps.registry.agent(step.app, event.author)
        if not isinstance(agent, LlmAgent):
            raise NotFoundError(f"Event {event_id!r} was made by {event.author}, not by a model.")
        scope = _scope(deps, step, session, event, revision=revision)
        scope.agent = agent
        with missed_toolsets(waits=False) as missed:
            request = await build_request(agent, scope)
    except (RunError, AgentDefinitionError) as error:
        raise RequestNotRebuiltError(
            f"The request of {event_id!r} cannot be rebuilt: {error.message}"
        ) from error
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
    """Return the scope of the call that produced an event, as of a revision."""
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
    scope = deps.scope_over(call, copy.deepcopy(state), known)
    scope.services = read_only(scope.services)
    return scope


def _answer(session: StoredSession, event_id: str) -> tuple[Event, int]:
    """Return the first event that a model call produced, and the revision before it."""
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
        or (calls and all(is_request(event, call) for call in calls))
    ):
        raise NotFoundError(f"Event {event_id!r} is not the answer of a model.")
    return event, stored.seq - 1


def _is_text_of_call(event: Event, before: list[Event]) -> bool:
    """Return whether the loop derived the event from a `set_model_response` call (AGT-19)."""
    if _is_marked(event):
        return False
    own = (one for one in reversed(before) if _place(one) == _place(event))
    last = next(own, None)
    responses = last.get_function_responses() if last else []
    return any(one.name == SET_MODEL_RESPONSE for one in responses)


def _is_marked(event: Event) -> bool:
    """Return whether an event has fields that only a model sets; a model may set none of them."""
    return bool(
        event.finish_reason
        or event.usage_metadata
        or event.model_version
        or event.get_function_calls()
    )


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
    """Return a tool's declarations, or only its kind: the options may contain credentials."""
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
    """Remove data that only a model can read: the bytes of files, and signatures of thoughts."""
    parts = [_without_bytes(part) for part in content.parts or ()]
    return _dumped(content.model_copy(update={"parts": parts}))


def _without_bytes(part: types.Part) -> types.Part:
    """Return a copy without bytes: a file may have many megabytes, and more as text."""
    update: dict[str, Any] = {"thought_signature": None, "inline_data": _empty(part.inline_data)}
    response = part.function_response
    if response is not None:
        files = response.parts and [
            one.model_copy(update={"inline_data": _empty(one.inline_data)})
            for one in response.parts
        ]
        update["function_response"] = response.model_copy(update={"parts": files})
    return part.model_copy(update=update)


B = TypeVar("B", types.Blob, types.FunctionResponseBlob)


def _empty(file: B | None) -> B | None:
    return file and file.model_copy(update={"data": None})


def _differences(
    deps: Dependencies, step: ReadModelRequestsStep, rebuilt: RebuiltRequest
) -> Iterator[str]:
    """Yield the reasons why the model's actual request may have been different."""
    request, agent, event = rebuilt.request, rebuilt.agent, rebuilt.event
    if event.invocation_id not in step.run_configs:
        yield "The RunConfig of the run is no longer known."
    if as_list(agent.before_model_callback):
        yield f"before_model_callback of {agent.name} is not applied."
    for plugin in deps.registry.app(step.app).plugins:
        if "before_model_callback" in plugin.hooks():
            yield f"Plugin {plugin.name} is not applied."
    root = agent.root_agent
    above = [root.global_instruction] if isinstance(root, LlmAgent) else []
    if any(map(callable, [*above, agent.instruction])):
        yield "An instruction is a function, and says what it says now."
    if not _is_marked(event):
        yield (
            "The event has no call, and neither finish reason nor tokens nor a model's version: a "
            "callback may have made it."
        )
    if event.branch:
        yield "Another branch may have changed the state between the request and the answer."
    then: Any = (event.custom_metadata or {}).get(MISSING_TOOLSETS, [])
    if then != rebuilt.missed:
        yield f"Toolsets that could not be listed then: {then}; and now: {rebuilt.missed}."
    calls = event.get_function_calls()
    called = {call.name or "" for call in calls if not is_request(event, call)}
    for name in sorted(called - request.tools_dict.keys()):
        yield f"The answer calls {name}, which {agent.name} does not have now."
