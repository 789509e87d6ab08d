"""``durable-adk demo``: an agent whose worker is killed in the middle of a tool."""

import asyncio
import json
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table
from rich.text import Text
from temporalio.client import Client

from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.cli.server import ServerConnection, await_worker, load_app
from durable_adk.cli.terminal import gist, plain_console, read_line
from durable_adk.client.invocations import Invocations, workflow_id
from durable_adk.embedded.process import Process
from durable_adk.embedded.server import ServerInfo
from durable_adk.embedded.shared import (
    connect_embedded,
    payload_storage,
    prepare_data_dir,
    shared_server,
    start_worker_process,
)
from durable_adk.errors import DurableAdkError
from durable_adk.runners import Runner
from durable_adk.sessions.database_session_service import SqliteSessionService
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

MESSAGE = "Find the capital of France and book a trip to Paris."
KILL_AFTER = 0.7
"""Seconds from the start of a booking to the kill of its worker; a booking takes 2."""
WORKER_START = 60.0
"""Seconds within which the first worker must start; on two idle cores it takes 2."""
_PACKAGE = Path(__file__).parents[1]
_EXAMPLES = (_PACKAGE / "_examples", _PACKAGE.parent / "examples")  # in a wheel, in a checkout


async def demo(connection: ServerConnection) -> None:
    """Watch an agent survive the SIGKILL of its worker."""
    target = _example()
    app = load_app(target)
    folder = prepare_data_dir(connection.folder / "demo")
    _print(
        "An agent is asked to book a trip. While it does, its worker is killed with SIGKILL, and "
        "another worker continues from the last committed event.\n"
    )
    _fact("model", _model(app))
    async with shared_server(folder) as server:
        _fact("server", f"Temporal on {server.address}, files in {_relative(folder)}")
        client = await connect_embedded(server.address, payload_storage(folder))
        sessions = SqliteSessionService(folder / "sessions.db")
        story = Story(app=app, target=target, folder=folder, server=server)
        # This runner starts and follows the invocation; the worker processes run it.
        runner = Runner(
            app=app,
            session_service=sessions,
            client=client,
            task_queue=story.queue,
            auto_create_session=True,
        )
        try:
            async with runner:
                await story.play(runner, client)
            records = await Records.read(client, sessions, story)
            _show(records, story)
            if sys.stdin.isatty() and sys.stdout.isatty():
                await read_line("\nPress Enter to stop the demo and its server. ")
        finally:
            await sessions.close()
    if story.killed_at is None or not records.prove_takeover:
        raise DurableAdkError("The demo did not go as expected; see the counts above.")


@dataclass(kw_only=True)
class Story:
    """One run of the demo: the message, the kill, and the second worker."""

    app: App
    target: str
    folder: Path
    server: ServerInfo
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    killed_at: float | None = None
    """Time of the kill in seconds since the epoch."""
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Include this run's id in all names, so that they do not collide with earlier runs."""
        self.key = SessionKey(self.app.name, "user", f"demo-{self.name}")
        self.invocation = f"e-demo-{self.name}"
        self.queue = f"durable-adk-demo-{self.name}"
        self.workflow = workflow_id(self.key, self.invocation)
        self.ledger = self.folder / f"trips-{self.name}.jsonl"

    def bookings(self) -> list[str]:
        """The tool's entries in its ledger, in order: ``started`` and ``done``."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [json.loads(line)["what"] for line in lines]

    async def play(self, runner: Runner, client: Client) -> None:
        """Send the message and show the events, while killing the worker."""
        async with await self._worker() as first:
            _fact("worker", f"process {first.pid}")
            invocations = Invocations(client, self.queue)
            await await_worker(invocations, self.invocation, seconds=WORKER_START)
            _print("")
            self._began = time.monotonic()
            killing = asyncio.create_task(self._kill(first))
            try:
                await self._show_events(runner)
            finally:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)

    async def _worker(self) -> Process:
        return await start_worker_process(
            self.target,
            address=self.server.address,
            store=str(self.folder / "sessions.db"),
            task_queue=self.queue,
            data_dir=self.folder,
            log=self.folder / "worker.log",
            env={"DURABLE_ADK_LEDGER": str(self.ledger)},
        )

    async def _kill(self, first: Process) -> None:
        while not self.bookings():  # noqa: ASYNC110  # another process writes the ledger
            await asyncio.sleep(0.02)
        await asyncio.sleep(KILL_AFTER)
        self.killed_at = time.time()
        await first.kill()
        self._say("", Text(f"worker {first.pid} is killed (SIGKILL) inside book_trip", "bold red"))
        async with await self._worker() as second:
            self._say("", Text(f"worker {second.pid} starts", "bold green"))
            await asyncio.Event().wait()  # until `play` cancels it

    async def _show_events(self, runner: Runner) -> None:
        events = runner.run_async(
            user_id=self.key.user_id,
            session_id=self.key.session_id,
            new_message=MESSAGE,
            invocation_id=self.invocation,
            yield_user_message=True,
        )
        async for event in events:
            for line in gist(event):
                self._say(event.author, line)

    def _say(self, who: str, what: Text) -> None:
        row = Table.grid(padding=(0, 2))
        row.add_column(width=7, justify="right", style="dim")
        row.add_column(width=max(4, len(self.app.root_agent.name)), style="cyan")
        row.add_column(overflow="fold")
        row.add_row(f"{time.monotonic() - self._began:.2f} s", who, what)
        plain_console().print(row)


@dataclass(frozen=True, kw_only=True)
class Records:
    """A run's records in the session store, the workflow history and the tool's ledger."""

    completed: bool
    events: int
    duplicates: int
    """Number of events whose id or sequence number occurs twice."""
    model_calls: int
    """Number of attempts of activity ``call_model`` in the history."""
    tool_runs: int
    """Number of attempts of activity ``call_tool`` in the history."""
    bookings_begun: int
    bookings_done: int
    taken_over: float | None
    """Start of the tool's second attempt, in seconds since the epoch."""

    @classmethod
    async def read(cls, client: Client, sessions: SessionLog, story: Story) -> "Records":
        """Read the store, the history and the ledger."""
        record = await sessions.get_invocation(story.key, story.invocation)
        stored = [
            item
            for item in await sessions.read_events(story.key)
            if item.event.invocation_id == story.invocation
        ]
        distinct = min(len({item.event.id for item in stored}), len({item.seq for item in stored}))
        attempts = {"call_model": 0, "call_tool": 0}
        types: dict[int, str] = {}
        taken_over = None
        async for event in client.get_workflow_handle(story.workflow).fetch_history_events():
            scheduled = event.activity_task_scheduled_event_attributes
            types[event.event_id] = scheduled.activity_type.name
            started = event.activity_task_started_event_attributes
            kind = types.get(started.scheduled_event_id)
            if kind in attempts:
                attempts[kind] += started.attempt
            if kind == "call_tool" and started.attempt > 1:
                taken_over = taken_over or event.event_time.ToMicroseconds() / 1e6
        bookings = story.bookings()
        return cls(
            completed=record is not None and record.status is Status.COMPLETED,
            events=len(stored),
            duplicates=len(stored) - distinct,
            model_calls=attempts["call_model"],
            tool_runs=attempts["call_tool"],
            bookings_begun=bookings.count("started"),
            bookings_done=bookings.count("done"),
            taken_over=taken_over,
        )

    @property
    def prove_takeover(self) -> bool:
        """Return whether a booking was interrupted, and nothing was lost or done twice."""
        once = self.bookings_begun > self.bookings_done == 1
        return self.completed and self.duplicates == 0 and once


def _example() -> str:
    """Return the folder of the example agent."""
    for folder in _EXAMPLES:
        if (folder / "capital_agent" / "agent.py").is_file():
            return str(folder / "capital_agent")
    raise DurableAdkError("The example agent is not part of this installation.")


def _print(text: str) -> None:
    plain_console().print(Text(text))


def _fact(name: str, text: str) -> None:
    row = Table.grid(padding=(0, 2))
    row.add_column(width=6, style="bold")
    row.add_column(overflow="fold")
    row.add_row(name, text)
    plain_console().print(row)


def _model(app: App) -> str:
    model = app.root_agent.model if isinstance(app.root_agent, LlmAgent) else None
    if model == "offline":
        return (
            "offline: a few rules instead of an LLM, so no API key is needed; "
            "set GEMINI_API_KEY to use Gemini"
        )
    return str(model)


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _show(records: Records, story: Story) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_column(style="dim")
    takeover = "-"
    if records.taken_over is not None and story.killed_at is not None:
        takeover = f"{records.taken_over - story.killed_at:.1f} s"
    ledger = f"the tool's ledger; started {records.bookings_begun} times"
    for number, what, source in (
        (records.model_calls, "model calls", "workflow history, attempts"),
        (records.tool_runs, "tool runs", "workflow history, attempts"),
        (records.events, "events committed", "session store"),
        (records.duplicates, "duplicates", "session store"),
        (records.bookings_done, "trips booked", ledger),
        (takeover, "to takeover", "from SIGKILL to the tool's next start, workflow history"),
    ):
        table.add_row(str(number), what, source)
    _print("\nWhat was recorded, and where")
    plain_console().print(table)
    if story.killed_at is None:
        _print("\nThe model booked no trip, so no worker was killed.")
    _print('\nAgents in a browser, after pip install "durable-adk[web]":')
    _print("durable-adk web examples/capital_agent")
