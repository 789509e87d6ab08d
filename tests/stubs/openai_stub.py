"""A scripted server of OpenAI's chat completions on loopback; see `ScriptedServer`."""

import json
from typing import Any

from tests.stubs.scripted_server import Reply, Said, ScriptedServer, in_pieces, parted

_DONE = "[DONE]"
_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class OpenAIStub(ScriptedServer):
    """The server; a stream has a call's name first, and then its arguments in pieces."""

    path = "/v1/chat/completions"
    key_header = "authorization"

    async def start(self) -> None:
        """See base class; the URL is the one that clients take."""
        await super().start()
        self.url += "/v1"

    def whole(self, number: int, reply: Reply, model: str) -> Any:
        """See base class."""
        thought, said = parted(reply)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if thought:
            message["reasoning_content"] = thought
        if isinstance(said, str):
            message["content"] = said
        else:
            message["tool_calls"] = [
                _call(number, index, name, json.dumps(arguments))
                for index, (name, arguments) in enumerate(said)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _reason(said)}
        return _object(number, "chat.completion", model, choices=[choice], usage=_USAGE)

    def events(self, number: int, reply: Reply, model: str) -> list[Any]:
        """See base class."""

        def chunk(*choices: Any, **more: Any) -> Any:
            return _object(number, "chat.completion.chunk", model, choices=list(choices), **more)

        thought, said = parted(reply)
        thinking = ({"reasoning_content": piece} for piece in in_pieces(thought))
        deltas = [{"role": "assistant", "content": ""}, *thinking, *_deltas(number, said)]
        return [
            *(chunk({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas),
            chunk({"index": 0, "delta": {}, "finish_reason": _reason(said)}),
            chunk(usage=_USAGE),
            _DONE,
        ]

    def sent_as(self, event: Any) -> str:
        """See base class."""
        return f"data: {event if event == _DONE else json.dumps(event)}\n\n"


def _object(number: int, kind: str, model: str, **more: Any) -> Any:
    created = 1_760_000_000
    return {"id": f"chatcmpl-{number}", "object": kind, "created": created, "model": model, **more}


def _reason(said: Said) -> str:
    return "stop" if isinstance(said, str) else "tool_calls"


def _call(number: int, index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}_{index}", "type": "function", "function": function}


def _deltas(number: int, said: Said) -> list[dict[str, Any]]:
    if isinstance(said, str):
        return [{"content": piece} for piece in in_pieces(said)]
    calls: list[dict[str, Any]] = []
    for index, (name, arguments) in enumerate(said):
        calls.append({"index": index, **_call(number, index, name, "")})
        calls += (
            {"index": index, "function": {"arguments": piece}}
            for piece in in_pieces(json.dumps(arguments))
        )
    return [{"tool_calls": [call]} for call in calls]
