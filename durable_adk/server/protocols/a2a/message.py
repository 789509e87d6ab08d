"""Conversion of A2A messages to content of events, and back."""

import json
from collections.abc import Sequence
from typing import Any, cast

from a2a.types import Message, Part, Role
from a2a.utils.errors import InvalidParamsError
from google.genai import types
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from durable_adk.conversation.answers import response_message
from durable_adk.conversation.nodes.events import result_text
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.events.event import Event

_BYTES = "application/octet-stream"


def content_of(message: Message) -> types.Content:
    """Return a message's content for a model; data becomes JSON text.

    Raises:
        InvalidParamsError: The message is empty.
    """
    parts = [_content_part(part) for part in message.parts if part.WhichOneof("content")]
    if not parts:
        raise InvalidParamsError("The message has no parts.")
    return types.Content(role="user", parts=parts)


def _content_part(part: Part) -> types.Part:
    kind, name = part.media_type or _BYTES, part.filename or None
    match part.WhichOneof("content"):
        case "raw":
            blob = types.Blob(data=part.raw, mime_type=kind, display_name=name)
            return types.Part(inline_data=blob)
        case "url":
            file = types.FileData(file_uri=part.url, mime_type=kind, display_name=name)
            return types.Part(file_data=file)
        case "data":
            return types.Part(text=json.dumps(_value(part), ensure_ascii=False))
        case _:
            return types.Part(text=part.text)


def parts_of(parts: Sequence[types.Part] | None) -> list[Part]:
    """Return the public part of contents: text and files, without thoughts and calls."""
    shown = (_shown(part) for part in parts or () if not part.thought)
    return [part for part in shown if part is not None]


def public_parts(event: Event) -> list[Part]:
    """Return the public part of an event; for the output of the app's graph that output."""
    parts = parts_of(event.content and event.content.parts)
    return parts or ([Part(text=text)] if (text := result_text(event)) else [])


def _shown(part: types.Part) -> Part | None:
    if part.text:
        return Part(text=part.text)
    if blob := part.inline_data:
        kind, name = blob.mime_type or "", blob.display_name or ""
        return Part(raw=blob.data or b"", media_type=kind, filename=name)
    if file := part.file_data:
        kind, name = file.mime_type or "", file.display_name or ""
        return Part(url=file.file_uri or "", media_type=kind, filename=name)
    return None


def data_part(value: Any) -> Part:
    """Return a part with JSON."""
    return Part(data=ParseDict(value, Value()), media_type="application/json")


def user_message(event: Event, task_id: str, context_id: str) -> Message:
    """Return a user's message or answers."""
    answers = [
        data_part({"callId": one.id, "response": one.response or {}})
        for one in event.get_function_responses()
    ]
    return Message(
        message_id=event.id,
        task_id=task_id,
        context_id=context_id,
        role=Role.ROLE_USER,
        parts=[*public_parts(event), *answers],
    )


def answer_of(message: Message, pending: Sequence[PendingCall]) -> types.Content:
    """Return a message as answers to pending calls.

    A data part with `callId` answers that call, with its `response`, or `confirmed` and `payload`.
    Without an id, data or text answers the only pending call. A text cannot answer a confirmation,
    which needs data.

    Raises:
        InvalidParamsError: The answered call, or the answer, is not clear.
    """
    parts = [part for part in message.parts if part.WhichOneof("content")]
    data = [_answering(part) for part in parts if part.HasField("data")]
    if data and len(data) < len(parts):
        raise InvalidParamsError("Send data parts that answer calls without other parts.")
    if any("callId" in one for one in data):
        calls = {call.call_id: call for call in pending}
        responses = [_response(_named(one, calls), one) for one in data]
    else:
        call = _only(pending)
        if len(data) > 1:
            raise InvalidParamsError("Send one data part, or several with `callId`.")
        responses = [_response(call, data[0] if data else _text(message, call))]
    return response_message(responses)


def _answering(part: Part) -> dict[str, Any]:
    """Return the data of an answer; google-adk's clients send function responses."""
    found = _value(part)
    if not isinstance(found, dict):
        raise InvalidParamsError("Data that answers a call must be a JSON object.")
    data = cast("dict[str, Any]", found)
    if "function_response" in MessageToDict(part.metadata).values() and "id" in data:
        return {"callId": data["id"], "response": data.get("response")}
    return data


def _named(data: dict[str, Any], calls: dict[str, PendingCall]) -> PendingCall:
    call = calls.get(str(data.get("callId")))
    if call is None:
        raise InvalidParamsError(
            f"No call {data.get('callId')!r} waits for an answer; these do: {', '.join(calls)}."
        )
    return call


def _only(pending: Sequence[PendingCall]) -> PendingCall:
    if len(pending) != 1:
        names = ", ".join(f"{call.call_id} ({call.original_name})" for call in pending)
        raise InvalidParamsError(
            f"Several calls wait for an answer: {names}. Name the one in a data part: "
            '{"callId": ..., "response": {...}} or {"callId": ..., "confirmed": true}.'
        )
    return pending[0]


def _text(message: Message, call: PendingCall) -> dict[str, Any]:
    if call.kind != "long_running":
        needed = '{"confirmed": true} or false' if call.kind == "confirmation" else "its authConfig"
        raise InvalidParamsError(
            f"The call {call.call_id!r} is answered by a data part with {needed}, not by text."
        )
    return {"result": "\n".join(part.text for part in message.parts if part.text)}


def _response(call: PendingCall, data: dict[str, Any]) -> tuple[PendingCall, dict[str, Any]]:
    response = {name: value for name, value in data.items() if name != "callId"}
    inner = response.get("response")
    if set(response) == {"response"} and isinstance(inner, dict):
        response = cast("dict[str, Any]", inner)
    return call, response


def _value(part: Part) -> Any:
    try:
        return _whole(MessageToDict(part.data))
    except ValueError:
        raise InvalidParamsError("A data part has a number that JSON cannot hold.") from None


def _whole(value: Any) -> Any:
    """Restore integers in JSON; A2A messages have only floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(one) for one in cast("list[Any]", value)]
    return value
