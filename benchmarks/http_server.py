"""What the HTTP server adds, and what its streams hold: ``make bench``.

Prints a table. Everything is on loopback. The first chunks are those of a server that is mounted in
the process of the worker. Starts are sent by a process of its own: over HTTP to such a server and
to ``durable-adk serve``, and by our client. The server that holds idle streams is the latter.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from google.genai import types
from rich.console import Console
from rich.table import Table

from benchmarks.streaming import Clock, look
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.partials import PartialEvent, partials_of
from durable_adk.runners import Runner
from durable_adk.server.app import app as application, serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import SessionKey, SqliteSessionService, Status
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.worker import WorkerOptions, worker

QUEUE = "bench-http"
USER: dict[str, Any] = {"user_id": "u"}
STREAMS_AT_ONCE = 100
WARM_UP = 5
IDLE_SECONDS = 20
TURNS, WORDS, WORD_SECONDS = 3, 20, 0.05
"""Events of each of many runs, chunks of each, and the seconds between two chunks."""
ANSWERS, ANSWER, CHUNKS = 100, 200_000, 100
"""Events of a run with large answers, characters of each, and the chunks that it comes in."""
STALLED_BUFFER = 8192
"""Bytes that the kernel keeps for a reader who does not read."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def wait(what: str) -> None:
    """Wait for somebody."""


def apps() -> list[App]:
    """One that says the time, one that answers at once, and one that waits."""
    waiting = ScriptedModel(replies=lambda _: _call())
    short, tools = ScriptedModel(replies=lambda _: "x"), [LongRunningFunctionTool(wait)]
    return [
        App(name="clock", root_agent=LlmAgent(name="a", model=Clock(delay=0.2), tools=[look])),
        App(name="short", root_agent=LlmAgent(name="a", model=short)),
        App(name="waits", root_agent=LlmAgent(name="a", model=waiting, tools=tools)),
    ]


def _call() -> Any:
    return types.Part(function_call=types.FunctionCall(name="wait", args={"what": "x"}))


@dataclass
class Place:
    """A worker with a server in its process, and what both use."""

    sessions: SqliteSessionService
    http: httpx.AsyncClient


@asynccontextmanager
async def placed(address: str, store: str) -> AsyncGenerator[Place]:
    """Start both."""
    sessions, client = SqliteSessionService(store), await connect(address)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.close)
        options = WorkerOptions(task_queue=QUEUE)
        running = worker(client, apps=apps(), session_service=sessions, options=options)
        await stack.enter_async_context(running)
        settings = ServerSettings(port=0)
        made = application(
            session_service=sessions, client=client, task_queue=QUEUE, settings=settings
        )
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(made, listening=url.set_result))
        stack.push_async_callback(_ended, serving)
        limits = httpx.Limits(max_connections=None)
        http = httpx.AsyncClient(base_url=await url, timeout=60, limits=limits)
        await stack.enter_async_context(http)
        yield Place(sessions, http)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


def body(app: str, session: str, **more: Any) -> dict[str, Any]:
    """The body of a run."""
    message = {"role": "user", "parts": [{"text": "What time is it?"}]}
    return {"appName": app, "userId": "u", "sessionId": session, "newMessage": message, **more}


async def items(http: httpx.AsyncClient, sent: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
    """Yield what `/run_sse` sends."""
    async with http.stream("POST", "/run_sse", json=sent) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


async def first_chunks(place: Place, rounds: int) -> dict[str, float]:
    """Milliseconds from a model's first chunk to its reader over HTTP."""
    delays: list[float] = []
    for _ in range(rounds):
        name, seen = uuid.uuid4().hex, ""
        await place.sessions.create_session(app_name="clock", session_id=name, **USER)
        async for item in items(place.http, body("clock", name, streaming=True)):
            if item.get("partial") and item["id"] != seen:
                seen = item["id"]
                text = item["content"]["parts"][0]["text"]
                delays.append((time.monotonic_ns() - int(text)) / 1e6)
    return {"first_chunk_ms_p50": statistics.median(delays)}


async def starts(url: str, address: str, store: str, rounds: int) -> dict[str, float]:
    """The result of `compare_starts` in a process of its own, as callers of a server are."""
    command = [sys.executable, "-m", "benchmarks.http_server", "--rounds", str(rounds)]
    caller = await asyncio.create_subprocess_exec(
        *command, "--caller", url, address, store, stdout=asyncio.subprocess.PIPE
    )
    found, _ = await caller.communicate()
    result: dict[str, float] = json.loads(found)
    return result


async def compare_starts(url: str, address: str, store: str, rounds: int) -> dict[str, float]:
    """Short runs over HTTP, on kept connections, to those by our client, in turns.

    Of each: until it is accepted, which is when its user's event is committed, until its first
    event, and as a whole.
    """
    ours: list[tuple[float, ...]] = []
    over_http: list[tuple[float, ...]] = []
    async with AsyncExitStack() as stack:
        sessions, client = SqliteSessionService(store), await connect(address)
        stack.push_async_callback(sessions.close)
        runner = Runner(app=apps()[1], session_service=sessions, client=client, task_queue=QUEUE)
        await stack.enter_async_context(runner)
        starting, running = [await Kept.open(url) for _ in range(2)]
        stack.callback(starting.close)
        stack.callback(running.close)
        for number in range(rounds + WARM_UP):
            names = [uuid.uuid4().hex for _ in range(3)]
            for name in names:
                await sessions.create_session(app_name="short", session_id=name, **USER)
            runs = [
                partial(_by_client, runner, names[0]),
                partial(_accepted, runner, starting, names[1]),
                partial(_by_sse, running, names[2]),
            ]
            order = ((number + turn) % 3 for turn in range(3))
            found = {index: await runs[index]() for index in order}
            if number >= WARM_UP:
                ours.append(found[0])
                over_http.append((*found[1], *found[2]))
    result: dict[str, float] = {}
    for at, what in enumerate(("start", "first_event", "whole")):
        result |= _compared(what, [one[at] for one in over_http], [one[at] for one in ours])
    return result


def _compared(what: str, over_http: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """Medians in milliseconds, their ratio, and where nine in ten resampled ratios are."""
    pairs = list(zip(over_http, ours, strict=True))
    dice = random.Random(0)  # noqa: S311 - no secrets
    ratios = sorted(_ratio(dice.choices(pairs, k=len(pairs))) for _ in range(1000))
    return {
        f"{what}_ms_http": statistics.median(over_http) * 1000,
        f"{what}_ms_ours": statistics.median(ours) * 1000,
        f"{what}_to_ours": _ratio(pairs),
        f"{what}_to_ours_p5": ratios[50],
        f"{what}_to_ours_p95": ratios[949],
    }


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(one for one, _ in pairs) / statistics.median(two for _, two in pairs)


async def _by_client(runner: Runner, name: str) -> tuple[float, ...]:
    """Seconds of a run until the user's event, the next one, and the end."""
    began, found = time.perf_counter(), list[float]()
    said = {"session_id": name, "new_message": "hi", "yield_user_message": True}
    async for _ in runner.run_async(**said, **USER):
        found.append(time.perf_counter() - began)
    return found[0], found[1], time.perf_counter() - began


async def _accepted(runner: Runner, kept: "Kept", name: str) -> tuple[float, ...]:
    """Seconds until a start is answered; returns when the run has ended."""
    began = time.perf_counter()
    await kept.post("/invocations", body("short", name, streaming=False))
    made = json.loads(await kept.rest())
    ended = time.perf_counter()
    run = runner.run_async(session_id=name, invocation_id=made["invocationId"], **USER)
    assert [event async for event in run]
    return (ended - began,)


async def _by_sse(kept: "Kept", name: str) -> tuple[float, ...]:
    """Seconds of a run until its first event, and the end."""
    began = time.perf_counter()
    await kept.post("/run_sse", body("short", name))
    await kept.reader.readuntil(b"data: ")
    first = time.perf_counter()
    await kept.reader.readuntil(b"\r\n0\r\n\r\n")
    return first - began, time.perf_counter() - began


@dataclass
class Kept:
    """A connection for one request after the other: a client's library would cost more."""

    host: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, url: str) -> "Kept":
        """Connect."""
        name = url.removeprefix("http://")
        return cls(name, *await asyncio.open_connection(*name.split(":")))

    async def post(self, path: str, given: dict[str, Any]) -> None:
        """Send a request, and read the headers of the response."""
        sent = json.dumps(given).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        self.headers = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert self.headers.startswith("http/1.1 20"), self.headers

    async def rest(self) -> bytes:
        """Read the body, whose length the headers say."""
        length = self.headers.partition("content-length: ")[2].partition("\r")[0]
        return await self.reader.readexactly(int(length))

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


async def many_readers(place: Place, readers: int) -> dict[str, float]:
    """Gaps and repeats that readers of one run see."""
    name = uuid.uuid4().hex
    await place.sessions.create_session(app_name="clock", session_id=name, **USER)
    made = await place.http.post("/invocations", json=body("clock", name))
    path = f"/invocations/{made.json()['invocationId']}/events"

    async def read() -> list[int]:
        async with place.http.stream("GET", path) as response:
            lines = [line async for line in response.aiter_lines() if line.startswith("data: ")]
        found = [json.loads(line[6:]) for line in lines]
        return [item["seq"] for item in found if item["type"] == "event"]

    found = await asyncio.gather(*(read() for _ in range(readers)))
    whole = max(found, key=len)
    return {"readers": readers, "readers_with_gaps": sum(each != whole for each in found)}


async def many_runs(address: str, store: str, place: Place, runs: int) -> dict[str, float]:
    """Gaps and repeats in the streams of runs that are written and read at once.

    What a worker would write is written here: Temporal takes longer than all that is measured.
    """
    written = [await Written.open(place) for _ in range(runs)]
    whole, chunks = 0, 0

    async def read(server: Serving, run: Written) -> None:
        nonlocal whole, chunks
        reader, writer = await server.open(run.path)
        items, _ = _whole_items(await _to_end(reader))
        writer.close()
        whole += _is_whole(items)
        chunks += sum(item["chunks"] for item in items if item["type"] == "partial")

    async with serving_alone(address, store) as server, asyncio.TaskGroup() as group:
        for run in written:
            group.create_task(read(server, run))
        await asyncio.sleep(2)
        began = time.perf_counter()
        for number in range(1, TURNS + 1):
            for index in range(WORDS):
                for run in written:
                    run.publish(number, index, f"word {index} ")
                    await asyncio.sleep(0)
                await asyncio.sleep(WORD_SECONDS)
            await asyncio.gather(*(run.commit(number, "word " * WORDS) for run in written))
        await asyncio.gather(*(run.close() for run in written))
        ended = time.perf_counter()
    return {
        "runs": runs,
        "runs_seconds": ended - began,
        "runs_seconds_to_last_item": time.perf_counter() - ended,
        "runs_with_gaps_or_repeats": runs - whole,
        "chunks_seen_percent": 100 * chunks / (runs * TURNS * WORDS),
    }


def _is_whole(found: list[dict[str, Any]]) -> bool:
    """Whether a stream has each event once, and the chunks before each from its first on."""
    seqs = [item["seq"] for item in found if item["type"] == "event"]
    chunks: dict[tuple[str, int], list[int]] = {}
    for item in found:
        if item["type"] == "partial":
            end = item["position"] + 1
            places = chunks.setdefault((item["eventId"], item["attempt"]), [])
            places += range(end - item["chunks"], end)
    whole = all(each == list(range(len(each))) for each in chunks.values())
    return whole and seqs == list(range(1, len(seqs) + 1)) and found[-1]["type"] == "status"


@dataclass
class Serving:
    """A server in a process of its own."""

    pid: int
    host: str
    port: int

    async def open(self, path: str, *, last: str = "", buffer: int | None = None) -> Connection:
        """Connect, and ask for a stream; with a small buffer the server notices who does not read.

        Args:
            path: Of the stream.
            last: The id of the last item that the reader has.
            buffer: Bytes that the kernel keeps for the reader.
        """
        made = socket.create_connection((self.host, self.port))
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=made, limit=buffer or 2**16)
        headers = f"Host: {self.host}:{self.port}\r\nLast-Event-ID: {last}\r\n"
        writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        return reader, writer


@asynccontextmanager
async def serving_alone(address: str, store: str) -> AsyncGenerator[Serving]:
    """Start ``durable-adk serve``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "durable_adk.cli", "serve", "--address", address, "--store", store,
        "--task-queue", QUEUE, "--port", "0", stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # a line for each request
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        host, port = line.split()[-1].removeprefix("http://").split(":")
        yield Serving(process.pid, host, int(port))
    finally:
        process.terminate()
        await process.wait()


async def idle_streams(
    address: str, store: str, place: Place, streams: int, *, sessions: int
) -> dict[str, float]:
    """Megabytes that a server of its own holds for streams of runs that wait, and its idle CPU."""
    runs: list[Written] = []
    for _ in range(0, sessions, STREAMS_AT_ONCE):
        made = min(STREAMS_AT_ONCE, sessions - len(runs))
        runs += await asyncio.gather(*(Written.open(place) for _ in range(made)))
        await asyncio.gather(*(run.pause() for run in runs[-made:]))
    async with serving_alone(address, store) as server:
        writers: list[asyncio.StreamWriter] = []

        async def opened(run: Written) -> None:
            reader, writer = await server.open(run.path)
            await reader.readuntil(b'"status":"paused"')
            writers.append(writer)

        await opened(runs[0])
        before = _resident(server.pid)
        for start in range(0, streams, STREAMS_AT_ONCE):
            numbers = range(start, start + STREAMS_AT_ONCE)
            await asyncio.gather(*(opened(runs[number % sessions]) for number in numbers))
        held, used = _resident(server.pid), _cpu(server.pid)
        await asyncio.sleep(IDLE_SECONDS)
        idle = _cpu(server.pid) - used
        for writer in writers:
            writer.close()
    return {
        f"streams_of_{sessions}": len(writers),
        f"server_mb_of_{sessions}": held,
        f"kb_per_stream_of_{sessions}": (held - before) * 1024 / streams,
        f"idle_cpu_percent_of_{sessions}": 100 * idle / IDLE_SECONDS,
    }


@dataclass
class Written:
    """An invocation whose events and chunks are written by nobody's workflow."""

    place: Place
    key: SessionKey
    epoch: int

    @classmethod
    async def open(cls, place: Place) -> "Written":
        """Open one in a session of its own."""
        name = uuid.uuid4().hex
        key = SessionKey("waits", USER["user_id"], name)
        said = _said(name, 0, "hi")
        given: dict[str, Any] = {
            "invocation_id": name,
            "lease_owner": "bench",
            "create_session": True,
        }
        record = await place.sessions.open_invocation(key, user_event=said, **given)
        return cls(place, key, record.epoch)

    @property
    def name(self) -> str:
        """The id of the invocation, and of the session."""
        return self.key.session_id

    @property
    def path(self) -> str:
        """Of its stream."""
        return f"/invocations/{self.name}/events"

    @property
    def _held(self) -> dict[str, Any]:
        return {"invocation_id": self.name, "epoch": self.epoch}

    def publish(self, number: int, index: int, text: str) -> None:
        """Publish a chunk of an event."""
        channel = partials_of(self.place.sessions)
        assert channel is not None
        event = _said(self.name, number, text, partial=True)
        whose: dict[str, Any] = {"key": self.key, "invocation_id": self.name, "event": event}
        channel.publish(PartialEvent(**whose, attempt=1, index=index, revision=number))

    async def commit(self, number: int, text: str) -> None:
        """Commit an event."""
        await self.place.sessions.commit_event(
            self.key, _said(self.name, number, text), **self._held
        )

    async def pause(self) -> None:
        """Let it wait for somebody."""
        await self.place.sessions.pause_invocation(self.key, **self._held)

    async def close(self) -> None:
        """Complete it."""
        done = Status.COMPLETED
        await self.place.sessions.close_invocation(self.key, **self._held, status=done)


def _said(invocation: str, number: int, text: str, **more: Any) -> Event:
    content = types.Content(role="model", parts=[types.Part(text=text)])
    names = {"id": f"{invocation}.{number}", "invocation_id": invocation, "author": "a"}
    return Event(**names, timestamp=1.0, content=content, **more)


async def stalled_readers(address: str, store: str, place: Place, readers: int) -> dict[str, float]:
    """Megabytes that a server holds for readers who do not read, and who of them has gaps later.

    They are readers of a run with large answers: half of them come before these, half behind.
    """
    run = await Written.open(place)
    async with serving_alone(address, store) as server:
        before = peak = _resident(server.pid)
        held = [await server.open(run.path, buffer=STALLED_BUFFER) for _ in range(readers // 2)]
        await asyncio.sleep(1)
        for number in range(1, ANSWERS + 1):
            for index in range(CHUNKS):
                run.publish(number, index, "x" * (ANSWER // CHUNKS))
            await run.commit(number, "x" * ANSWER)
            await asyncio.sleep(0.02)
            peak = max(peak, _resident(server.pid))
        await run.close()
        while len(held) < readers:
            held.append(await server.open(run.path, buffer=STALLED_BUFFER))
        for _ in range(50):
            await asyncio.sleep(0.1)
            peak = max(peak, _resident(server.pid))
        whole = [await _goes_on(server, run.path, *connection) for connection in held]
    return {
        "stalled_readers": len(held),
        "run_mb": ANSWERS * ANSWER / 2**20,
        "stalled_before_mb": before,
        "stalled_peak_mb": peak,
        "stalled_with_gaps": whole.count(False),
    }


async def _goes_on(
    server: Serving, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Whether a reader has the whole run, who reads a little, is cut off, and connects again."""
    data = await reader.read(STALLED_BUFFER)
    writer.close()
    first, last = _whole_items(data)
    reader, writer = await server.open(path, last=last)
    rest, _ = _whole_items(await _to_end(reader))
    writer.close()
    return _is_whole(first + rest)


async def _to_end(reader: asyncio.StreamReader) -> bytes:
    """The whole response."""
    data = bytearray()
    while not data.endswith(b"\r\n0\r\n\r\n"):
        data += await reader.read(2**20)
    return bytes(data)


def _whole_items(data: bytes) -> tuple[list[dict[str, Any]], str]:
    """The items of a response that may be cut anywhere, and the id of the last."""
    text, start = b"", data.index(b"\r\n\r\n") + 4
    while (end := data.find(b"\r\n", start)) > start:
        size = int(data[start:end], 16)
        text += data[end + 2 : end + 2 + size]
        start = end + 2 + size + 2
    items: list[dict[str, Any]] = []
    last = ""
    for one in text.decode(errors="replace").split("\n\n")[:-1]:
        for line in one.split("\n"):
            name, _, value = line.partition(": ")
            if name == "data":
                items.append(json.loads(value))
            elif name == "id":
                last = value
    return items, last


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _cpu(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(given: argparse.Namespace) -> dict[str, float]:
    """Start everything, run everything."""
    rounds, streams = given.rounds, given.streams
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            store = f"{folder}/sessions.db"
            async with placed(server.address, store) as place:
                result = await first_chunks(place, given.answers) if given.answers else {}
                if rounds:
                    url = str(place.http.base_url).rstrip("/")
                    result |= await starts(url, server.address, store, rounds)
                    async with serving_alone(server.address, store) as alone:
                        url = f"http://{alone.host}:{alone.port}"
                        apart = await starts(url, server.address, store, rounds)
                        result |= {f"{name}_apart": value for name, value in apart.items()}
                result |= await many_readers(place, given.readers) if given.readers else {}
                here = server.address, store, place
                result |= await many_runs(*here, given.runs) if given.runs else {}
                for sessions in (1, streams) if streams else ():
                    result |= await idle_streams(*here, streams, sessions=sessions)
                if given.stalled:
                    result |= await stalled_readers(*here, given.stalled)
                return result


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--stalled", type=int, default=50)
    parser.add_argument("--caller", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.caller:
        url, address, store = given.caller
        found = asyncio.run(compare_starts(url, address, store, given.rounds))
        sys.stdout.write(json.dumps(found))
        return
    table = Table("measure", "value")
    for name, value in asyncio.run(measure(given)).items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
