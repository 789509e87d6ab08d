"""A scripted server of Anthropic's messages on loopback; see `ScriptedServer`."""

import json
from typing import Any

from tests.stubs.scripted_server import Reply, ScriptedServer, in_pieces, parted

SIGNATURE = "c2lnbmVk"
"""Of each thought; a client has to send it back."""
_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""How a block of each type begins in a stream."""


class AnthropicStub(ScriptedServer):
    """The server; a stream has a call's name first, and then its input in pieces."""

    path = "/v1/messages"
    key_header = "x-api-key"

    def whole(self, number: int, reply: Reply, model: str) -> Any:
        """See base class."""
        usage = {"input_tokens": 11, "output_tokens": 7}
        return _message(
            number, model, content=_blocks(number, reply), stop_reason=_reason(reply), usage=usage
        )

    def events(self, number: int, reply: Reply, model: str) -> list[Any]:
        """See base class."""
        usage = {"input_tokens": 11, "output_tokens": 1}
        begun = _message(number, model, content=[], stop_reason=None, usage=usage)
        events: list[Any] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(_blocks(number, reply)):
            started = {
                "type": "content_block_start",
                "content_block": block | _EMPTY[block["type"]],
            }
            of_block = [started, *_deltas(block), {"type": "content_block_stop"}]
            events += (event | {"index": index} for event in of_block)
        ended = {"stop_reason": _reason(reply), "stop_sequence": None}
        return [
            *events,
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ]

    def sent_as(self, event: Any) -> str:
        """See base class."""
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _message(number: int, model: str, **more: Any) -> dict[str, Any]:
    fixed = {"type": "message", "role": "assistant", "stop_sequence": None}
    return {"id": f"msg_{number}", "model": model, **fixed, **more}


def _reason(reply: Reply) -> str:
    return "end_turn" if isinstance(parted(reply)[1], str) else "tool_use"


def _blocks(number: int, reply: Reply) -> list[dict[str, Any]]:
    thought, said = parted(reply)
    thinking = {"type": "thinking", "thinking": thought, "signature": SIGNATURE}
    blocks: list[dict[str, Any]] = [thinking] if thought else []
    if isinstance(said, str):
        return [*blocks, {"type": "text", "text": said}]
    return blocks + [
        {"type": "tool_use", "id": f"call_{number}_{index}", "name": name, "input": arguments}
        for index, (name, arguments) in enumerate(said)
    ]


def _deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    kind: str = block["type"]
    deltas: list[dict[str, Any]]
    if kind == "tool_use":
        pieces = in_pieces(json.dumps(block["input"]))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    else:
        deltas = [{"type": f"{kind}_delta", kind: piece} for piece in in_pieces(block[kind])]
    if kind == "thinking":
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [{"type": "content_block_delta", "delta": delta} for delta in deltas]
