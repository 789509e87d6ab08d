"""A scripted server of OpenAI's chat completions on loopback; for tests.

The n-th request gets the n-th entry of the script: a text to say, a list of ``(name, arguments)``
calls to make, or an object with `status`, `body` and `headers`.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


@dataclass(kw_only=True)
class OpenAIStub:
    """The server: start it, point a client at `url`, read `requests`."""

    script: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests, in order, each with its `authorization`."""
    url: str = ""
    _server: uvicorn.Server | None = None
    _task: "asyncio.Task[None] | None" = None

    async def start(self) -> None:
        """Listen on a free port of the loopback."""
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            with suppress(asyncio.CancelledError):
                await self._task

    async def _complete(self, request: Request) -> JSONResponse:
        number = len(self.requests)
        body = await request.json()
        self.requests.append(body | {"authorization": request.headers.get("authorization")})
        entry = self.script[number]
        if isinstance(entry, dict):
            return JSONResponse(entry["body"], entry["status"], entry.get("headers"))
        return JSONResponse(completion(number, entry, body["model"]))


def completion(number: int, entry: str | list[tuple[str, dict[str, Any]]], model: str) -> Any:
    """The JSON of a reply that says a text or makes calls."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(entry, str):
        message["content"] = entry
    else:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(entry)
        ]
    reason = "stop" if isinstance(entry, str) else "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
