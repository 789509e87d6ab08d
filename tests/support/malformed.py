"""JSON with a value of a wrong type in one place, for every enumeration of a model."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import BaseModel


def wrong_enumerations(kind: type[BaseModel], depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Yield the place of each enumeration that a model has, and an object with a number there."""
    for field in kind.model_fields.values():
        name = field.alias or ""
        for one in _plain(field.annotation):
            several = get_origin(one) is list
            inner = get_args(one)[0] if several else one
            if not isinstance(inner, type):
                continue
            if issubclass(inner, Enum):
                yield name + ".0" * several, {name: [5] if several else 5}
            elif issubclass(inner, BaseModel) and depth:
                for place, value in wrong_enumerations(inner, depth - 1):
                    yield f"{name}{'.0' * several}.{place}", {name: [value] if several else value}


def _plain(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (None, list, dict):
        yield annotation
    else:
        for one in get_args(annotation):
            yield from _plain(one)


OLGAS = "/apps/app/users/olga/sessions"
HOSTILE = {
    "lone surrogate": r'"\ud800"',
    "NUL": r'"\u0000"',
    "object with a lone surrogate": r'{"a": "\ud800"}',
    "not a number": '{"a": NaN}',
    "not finite": '{"a": 1e999}',
    "deep": '{"a":' * 100 + "1" + "}" * 100,
    "deeper than pydantic writes": '{"a":' * 300 + "1" + "}" * 300,
    "deeper than Python reads": "[" * 5_000 + "]" * 5_000,
    "more digits than Python reads": "9" * 5_000,
    "a large number": "9" * 4_000,
    "objects in a list": "[{}]",
}
"""JSON that Python's reader takes and others do not, by what is wrong with it."""


def bodies(invocation_id: str) -> Iterator[tuple[str, str, Any]]:
    """Yield requests of Olga as method, path and body, each with "?" in some places.

    Args:
        invocation_id: An invocation of anybody.
    """
    said = {"newMessage": {"parts": [{"text": "x"}]}}
    answer = {"functionResponse": {"id": "c", "name": "f", "response": "?"}}
    ids = {"appName": "app", "userId": "olga", "sessionId": "s"}
    for path in ("/run", "/run_sse", "/invocations"):
        for part in (answer, {"text": "x", "partMetadata": "?"}, {"fileData": {"fileUri": "?"}}):
            yield "POST", path, {**ids, "newMessage": {"parts": [part]}}
        yield "POST", path, {**ids, **said, "stateDelta": {"a": "?"}}
        yield "POST", path, {**ids, **said, "customMetadata": {"a": "?"}}
    yield "POST", OLGAS, {"state": {"a": "?"}}
    content = {"parts": [{"functionCall": {"name": "f", "args": "?"}}]}
    for event in ({"author": "?"}, {"customMetadata": {"a": "?"}}, {"content": content}):
        yield "POST", OLGAS, {"events": [{"author": "a", **event}]}
    yield "POST", f"{OLGAS}/t", {"a": "?"}
    yield "PATCH", f"{OLGAS}/s", {"stateDelta": {"a": "?"}}
    artifact = {"filename": "f", "artifact": {"text": "x"}}
    for field in ({"filename": "?"}, {"artifact": {"text": "?"}}, {"customMetadata": {"a": "?"}}):
        yield "POST", f"{OLGAS}/s/artifacts", artifact | field
    yield "POST", f"{OLGAS}/s/rewind", {"invocationId": "?"}
    yield "PATCH", "/apps/app/users/olga/memory", {"sessionId": "?"}
    for given in ({"callId": "?", "response": {}}, {"callId": "c", "response": {"a": "?"}}):
        yield "POST", f"/invocations/{invocation_id}/answers", given
    yield "POST", f"/invocations/{invocation_id}/steer", {"message": {"parts": [{"text": "?"}]}}
    yield from _of_protocols()


def _of_protocols() -> Iterator[tuple[str, str, Any]]:
    user = {"id": "1", "role": "user", "content": "x"}
    run = {"threadId": "t", "runId": "r", "tools": [], "context": [], "state": {}}
    resume = {"interruptId": "?", "status": "resolved", "payload": {"a": "?"}}
    tool = {"name": "a", "description": "?", "parameters": {"a": "?"}}
    for field in (
        {"runId": "?"},
        {"threadId": "?"},
        {"messages": [{**user, "content": "?"}]},
        {"messages": [{**user, "id": "?"}]},
        {"state": {"a": "?"}},
        {"tools": [tool]},
        {"context": [{"description": "?", "value": "?"}]},
        {"resume": [resume]},
    ):
        yield "POST", "/agui/app", {**run, "messages": [user], **field}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    data = [{"kind": "data", "data": {"a": "?"}}]
    for field in (
        {"parts": [{"text": "?"}]},
        {"parts": [{"data": {"a": "?"}}]},
        {"messageId": "?"},
    ):
        yield "POST", "/a2a/app/message:send", {"message": message | field}
        call = {"method": "SendMessage", "params": {"message": message | field}}
        yield "POST", "/a2a/app", {"jsonrpc": "2.0", "id": "?", **call}
    old = {"messageId": "m", "role": "user", "parts": data}
    call = {"method": "message/send", "params": {"message": old}}
    yield "POST", "/a2a/app", {"jsonrpc": "2.0", "id": 1, **call}
