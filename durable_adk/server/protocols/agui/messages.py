"""Conversion of a front end's AG-UI messages to ADK's content, and of events to messages."""

import base64
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    ContentPart,
    DataSource,
    DocumentPart,
    FunctionCall,
    ImagePart,
    Message,
    ReasoningMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
    VideoPart,
)
from google.genai import types

from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS
from durable_adk.conversation.history import USER
from durable_adk.conversation.nodes.events import result_text
from durable_adk.conversation.sent_message import MESSAGE_ID
from durable_adk.errors import InvalidRequestError
from durable_adk.events.event import Event


class ToolResult(NamedTuple):
    """The result of a call, for a tool message."""

    message_id: str
    call_id: str
    content: str


_MEDIA = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}


def content_of(message: UserMessage) -> types.Content:
    """Return a user's message as ADK's content.

    Raises:
        InvalidRequestError: The message has neither text nor parts, or data that is not base64.
    """
    content = message.content
    parts = (
        [types.Part(text=content)] if isinstance(content, str) else [_part(one) for one in content]
    )
    return types.Content(role="user", parts=parts)


def _part(part: ContentPart) -> types.Part:
    if isinstance(part, TextPart):
        return types.Part(text=part.text)
    source = part.source
    if isinstance(source, DataSource):
        try:
            data = base64.b64decode(source.value, validate=True)
        except ValueError:
            raise InvalidRequestError(
                f"messages: the data of a part of type {part.type} is not base64."
            ) from None
        return types.Part(inline_data=types.Blob(data=data, mime_type=source.mime_type))
    return types.Part(file_data=types.FileData(file_uri=source.value, mime_type=source.mime_type))


def messages_of(
    event: Event, results: Iterable[ToolResult], subagent: str | None = None
) -> list[Message]:
    """Return a committed event as messages.

    Args:
        event: The event.
        results: Those of its results to include.
        subagent: The run of its sub-agent.
    """
    attributed: dict[str, Any] = {"subagent_run_id": subagent} if subagent else {}
    tool_messages: list[Message] = [
        ToolMessage(id=one.message_id, tool_call_id=one.call_id, content=one.content, **attributed)
        for one in results
    ]
    if event.author == USER:
        return [*_user_messages(event), *tool_messages]
    found: list[Message] = []
    if thoughts := text_of(event, thoughts=True):
        name = reasoning_id(event.id)
        found.append(ReasoningMessage(id=name, content=thoughts, **attributed))
    text = text_of(event)
    calls = [_tool_call(call) for call in calls_of(event)]
    if text or calls:
        more: dict[str, Any] = {"content": text} if text else {}
        more |= {"tool_calls": calls} if calls else {}
        found.append(AssistantMessage(id=event.id, **more, **attributed))
    return [*found, *tool_messages]


def _user_messages(event: Event) -> list[Message]:
    parts = (
        [part for part in event.content.parts or [] if not part.function_response]
        if (event.content)
        else []
    )
    if not parts:
        return []
    # A front end keeps the order of known messages by their ids.
    name = str((event.custom_metadata or {}).get(MESSAGE_ID) or event.id)
    if all(part.text is not None for part in parts):
        return [UserMessage(id=name, content="".join(part.text or "" for part in parts))]
    return [UserMessage(id=name, content=[one for part in parts for one in _shown(part)])]


def _shown(part: types.Part) -> Iterable[ContentPart]:
    if part.text is not None:
        yield TextPart(text=part.text)
    elif part.inline_data and part.inline_data.data is not None:
        mime_type = part.inline_data.mime_type or "application/octet-stream"
        data = base64.b64encode(part.inline_data.data).decode()
        kind = _MEDIA.get(mime_type.partition("/")[0], DocumentPart)
        yield kind(source=DataSource(value=data, mime_type=mime_type))
    elif part.file_data and part.file_data.file_uri:
        mime_type = part.file_data.mime_type or ""
        kind = _MEDIA.get(mime_type.partition("/")[0], DocumentPart)
        source = UrlSource(value=part.file_data.file_uri, mime_type=mime_type or None)
        yield kind(source=source)


def text_of(event: Event, *, thoughts: bool = False) -> str:
    """Return the text of an event, or of its thoughts; also the output of the app's graph."""
    parts = (event.content.parts if event.content else None) or []
    text = "".join(part.text or "" for part in parts if bool(part.thought) is thoughts)
    return text if text or thoughts else result_text(event)


def calls_of(event: Event) -> list[types.FunctionCall]:
    """Return the tool calls of an event, without the runtime's requests to the user."""
    if event.author == USER:
        return []
    return [call for call in event.get_function_calls() if call.name not in CONTROL_FUNCTIONS]


def results_of(event: Event) -> list[ToolResult]:
    """Return the results of calls in an event.

    Answers to the runtime's requests are omitted, and so are the results of the calls that need
    one.
    """
    requested = {
        *event.actions.requested_tool_confirmations,
        *event.actions.requested_auth_configs,
    }
    return [
        ToolResult(
            message_id=f"{event.id}:{response.id or ''}",
            call_id=response.id or "",
            content=json.dumps(response.response or {}, ensure_ascii=False),
        )
        for response in event.get_function_responses()
        if response.name not in CONTROL_FUNCTIONS and response.id not in requested
    ]


def is_of_server(message: Message) -> bool:
    """Return whether the server has sent a message: a tool's result, a text or a thought."""
    if isinstance(message, ToolMessage):
        return message.id.endswith(f":{message.tool_call_id}")
    return isinstance(message, AssistantMessage | ReasoningMessage)


def result_ids_of(messages: Iterable[Message]) -> dict[str, str]:
    """Return the ids of the messages in which a front end has sent results, by call id."""
    return {
        one.tool_call_id: one.id
        for one in messages
        if isinstance(one, ToolMessage) and not is_of_server(one)
    }


def reasoning_id(event_id: str) -> str:
    """Return the id of the message with an event's thoughts."""
    return f"{event_id}:reasoning"


def arguments_of(call: types.FunctionCall) -> str:
    """Return a call's arguments as JSON."""
    return json.dumps(call.args or {}, ensure_ascii=False)


def _tool_call(call: types.FunctionCall) -> ToolCall:
    function = FunctionCall(name=call.name or "", arguments=arguments_of(call))
    return ToolCall(id=call.id or "", function=function)
