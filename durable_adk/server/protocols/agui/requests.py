"""Conversion of AG-UI requests to messages and answers for invocations."""

import json
from contextlib import suppress
from typing import Any, cast

from ag_ui.core import (
    Message,
    ResumeEntry,
    RunAgentInput,
    Tool,
    ToolMessage,
    UserMessage,
)
from google.genai import types

from durable_adk.client.answers import SentAnswer
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.conversation.answers import response_message
from durable_adk.conversation.pending_calls import (
    CallStatus,
    PendingCall,
    TrackedCall,
    pending_calls,
    track_calls,
)
from durable_adk.conversation.sent_message import MESSAGE_ID
from durable_adk.errors import InvalidRequestError
from durable_adk.events.event import Event
from durable_adk.json_values import to_json_value
from durable_adk.server.protocols.agui.events import shown_state
from durable_adk.server.protocols.agui.messages import content_of, is_of_server
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.tools.agui_toolset import FRONT_END_TOOLS, check_declared
from durable_adk.wire.messages import InvocationRequest

CONTEXT = "ag_ui_context"
"""The state key for the front end's context for the agent."""
_NOTHING_NEW = (
    "messages: The last one must be the user's, or the result of a call that waits. To follow a "
    "run, send its `runId`."
)


async def request_of(
    client: InvocationClient,
    key: SessionKey,
    body: RunAgentInput,
    state: dict[str, Any],
    *,
    name: str,
) -> InvocationRequest:
    """Return the request that starts or resumes an invocation.

    Args:
        client: The client that sends the request.
        key: The session.
        body: The front end's request.
        state: The session's state; values that the front end has not changed are not sent.
        name: Id of the invocation that the request starts, unless it resumes one.

    Raises:
        CallerError: The request is malformed, or does not fit the session's pending calls.
    """
    sent = _sent_by_front_end(body.messages)
    request = InvocationRequest.parse(
        {
            **key.ids(),
            "invocation_id": name,
            "message": await _message(client.sessions, key, body, sent),
            "state_delta": _changed(body, state),
            "run_config": {"streaming_mode": "sse", "custom_metadata": _metadata(body)},
            "create_session": True,
        }
    )
    has_nothing_new = not body.resume and len(sent) < len(body.messages)
    if has_nothing_new and not await _is_begun(client, key, request):
        raise InvalidRequestError(_NOTHING_NEW)
    return request


async def _is_begun(client: InvocationClient, key: SessionKey, request: InvocationRequest) -> bool:
    if await client.sessions.get_invocation(key, request.invocation_id or ""):
        return True
    with suppress(InvalidRequestError):
        return (await client.judge(SentAnswer(request=request))).first is not None
    return False


def _metadata(body: RunAgentInput) -> dict[str, Any] | None:
    user_messages = [message for message in body.messages if isinstance(message, UserMessage)]
    return None if body.resume or not user_messages else {MESSAGE_ID: user_messages[-1].id}


def _changed(body: RunAgentInput, state: dict[str, Any]) -> dict[str, Any]:
    """Return the front end's changes of the state."""
    sent_state: Any = body.state
    if sent_state is not None and not isinstance(sent_state, dict):
        raise InvalidRequestError("state: It must be an object, or null.")
    new = shown_state(cast("dict[str, Any]", sent_state or {}))
    if body.context:
        new[CONTEXT] = [to_json_value(one.model_dump(mode="json")) for one in body.context]
    if body.tools or FRONT_END_TOOLS in state:
        new[FRONT_END_TOOLS] = [
            _declared(tool, f"tools[{index}]") for index, tool in enumerate(body.tools or ())
        ]
    return {name: value for name, value in new.items() if state.get(name, body) != value}


def _declared(tool: Tool, field: str) -> dict[str, Any]:
    declared: Any = to_json_value(tool.model_dump(mode="json"))
    check_declared(declared, field)
    return {name: declared.get(name) for name in ("name", "description", "parameters")}


async def _message(
    sessions: SessionLog, key: SessionKey, body: RunAgentInput, sent: list[Message]
) -> types.Content:
    results = _last_results(sent)
    if body.resume:
        return await _resumed(sessions, key, body.resume, results)
    if results:
        return await _answered(sessions, key, results)
    last = sent[-1] if sent else None
    if not isinstance(last, UserMessage):
        raise InvalidRequestError(_NOTHING_NEW)
    await _check_taken(sessions, key, _last_results(sent[:-1]))
    return content_of(last)


async def _check_taken(sessions: SessionLog, key: SessionKey, results: list[ToolMessage]) -> None:
    """Refuse a message after results that no run has accepted: they would be lost."""
    if not results:
        return
    _, calls = await _calls(sessions, key, [result.tool_call_id for result in results])
    if waiting := [name for name, one in calls.items() if one.status is CallStatus.OPEN]:
        raise InvalidRequestError(
            f"messages: The results of {', '.join(waiting)} have not been sent yet, and only the "
            "last message is taken. Send them first, without the message behind them."
        )


def _sent_by_front_end(messages: list[Message]) -> list[Message]:
    """Omit messages at the end that the server has sent, e.g. the beginning of a lost stream."""
    count = len(messages)
    while count and is_of_server(messages[count - 1]):
        count -= 1
    return messages[:count]


def _last_results(messages: list[Message]) -> list[ToolMessage]:
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        found.insert(0, message)
    return found


async def _resumed(
    sessions: SessionLog, key: SessionKey, resume: list[ResumeEntry], results: list[ToolMessage]
) -> types.Content:
    """Return the answers to a run's interrupts, which must be complete in AG-UI.

    The request may also have results of the front end's own tools.
    """
    results_by_call = {result.tool_call_id: result for result in results}
    interrupt_ids = [entry.interrupt_id for entry in resume]
    events, calls = await _calls(sessions, key, [*interrupt_ids, *results_by_call])
    unknown = [entry.interrupt_id for entry in resume if entry.interrupt_id not in calls]
    if unknown:
        raise InvalidRequestError(f"resume: The session has no interrupts {', '.join(unknown)}.")
    answered = {entry.interrupt_id for entry in resume}
    # Repeated answers need not answer later interrupts.
    if all(calls[name].status is CallStatus.OPEN for name in answered):
        runs = {calls[name].call.invocation_id for name in answered}
        waiting = [call for call in pending_calls(events) if call.invocation_id in runs]
        answered_ids = answered | results_by_call.keys()
        if missing := [call.call_id for call in waiting if call.call_id not in answered_ids]:
            raise InvalidRequestError(
                f"resume: The run also waits for {', '.join(missing)}; answer all its interrupts."
            )
    of_tools = [
        (calls[name].call, _result(result))
        for name, result in results_by_call.items()
        if name in calls.keys() - answered
    ]
    answers = (
        (calls[entry.interrupt_id].call, _response(calls[entry.interrupt_id].call, entry))
        for entry in resume
    )
    return response_message([*answers, *of_tools])


async def _answered(
    sessions: SessionLog, key: SessionKey, results: list[ToolMessage]
) -> types.Content:
    """Return the results of long-running calls, which a front end also sends as messages."""
    _, calls = await _calls(sessions, key, [result.tool_call_id for result in results])
    found = [
        (calls[result.tool_call_id].call, _result(result))
        for result in results
        if result.tool_call_id in calls
    ]
    if not found:
        names = ", ".join(result.tool_call_id for result in results)
        raise InvalidRequestError(f"messages: No call waits for the results of {names}.")
    return response_message(found)


async def _calls(
    sessions: SessionLog, key: SessionKey, names: list[str]
) -> tuple[list[Event], dict[str, TrackedCall]]:
    events = [one.event for one in await sessions.read_from_calls(key, names)]
    return events, track_calls(events)


def _response(call: PendingCall, entry: ResumeEntry) -> dict[str, Any]:
    """Return the response to a call that corresponds to an answer to its interrupt."""
    payload: Any = entry.payload
    if call.kind == "confirmation":
        return _decision(entry)
    if call.kind == "long_running":
        if entry.status == "cancelled":
            return {"status": "cancelled"}
        return cast("dict[str, Any]", payload) if isinstance(payload, dict) else {"result": payload}
    if entry.status == "cancelled" or not isinstance(payload, dict):
        raise InvalidRequestError(
            f"resume: {call.call_id}: The call waits for a credential; the payload is the "
            "`authConfig` with it. To continue without one, cancel the run."
        )
    return cast("dict[str, Any]", payload)


def _decision(entry: ResumeEntry) -> dict[str, Any]:
    if entry.status == "cancelled":
        return {"confirmed": False}
    payload: Any = entry.payload
    decision = cast(
        "dict[str, Any]", payload if isinstance(payload, dict) else {"confirmed": payload}
    )
    if "editedArgs" in decision:
        raise InvalidRequestError(
            f"resume: {entry.interrupt_id}: The arguments of a call cannot be changed; reject it, "
            "and tell the agent why."
        )
    confirmed = decision.get("confirmed", decision.get("approved"))
    if not isinstance(confirmed, bool):
        raise InvalidRequestError(
            f"resume: {entry.interrupt_id}: The payload must be true or false, or have `confirmed` "
            "or `approved`."
        )
    return {
        "confirmed": confirmed,
        **({"payload": decision["payload"]} if "payload" in decision else {}),
    }


def _result(message: ToolMessage) -> dict[str, Any]:
    """Return a tool's result; other values than objects are in `result`, a failure in `error`."""
    content: Any = message.content
    if not isinstance(content, str):
        content = json.dumps([to_json_value(part.model_dump(mode="json")) for part in content])
    failed = {} if message.error is None else {"error": message.error}
    if failed and not content:
        return failed
    try:
        found: Any = json.loads(content)
    except ValueError:
        found = content
    result = cast("dict[str, Any]", found) if isinstance(found, dict) else {"result": found}
    return result | failed
