"""What the HTTP server adds, and what its streams hold: ``make bench``.

Prints a table. Everything is on loopback; the worker and the server of runs are one process, as of
``durable-adk web``, and the server that holds idle streams is ``durable-adk serve``.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from google.genai import types
from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from benchmarks.streaming import Clock, look
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.server.app import app as application
from durable_adk.server.serving import serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.worker import WorkerOptions, worker

QUEUE = "bench-http"
USER: dict[str, Any] = {"user_id": "u"}
STREAMS_AT_ONCE = 100
WARM_UP = 5


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

    client: Client
    sessions: SqliteSessionService
    http: httpx.AsyncClient
    runners: dict[str, Runner]


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
        stack.callback(serving.cancel)
        limits = httpx.Limits(max_connections=None)
        http = httpx.AsyncClient(base_url=await url, timeout=60, limits=limits)
        await stack.enter_async_context(http)
        runners: dict[str, Runner] = {}
        for app in apps():
            runner = Runner(
                app=app,
                session_service=sessions,
                client=client,
                task_queue=QUEUE,
                auto_create_session=True,
            )
            runners[app.name] = await stack.enter_async_context(runner)
        yield Place(client, sessions, http, runners)


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


async def starts(place: Place, rounds: int) -> dict[str, float]:
    """A short run over HTTP, on a socket, to one by our client, alternating."""
    ours: list[float] = []
    over_http: list[float] = []
    url, runner = place.http.base_url, place.runners["short"]
    for number in range(rounds + WARM_UP):
        names = [uuid.uuid4().hex for _ in range(2)]
        for name in names:
            await place.sessions.create_session(app_name="short", session_id=name, **USER)
        sent = json.dumps(body("short", names[1])).encode()
        head = f"POST /run_sse HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        began = time.perf_counter()
        async for _ in runner.run_async(session_id=names[0], new_message="hi", **USER):
            pass
        between = time.perf_counter()
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(head.encode() + sent)
        await reader.readuntil(b"\r\n0\r\n\r\n")
        ended = time.perf_counter()
        writer.close()
        if number >= WARM_UP:
            ours.append(between - began)
            over_http.append(ended - between)
    return {"start_to_ours": statistics.median(over_http) / statistics.median(ours)}


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


async def idle_streams(address: str, store: str, place: Place, streams: int) -> dict[str, float]:
    """Megabytes that a server of its own holds for streams of runs that wait."""
    name = uuid.uuid4().hex
    await place.sessions.create_session(app_name="waits", session_id=name, **USER)
    response = await place.http.post("/run", json=body("waits", name))
    run = response.json()[0]["invocationId"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "durable_adk.cli", "serve", "--address", address, "--store", store,
        "--task-queue", QUEUE, "--port", "0", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        host, port = line.split()[-1].removeprefix("http://").split(":")
        request = f"GET /invocations/{run}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        writers: list[asyncio.StreamWriter] = []

        async def opened() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            await reader.readuntil(b'"status":"paused"')
            writers.append(writer)

        await opened()
        before = _resident(process.pid)
        for _ in range(0, streams, STREAMS_AT_ONCE):
            await asyncio.gather(*(opened() for _ in range(STREAMS_AT_ONCE)))
        held = _resident(process.pid)
        for writer in writers:
            writer.close()
    finally:
        process.terminate()
        await process.wait()
    return {
        "streams": len(writers),
        "server_mb": held,
        "kb_per_stream": (held - before) * 1024 / streams,
    }


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def measure(rounds: int, readers: int, streams: int) -> dict[str, float]:
    """Start everything, run everything."""
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            store = f"{folder}/sessions.db"
            async with placed(server.address, store) as place:
                result = await first_chunks(place, rounds) if rounds else {}
                result |= await starts(place, rounds) if rounds else {}
                result |= await many_readers(place, readers) if readers else {}
                if streams:
                    result |= await idle_streams(server.address, store, place, streams)
                return result


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=5000)
    given = parser.parse_args()
    table = Table("measure", "value")
    for name, value in asyncio.run(measure(given.rounds, given.readers, given.streams)).items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
