"""Error responses of middlewares, and access to the fields of a request."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from durable_adk.errors import DurableAdkError, class_name
from durable_adk.http._library import Send


def error_body(error: DurableAdkError) -> dict[str, Any]:
    """Return the JSON of an error response, in the format of our clients and of ADK's."""
    report = {"type": class_name(error), "message": error.message}
    return {"error": report, "detail": error.message}


async def refuse(
    send: Send, status: int, error: DurableAdkError, headers: Mapping[str, str] | None = None
) -> None:
    """Send a complete error response from a middleware."""
    body = json.dumps(error_body(error)).encode()
    complete = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    start = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in complete.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def values_of(scope: Mapping[str, Any], name: str) -> list[str]:
    """Return all values of a request header, by its lower-case name."""
    headers: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
    return [text.decode("latin-1") for key, text in headers if key == name.encode()]


def value_of(scope: Mapping[str, Any], name: str) -> str | None:
    """Return the first value of a request header, by its lower-case name."""
    return next(iter(values_of(scope, name)), None)


def address_of(scope: Mapping[str, Any]) -> str:
    """Return the client's address; empty if the request came through a Unix socket."""
    return (scope.get("client") or ("",))[0]


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the request's path relative to where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
