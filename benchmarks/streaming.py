"""How soon a client has what a model in another process writes: ``make bench``.

Prints a table and writes ``benchmarks/results/streaming.json``. Milliseconds from the moment at
which the model yields its first chunk to the moment at which the client's `run_async` yields it.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.genai import types
from rich.console import Console
from rich.table import Table

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.models.scripted import turn_of
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.run_config import RunConfig, StreamingMode
from durable_adk.worker import WorkerOptions, worker

QUEUE = "bench-streaming"
RESULTS = Path(__file__).parent / "results" / "streaming.json"
WORDS, WORD_DELAY = 20, 0.005
DELAYS = {"thinking": 0.2, "at-once": 0.0}
"""Seconds until the first chunk. A chunk that comes at once has to wait until the client has seen
the events before it, which on SQLite it looks for every 20 ms."""


class Clock(BaseLlm):
    """Has a tool called, then says what time it is, and some words more."""

    model: str = "clock"
    delay: float

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer: a call in a conversation's first turn, words in the second."""
        await asyncio.sleep(self.delay)
        call = types.FunctionCall(name="look", args={})
        part = types.Part(function_call=call) if turn_of(llm_request) % 2 == 0 else None
        for number in range(WORDS):
            text = f"{time.monotonic_ns()} " if number == 0 else "word "
            if stream:
                yield _said(types.Part(text=text), partial=True)
            await asyncio.sleep(WORD_DELAY)
        yield _said(part or types.Part(text="word " * WORDS))


def _said(part: types.Part, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[part]), partial=partial)


def look() -> str:
    """Look somewhere."""
    return "seen"


def apps() -> list[App]:
    """One app for each delay."""
    return [
        App(name=name, root_agent=LlmAgent(name="a", model=Clock(delay=delay), tools=[look]))
        for name, delay in DELAYS.items()
    ]


async def serve(address: str, store: str) -> None:
    """The worker process."""
    sessions = SqliteSessionService(store)
    options = WorkerOptions(task_queue=QUEUE)
    client = await connect(address)
    async with worker(client, apps=apps(), session_service=sessions, options=options):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the parent closes it
    await sessions.close()


class Turn:
    """One turn of a new session, as its client sees it."""

    def __init__(self) -> None:
        self.first_chunks: list[float] = []
        """Of each of the turn's two answers, milliseconds."""
        self.chunks = 0
        self.seconds = 0.0

    async def run(self, runner: Runner, *, streaming: bool) -> None:
        """Run it."""
        mode = StreamingMode.SSE if streaming else StreamingMode.NONE
        started, seen = time.perf_counter(), ""
        async for event in runner.run_async(
            user_id="u",
            session_id=uuid.uuid4().hex,
            new_message="What time is it?",
            run_config=RunConfig(streaming_mode=mode),
        ):
            if not event.partial:
                continue
            self.chunks += 1
            if event.id != seen:
                self.first_chunks.append((time.monotonic_ns() - int(event.text)) / 1e6)
                seen = event.id
        self.seconds = time.perf_counter() - started


async def measure_app(runner: Runner, rounds: int) -> dict[str, float]:
    """Streamed turns and others, alternating; medians."""
    streamed: list[Turn] = []
    others: list[Turn] = []
    for _ in range(rounds):
        for kind, turns in ((True, streamed), (False, others)):
            turn = Turn()
            await turn.run(runner, streaming=kind)
            turns.append(turn)
    whole = statistics.median(turn.seconds for turn in others)
    ranked = sorted(delay for turn in streamed for delay in turn.first_chunks)
    return {
        "first_chunk_ms_p50": statistics.median(ranked),
        "first_chunk_ms_p90": ranked[int(len(ranked) * 0.9)],
        "chunks_lost": 2 * WORDS * rounds - sum(turn.chunks for turn in streamed),
        "turn_to_unstreamed": statistics.median(turn.seconds for turn in streamed) / whole,
    }


async def measure(rounds: int) -> dict[str, Any]:
    """Start everything, run everything."""
    with tempfile.TemporaryDirectory() as folder:
        async with TemporalServer.start(data_dir=Path(folder), headless=True) as server:
            store = f"{folder}/sessions.db"
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.streaming", "--serve", server.address,
                "--store", store, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            while b"ready" not in await child.stdout.readline():
                pass
            sessions = SqliteSessionService(store)
            client = await connect(server.address)
            result: dict[str, Any] = {}
            for app in apps():
                async with Runner(
                    app=app,
                    session_service=sessions,
                    client=client,
                    task_queue=QUEUE,
                    auto_create_session=True,
                ) as runner:
                    await measure_app(runner, 3)  # warm up
                    result[app.name] = await measure_app(runner, rounds)
            await sessions.close()
            child.stdin.close()
            await child.wait()
            return result


def report(result: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("a model that begins", "first chunk p50", "p90", "aim", "lost", "turn")
    for name, found in result.items():
        table.add_row(
            f"{DELAYS[name]:g} s after it is asked",
            f"{found['first_chunk_ms_p50']:.1f} ms",
            f"{found['first_chunk_ms_p90']:.1f} ms",
            "<= 20 ms",
            f"{found['chunks_lost']:g}",
            f"{found['turn_to_unstreamed']:.2f}",
        )
    table.caption = "lost: chunks of all; turn: a tool turn's time to that without streaming"
    Console().print(table)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="ADDRESS")
    parser.add_argument("--store")
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.store))
        return
    result = asyncio.run(measure(arguments.rounds))
    report(result)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)


if __name__ == "__main__":
    main()
