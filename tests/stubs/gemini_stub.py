"""A scripted Gemini on loopback, speaking its wire format; for tests, in process or as a program.

The n-th request gets the n-th entry of the script, or what the script, a function, returns for its
body. An entry is a text to say, or an object with:

- `body`: the JSON (or text) of the answer; `status` (200) and `headers` go with it;
- `chunks`: the JSON of each server-sent event, for streamGenerateContent;
- `delay`, `chunk_delay`: seconds before the answer, and before each chunk, unless the client goes
  away before they are over;
- `cut`: after the answer's `chunks`, or half of its `body`, drop the line: ``reset`` or ``close``.

As a program it prints its address and serves until it is killed::

    python tests/stubs/gemini_stub.py --port 0 --script replies.json --log requests.jsonl
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any


def text_answer(text: str, **candidate: Any) -> dict[str, Any]:
    """The JSON of an answer that says `text` and stops; `candidate` adds to it or replaces."""
    content = {"role": "model", "parts": [{"text": text}]}
    return answer(**{"content": content, "finishReason": "STOP", **candidate})


def answer(**candidate: Any) -> dict[str, Any]:
    """The JSON of an answer with one candidate."""
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub-1"}


def refusal(message: str) -> dict[str, Any]:
    """The entry of an answer that refuses the request."""
    return {"status": 400, "body": {"error": {"code": 400, "message": message}}}


@dataclass(kw_only=True)
class GeminiStub:
    """The server: start it, point a client's `base_url` at `url`, read `requests`."""

    script: list[Any] | Callable[[dict[str, Any]], Any] = field(default_factory=list)
    log: Path | None = None
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first request is there."""
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen on loopback; `port` 0 becomes the port that was free."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            number = len(self.requests)
            self.requests.append(request)
            self.arrived.set()
            if self.log is not None:
                _append(self.log, request)
            silence = partial(_silence, reader)
            streamed = "stream" in request["path"]
            await _answer(writer, self._entry(number), silence, streamed=streamed)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, which some tests do on purpose
        finally:
            writer.close()

    def _entry(self, number: int) -> dict[str, Any]:
        if callable(self.script):
            entry = self.script(self.requests[number]["body"])
        elif number >= len(self.script):
            entry = refusal(f"The stub's script has no entry {number}.")
        else:
            entry = self.script[number]
        return entry if isinstance(entry, dict) else {"text": entry}


async def read_request(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read a request with its JSON body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return {"method": method, "path": path, "headers": headers, "body": json.loads(body or b"{}")}


def _append(log: Path, request: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(request) + "\n")


Silence = Callable[[float], Awaitable[None]]


async def _silence(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait, but no longer than the client does."""
    if seconds:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await reader.read()


async def _answer(
    writer: asyncio.StreamWriter, entry: dict[str, Any], silence: Silence, *, streamed: bool
) -> None:
    await silence(entry.get("delay", 0))
    if streamed and "body" not in entry:
        await _answer_chunks(writer, entry, silence)
    else:
        body = entry.get("body", text_answer(entry.get("text", "")))
        is_page = isinstance(body, str)
        data = (body if is_page else json.dumps(body)).encode()
        kind = "text/html" if is_page else "application/json"
        write_head(writer, entry, {"Content-Type": kind, "Content-Length": len(data)})
        writer.write(data[: len(data) // 2] if entry.get("cut") else data)
    await writer.drain()
    if entry.get("cut") == "reset":
        await abort(writer)


async def abort(writer: asyncio.StreamWriter) -> None:
    """Drop a connection whose client can read all that was written before."""
    writer.transport.set_write_buffer_limits(0)  # else a part may still be here, and be lost
    await writer.drain()
    writer.transport.abort()


async def _answer_chunks(
    writer: asyncio.StreamWriter, entry: dict[str, Any], silence: Silence
) -> None:
    chunks = entry.get("chunks", [text_answer(entry.get("text", ""))])
    write_head(writer, entry, {"Content-Type": "text/event-stream"})
    for chunk in chunks:
        await writer.drain()
        await silence(entry.get("chunk_delay", 0))
        writer.write(f"data: {json.dumps(chunk)}\r\n\r\n".encode())


def write_head(
    writer: asyncio.StreamWriter, entry: dict[str, Any], headers: dict[str, Any]
) -> None:
    """Write an answer's head: the entry's status, and its headers with those passed."""
    headers = {**headers, "Connection": "close", **entry.get("headers", {})}
    lines = [f"HTTP/1.1 {entry.get('status', 200)} Scripted"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A scripted Gemini on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    script = json.loads(options.script.read_text())
    stub = GeminiStub(script=script, log=options.log, port=options.port)
    await stub.start()
    sys.stdout.write(stub.url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
