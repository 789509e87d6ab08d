"""A scripted server of a model provider on loopback; for tests.

The n-th request gets the n-th entry of the script, and the last one serves for all that follow. An
entry is a text to say, a list of ``(name, arguments)`` calls to make, one of these after a
`Thought`, a `Cut` of such a reply, or an object with `status`, `body` and `headers`.
"""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from tests.stubs.gemini_stub import abort, read_request, write_head

Said = str | list[tuple[str, dict[str, Any]]]
_PIECE = 5
"""Characters of a text, or of a call's arguments, that are sent at once."""


@dataclass(frozen=True)
class Thought:
    """What a model thinks before it says something."""

    text: str
    said: Said


Reply = Said | Thought


def parted(reply: Reply) -> tuple[str, Said]:
    """What a model thinks, or nothing, and what it says."""
    return (reply.text, reply.said) if isinstance(reply, Thought) else ("", reply)


@dataclass(frozen=True)
class Cut:
    """A reply that breaks off: a stream after some events, a whole answer in its middle.

    `how` is what the client then sees: ``reset``, the connection is lost; ``closed``, it ends
    before the body does; ``ended``, the body ends as a whole one does; or the JSON of an error that
    is sent as the last event.
    """

    reply: Reply
    after: int
    """How many events are sent; those with the first pieces are the second and third."""
    how: Literal["reset", "closed", "ended"] | dict[str, Any] = "reset"


@dataclass(kw_only=True)
class ScriptedServer(ABC):
    """The server: start it, point a client at `url`, read `requests`."""

    path: ClassVar[str]
    key_header: ClassVar[str]
    script: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the requests, in order, each with its `authorization`."""
    times: list[float] = field(default_factory=list)
    """When each came, in seconds of the monotonic clock."""
    url: str = ""
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free port of the loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    @abstractmethod
    def whole(self, number: int, reply: Reply, model: str) -> Any:
        """The JSON of a reply."""

    @abstractmethod
    def events(self, number: int, reply: Reply, model: str) -> list[Any]:
        """The JSON of each event of a reply's stream."""

    @abstractmethod
    def sent_as(self, event: Any) -> str:
        """An event as it is on the wire."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            if request["path"].partition("?")[0] != self.path:
                _answer(writer, {"status": 404, "body": {"error": {"message": request["path"]}}})
                return
            number, body = len(self.requests), request["body"]
            key = request["headers"].get(self.key_header)
            self.requests.append(body | {"authorization": key})
            self.times.append(time.monotonic())
            entry = self.script[min(number, len(self.script) - 1)]
            if isinstance(entry, dict):
                _answer(writer, entry)
            else:
                cut = entry if isinstance(entry, Cut) else Cut(entry, -1)
                send = self._stream if body.get("stream") else self._send
                await send(writer, number, cut, body["model"])
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, number: int, cut: Cut, model: str) -> None:
        body = self.whole(number, cut.reply, model)
        if cut.after < 0:
            _answer(writer, {"status": 200, "body": body})
            return
        data = json.dumps(body).encode()
        write_head(writer, {}, {"Content-Type": "application/json", "Content-Length": len(data)})
        writer.write(data[: len(data) // 2])
        await _break_off(writer, cut)

    async def _stream(
        self, writer: asyncio.StreamWriter, number: int, cut: Cut, model: str
    ) -> None:
        events = self.events(number, cut.reply, model)
        kind = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        write_head(writer, {}, kind)
        for event in events if cut.after < 0 else events[: cut.after]:
            _write_chunk(writer, self.sent_as(event))
            await writer.drain()
        if cut.after >= 0:
            if isinstance(cut.how, dict):
                _write_chunk(writer, self.sent_as(cut.how))
            await _break_off(writer, cut)
        if cut.after < 0 or cut.how == "ended" or isinstance(cut.how, dict):
            writer.write(b"0\r\n\r\n")


def _answer(writer: asyncio.StreamWriter, entry: dict[str, Any]) -> None:
    data = json.dumps(entry["body"]).encode()
    write_head(writer, entry, {"Content-Type": "application/json", "Content-Length": len(data)})
    writer.write(data)


async def _break_off(writer: asyncio.StreamWriter, cut: Cut) -> None:
    await writer.drain()
    if cut.how == "reset":
        await abort(writer)


def _write_chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def in_pieces(text: str) -> Iterator[str]:
    """The text, a few characters at a time."""
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
