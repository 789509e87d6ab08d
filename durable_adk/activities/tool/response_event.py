"""Builds the event for a tool's response, with the request to the user, if any."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.genai import types

from durable_adk.context.activity import ToolContext
from durable_adk.conversation.client_requests import confirmation_metadata
from durable_adk.errors import PayloadTooLargeError, StateValueError, ToolResultError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ConfirmationRequester
from durable_adk.json_values import check_json, to_json_value
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.finish_task_tool import FinishTaskTool
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import StepResult, ToolStep


def response_event(
    response: Any,
    call: types.FunctionCall,
    context: ToolContext,
    step: ToolStep,
    *,
    tool: BaseTool | None,
    noted: Sequence[types.FunctionResponsePart] = (),
) -> Event:
    """Return the response as an event that can be stored.

    Args:
        response: The tool's result, or its substitute.
        call: The call.
        context: The context of the call.
        step: The step.
        tool: The tool; None if there is none.
        noted: The files of a result whose note, by an earlier attempt, is without them.

    Raises:
        ToolResultError: The result is not JSON or too large.
        StateValueError: A state value was changed in place into a value that is not JSON.
    """
    shown = _shown(response) if isinstance(tool, AgentTool) else ""
    response, media = result_and_media(response)
    response = _checked(response, f"the result of tool {call.name!r}")
    check_json(context.state.collect_delta(), "state_delta")
    parts: list[types.Part] = []
    if shown and context.actions.skip_summarization and "error" not in response:
        # The agent's output ends the caller's turn, so it is included as text too (17.1, TOL-21).
        parts.append(types.Part(text=shown))
    answer = types.FunctionResponse(
        id=call.id,
        name=call.name,
        response=response,
        parts=[*media, *noted] or None,
    )
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        content=types.Content(role="user", parts=[types.Part(function_response=answer), *parts]),
        actions=context.actions,
        output=context.output if isinstance(tool, FinishTaskTool) else None,
    )
    return _fitting(event, f"The result of tool {call.name!r}")


def _fitting(event: Event, what: str) -> Event:
    """Return the event if it is small enough.

    Raises:
        ToolResultError: It is too large.
    """
    try:
        check_event(event, what)
    except PayloadTooLargeError as error:
        raise ToolResultError(error.message) from None
    return event


def _checked(value: Any, what: str) -> dict[str, Any]:
    """Return a result as a dict.

    Raises:
        ToolResultError: It is not JSON.
    """
    try:
        check_json(value, what)
    except StateValueError as error:
        raise ToolResultError(error.message) from None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"result": value}  # FLW-49


def result_and_media(response: Any) -> tuple[Any, list[types.FunctionResponsePart]]:
    """Return a tool's result as JSON, and separately its files, which a model receives as such.

    Any result that is not a dict becomes the value of ``result``.
    """
    media: list[types.FunctionResponsePart] = []
    rest = _without_media(response, media)
    return _value({} if rest is _MEDIA else rest), media


_MEDIA = object()
"""Marks a value that is a file."""
MAX_CONTAINERS = 8
"""Depth, in dicts and lists, to which files are searched."""


def _without_media(value: Any, media: list[types.FunctionResponsePart], depth: int = 0) -> Any:
    """Return a value without its parts that are files, which are added to `media`."""
    part = _media(value) if isinstance(value, types.Part) else None
    if part is not None:
        media.append(part)
        return _MEDIA
    if depth < MAX_CONTAINERS and isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        pairs = ((key, _without_media(item, media, depth + 1)) for key, item in items)
        return {key: item for key, item in pairs if item is not _MEDIA}
    if depth < MAX_CONTAINERS and isinstance(value, (list, tuple)):
        members = cast("Sequence[Any]", value)
        rest = (_without_media(item, media, depth + 1) for item in members)
        return [item for item in rest if item is not _MEDIA]
    return value


def _media(part: types.Part) -> types.FunctionResponsePart | None:
    blob, file = part.inline_data, part.file_data
    if blob is not None and blob.data is not None and blob.mime_type:
        return types.FunctionResponsePart.from_bytes(data=blob.data, mime_type=blob.mime_type)
    if file is not None and file.file_uri and file.mime_type:
        return types.FunctionResponsePart.from_uri(file_uri=file.file_uri, mime_type=file.mime_type)
    return None


def _value(response: Any) -> Any:
    value: Any = to_json_value(response, of_tool=True)
    is_object = isinstance(value, dict) and not isinstance(response, Mapping)
    return cast("Any", {"result": value} if is_object else value)


def _shown(response: Any) -> str:
    """Return an agent's output as text; empty if there is nothing to show."""
    if response is None or isinstance(response, str):
        return response or ""
    return json.dumps(to_json_value(response), ensure_ascii=False, default=str)


def pending_result(context: ToolContext, step: ToolStep) -> StepResult:
    """Return the result of a started long-running call; changes get their own event (TRAP-9)."""
    delta = context.state.collect_delta()
    check_json(delta, "state_delta")
    actions = EventActions(
        state_delta=delta,
        state_read=context.actions.state_read,
        artifact_delta=context.actions.artifact_delta,
    )
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        actions=actions,
    )
    check_event(event, f"What tool {step.tool!r} changed")
    changed = delta or actions.artifact_delta
    return StepResult(pending=True, event=event if changed else None)


def unknown_tool(name: str, known: list[str]) -> dict[str, str]:
    """Return the response to a call of a tool that does not exist (FLW-47)."""
    tools = ", ".join(known) or "none"
    return {"error": f"Tool {name!r} not found. The available tools are: {tools}."}


def waits_for_user(context: ToolContext) -> bool:
    """Return whether the call needs an approval or a credential first."""
    actions = context.actions
    return bool(actions.requested_tool_confirmations or actions.requested_auth_configs)


def record_requester(
    context: ToolContext, asker: ConfirmationRequester
) -> ConfirmationRequester | None:
    """Record which code requested the call's confirmation; the first requester is kept."""
    if context.function_call_id in context.actions.requested_tool_confirmations:
        context.requested_by = context.requested_by or asker
    return context.requested_by


def request_metadata(context: ToolContext) -> dict[str, Any] | None:
    """Return the metadata for the call's response, or None if no confirmation was requested."""
    asker = record_requester(context, "tool")
    return None if asker is None else confirmation_metadata(context.function_call_id or "", asker)
