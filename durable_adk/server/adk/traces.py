"""ADK's routes of traces, derived from the session store, so that old runs also have traces."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from typing import Any

from fastapi import APIRouter
from google.genai import types

from durable_adk.errors import AmbiguousInvocationError, DurableAdkError, NotFoundError
from durable_adk.events.event import Event
from durable_adk.server.caller import Caller, CurrentCaller
from durable_adk.server.feed import error_of
from durable_adk.server.routes.listing import OfSession, OfUser
from durable_adk.server.routes.model_requests import rebuilt_requests
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry.names import ERROR_TYPE, STACKTRACE
from durable_adk.wire.model_request import MAX_CALLS, ModelRequest

router = APIRouter(prefix="/dev/apps/{app_name}/debug/trace", tags=["traces"])
_NANOSECONDS = 1_000_000_000
_PAGES = 200
"""Maximum number of sessions with an id that are examined."""
_CALL = "call_llm"
_REQUEST = "gcp.vertex.agent.llm_request"
_REQUESTS_BYTES = 200_000
"""Maximum size of the model requests in a trace: ADK's page loads the trace after each run."""
_REBUILDING = 5.0
"""Seconds for adding model requests to a trace: ADK's page waits for it."""


@router.get("/session/{session_id}")
async def session_trace(
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    session_id: str,
    user_id: OfUser = None,
) -> list[dict[str, Any]]:
    """Return the spans of a session's runs: invocations, model calls and tools."""
    spans = list[dict[str, Any]]()
    found = await _sessions(services, caller, app_name, session_id, user_id)
    for key, errors in found.items():
        stored = await services.session_service.read_events(
            key, max_size=services.settings.max_session_bytes
        )
        spans += _spans(key, stored, errors)
    if len(found) == 1:
        calls = [one["attributes"] for one in spans if one["name"] == _CALL]
        await _add_requests(services, caller, next(iter(found)), calls)
    return spans


@router.get("/{event_id}")
async def event_trace(  # noqa: PLR0917 - FastAPI passes them by name
    services: CurrentServices,
    caller: CurrentCaller,
    app_name: str,
    event_id: str,
    user_id: OfUser = None,
    session_id: OfSession = None,
) -> dict[str, Any]:
    """Return the attributes of the span that produced an event."""
    user = caller.only(user_id)
    invocation_id = event_id.partition(".")[0]
    found = [
        (key, stored.event)
        for key in await services.session_service.sessions_with(invocation_id)
        if key.app_name == app_name
        and user in (None, key.user_id)
        and (session_id == key.session_id or (session_id is None and not key.is_child))
        and (stored := await services.session_service.find_event(key, event_id))
    ]
    if not found:
        raise NotFoundError("Trace not found")
    if len(found) > 1:
        raise AmbiguousInvocationError(
            f"Several sessions have an event {event_id!r}; pass user_id and session_id."
        )
    ((key, event),) = found
    span = _step(key, event, started=event.timestamp, parent=event.invocation_id)
    if span["name"] == _CALL:
        await _add_requests(services, caller, key, [span["attributes"]])
    return {**span["attributes"], "trace_id": span["trace_id"], "span_id": span["span_id"]}


async def _add_requests(
    services: ServerServices, caller: Caller, key: SessionKey, calls: Sequence[dict[str, Any]]
) -> None:
    """For operators, add model requests to the attributes of the newest calls."""
    newest = list(reversed(calls))[:MAX_CALLS]
    if not newest or not caller.is_operator:
        return
    by_event = {one["gcp.vertex.agent.event_id"]: one for one in newest}
    names = dict.fromkeys(one["gcp.vertex.agent.invocation_id"] for one in newest)
    read = services.session_service.get_invocation
    try:
        async with asyncio.timeout(_REBUILDING):
            records = await asyncio.gather(*(read(key, name) for name in names))
            runs = {one.invocation_id: one.lease_owner for one in records if one is not None}
            found = await rebuilt_requests(
                services,
                key,
                list(by_event),
                runs=runs,
                max_bytes=_REQUESTS_BYTES,
                seconds=_REBUILDING,
            )
    except (DurableAdkError, TimeoutError):
        return  # the trace is useful without them
    for request in found:
        with suppress(ValueError):  # google-genai does not know some kinds of tools
            by_event[request.event_id][_REQUEST] = _as_adk(request)


def _as_adk(request: ModelRequest) -> str:
    """Return a request in the format of google-adk's spans."""
    config = types.GenerateContentConfig.model_validate(
        {
            **{name: one for name, one in request.config.items() if name != "responseSchema"},
            "systemInstruction": request.system_instruction,
            "tools": request.tools or None,
        }
    )
    contents = [types.Content.model_validate(one) for one in request.contents]
    return json.dumps(
        {
            "model": request.model,
            "config": config.model_dump(mode="json", exclude_none=True),
            "contents": [one.model_dump(mode="json", exclude_none=True) for one in contents],
        },
        ensure_ascii=False,
    )


async def _sessions(
    services: ServerServices, caller: Caller, app_name: str, session_id: str, user_id: str | None
) -> dict[SessionKey, dict[str, dict[str, Any]]]:
    """Return the sessions with this id that the caller may read; several users may have one.

    The values are the errors of their invocations, by invocation id.
    """
    user = caller.only(user_id)
    found = await services.session_service.invocations_by_time(
        app_name=app_name, user_id=user, session_id=session_id, limit=_PAGES
    )
    errors = {key: dict[str, dict[str, Any]]() for key in sorted({key for key, _ in found})}
    for key, record in found:
        if error := error_of(record, caller):
            errors[key][record.invocation_id] = error
    return errors


def _spans(
    key: SessionKey, stored: Sequence[StoredEvent], errors: Mapping[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    runs = dict[str, list[Event]]()
    for item in stored:
        runs.setdefault(item.event.invocation_id, []).append(item.event)
    for events in runs.values():
        yield _run(key, events, errors.get(events[0].invocation_id))
        steps = [(one, event) for one, event in pairwise(events) if event.author != "user"]
        agents = groupby(steps, key=lambda step: (step[1].author, step[1].branch))
        for (agent, _), made in agents:
            own = list(made)
            name = f"invoke_agent {agent} {own[0][1].id}"
            yield _agent(key, own, name)
            for earlier, event in own:
                yield _step(key, event, started=earlier.timestamp, parent=name)


def _run(key: SessionKey, events: Sequence[Event], error: dict[str, Any] | None) -> dict[str, Any]:
    first, last = events[0], events[-1]
    attributes: dict[str, Any] = {
        "gcp.vertex.agent.associated_event_ids": [event.id for event in events],
        "gen_ai.operation.name": "invoke_agent",
    }
    if error is not None:
        attributes |= {ERROR_TYPE: error["type"], "exception.message": error["message"]}
        attributes |= {STACKTRACE: "\n".join(error["at"])} if "at" in error else {}
    name = first.invocation_id
    times = first.timestamp, last.timestamp
    return _span(key, first, name="invocation", own=name, times=times, attributes=attributes)


def _agent(key: SessionKey, steps: Sequence[tuple[Event, Event]], own: str) -> dict[str, Any]:
    """Return the span of an agent, from the event before the agent's first one."""
    (before, first), last = steps[0], steps[-1][1]
    return _span(
        key,
        first,
        name=f"invoke_agent {first.author}",
        own=own,
        times=(before.timestamp, last.timestamp),
        attributes={"gen_ai.operation.name": "invoke_agent"},
        parent=first.invocation_id,
    )


def _step(key: SessionKey, event: Event, *, started: float, parent: str) -> dict[str, Any]:
    responses = event.get_function_responses()
    attributes: dict[str, Any] = {"gcp.vertex.agent.event_id": event.id}
    if responses:
        name = f"execute_tool {', '.join(response.name or '' for response in responses)}"
        texts = [json.dumps(response.response, default=repr) for response in responses]
        attributes |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": responses[0].name or "",
            "gen_ai.tool.call.id": responses[0].id or "",
            "gcp.vertex.agent.tool_response": "\n".join(texts),
        }
    else:
        name = _CALL
        answer = event.model_dump_json(
            by_alias=True, exclude_none=True, include={"content", "finish_reason"}
        )
        attributes |= {
            "gen_ai.operation.name": "generate_content",
            "gen_ai.request.model": event.model_version or "",
            _REQUEST: "{}",
            "gcp.vertex.agent.llm_response": answer,
            **_tokens(event),
        }
    return _span(
        key,
        event,
        name=name,
        own=event.id,
        times=(started, event.timestamp),
        attributes=attributes,
        parent=parent,
    )


def _tokens(event: Event) -> dict[str, Any]:
    usage = event.usage_metadata
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt_token_count or 0,
        "gen_ai.usage.output_tokens": usage.candidates_token_count or 0,
    }


def _span(
    key: SessionKey,
    event: Event,
    *,
    name: str,
    own: str,
    times: tuple[float, float],
    attributes: dict[str, Any],
    parent: str | None = None,
) -> dict[str, Any]:
    common = {
        "gcp.vertex.agent.invocation_id": event.invocation_id,
        "gcp.vertex.agent.session_id": key.session_id,
        "gen_ai.agent.name": event.author,
        "gen_ai.conversation.id": key.session_id,
        "gen_ai.system": "durable_adk",
    }
    return {
        "name": name,
        "start_time": round(min(times) * _NANOSECONDS),
        "end_time": round(times[1] * _NANOSECONDS),
        "trace_id": _id([*key, event.invocation_id]),
        "span_id": _id([*key, "span", own]),
        "parent_span_id": None if parent is None else _id([*key, "span", parent]),
        "attributes": {**common, **attributes},
        "logs": list[Any](),
    }


def _id(names: Sequence[str]) -> int:
    """Return a span id that is always the same, and that JavaScript represents exactly."""
    digest = hashlib.sha256(json.dumps(names).encode()).digest()
    return int.from_bytes(digest[:6], "big")
