"""``durable-adk demo``: an agent whose worker is killed in the middle of a tool."""

import asyncio
import sys
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table
from rich.text import Text
from temporalio.client import Client

from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.cli.evidence import Evidence, collect, read_ledger
from durable_adk.cli.execution import execute
from durable_adk.cli.options import DataDir, Debug
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.reach import await_worker
from durable_adk.cli.terminal import gist, plain_console, read_line
from durable_adk.client.invocations import Invocations, workflow_id
from durable_adk.embedded.process import Process
from durable_adk.embedded.server import ServerInfo
from durable_adk.embedded.shared import (
    connect_embedded,
    payloads_place,
    prepare_data_dir,
    shared_server,
)
from durable_adk.embedded.worker_process import start_worker_process
from durable_adk.errors import DurableAdkError
from durable_adk.log import configure
from durable_adk.runners import Runner
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql_session_service import SqliteSessionService

MESSAGE = "Find the capital of France and book a trip to Paris."
INTO_THE_TOOL = 0.7
"""Seconds after a booking has begun at which its worker is killed; a booking takes 2."""

WORKER_START = 60.0
"""Seconds the first worker may take to be there; on two idle cores it takes 2."""

_PACKAGE = Path(__file__).parents[1]
_EXAMPLES = (_PACKAGE / "_examples", _PACKAGE.parent / "examples")


def demo_command(*, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Watch an agent survive the SIGKILL of its worker.

    Starts a Temporal server, a worker and a session store on this machine, sends the example agent
    a message, kills the worker while a tool runs, starts another, and counts afterwards what was
    recorded. It needs no key; with GEMINI_API_KEY the agent runs on Gemini.
    """
    configure("warning")
    execute(_demonstrate(Places(data_dir=data_dir)), debug=debug)


def example_agent() -> Path:
    """The folder of the example agent: in the wheel, or beside the package in a checkout.

    Raises:
        DurableAdkError: It was not installed.
    """
    for folder in _EXAMPLES:
        if (folder / "capital_agent" / "agent.py").is_file():
            return folder / "capital_agent"
    raise DurableAdkError("The example agent is not part of this installation.")


async def _demonstrate(places: Places) -> None:
    target = str(example_agent())
    app = load_app(target)
    folder = prepare_data_dir(places.folder / "demo")
    tell(
        "An agent is asked to book a trip. While it does, its worker is killed with SIGKILL, and "
        "another worker goes on from the last committed event.\n"
    )
    fact("model", _model(app))
    async with shared_server(folder) as server:
        fact("server", f"Temporal on {server.address}, files in {_short(folder)}")
        story = Story(app=app, target=target, folder=folder, server=server)
        async with story.stage() as runner:
            await story.tell(runner)
            evidence = await story.evidence(runner)
            _show(evidence, story)
            await _let_look()
    if not story.is_proven(evidence):
        raise DurableAdkError("This was not what the demo should show; see above.")


@dataclass(kw_only=True)
class Story:
    """One run of the demo."""

    app: App
    target: str
    folder: Path
    server: ServerInfo
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    client: Client = field(init=False)
    killed_at: float | None = None
    """Seconds since the epoch."""
    _began: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.app.name, "user", f"demo-{self.name}")

    @property
    def invocation(self) -> str:
        """The invocation's id."""
        return f"e-demo-{self.name}"

    @property
    def ledger(self) -> Path:
        """Where the tool writes what it does."""
        return self.folder / f"trips-{self.name}.jsonl"

    @property
    def queue(self) -> str:
        """A task queue that no worker of an earlier demo can know."""
        return f"durable-adk-demo-{self.name}"

    @property
    def link(self) -> str:
        """The workflow's page in the Temporal UI."""
        workflow = workflow_id(self.key, self.invocation)
        return f"{self.server.ui_url}/namespaces/default/workflows/{workflow}"

    @asynccontextmanager
    async def stage(self) -> AsyncGenerator[Runner]:
        """The store, and a runner that only watches: all work is the worker processes'."""
        self.client = await connect_embedded(self.server.address, payloads_place(self.folder))
        sessions = SqliteSessionService(self.folder / "sessions.db")
        try:
            async with Runner(
                app=self.app,
                session_service=sessions,
                client=self.client,
                task_queue=self.queue,
                auto_create_session=True,
            ) as runner:
                yield runner
        finally:
            await sessions.close()

    async def tell(self, runner: Runner) -> None:
        """Send the message, show the events, and meanwhile kill the worker."""
        async with await self._worker() as first:
            fact("worker", f"process {first.pid}")
            # A busy machine takes its time to start Python, and the message would be given up.
            queue = Invocations(self.client, self.queue)
            await await_worker(queue, self.invocation, patience=WORKER_START)
            tell("")
            self._began = time.monotonic()
            killing = asyncio.create_task(self._kill(first))
            try:
                await self._show_events(runner)
            finally:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)

    async def evidence(self, runner: Runner) -> Evidence:
        """What was recorded of the run."""
        handle = self.client.get_workflow_handle(workflow_id(self.key, self.invocation))
        return await collect(handle, runner.session_service, self.key, self.invocation, self.ledger)

    def is_proven(self, evidence: Evidence) -> bool:
        """Whether the records show that a run was interrupted and nothing was lost or doubled."""
        return (
            self.killed_at is not None
            and evidence.completed
            and evidence.duplicates == 0
            and evidence.bookings_begun > evidence.bookings_done == 1
        )

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
        while not read_ledger(self.ledger):  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.02)
        await asyncio.sleep(INTO_THE_TOOL)
        self.killed_at = time.time()
        await first.kill()
        self._say("", Text(f"worker {first.pid} is killed (SIGKILL) inside book_trip", "bold red"))
        async with await self._worker() as second:
            self._say("", Text(f"worker {second.pid} starts", "bold green"))
            await asyncio.Event().wait()  # until the story is told

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
        row.add_column(width=6, justify="right", style="dim")
        row.add_column(width=max(4, len(self.app.root_agent.name)), style="cyan")
        row.add_column(overflow="fold")
        row.add_row(f"{time.monotonic() - self._began:.2f} s", who, what)
        plain_console().print(row)


def tell(text: str) -> None:
    """A line of the story."""
    plain_console().print(Text(text))


def fact(name: str, text: str) -> None:
    """A line about what is there."""
    row = Table.grid(padding=(0, 2))
    row.add_column(width=6, style="bold")
    row.add_column(overflow="fold")
    row.add_row(name, text)
    plain_console().print(row)


def _model(app: App) -> str:
    model = app.root_agent.model if isinstance(app.root_agent, LlmAgent) else None
    if model == "offline":
        return (
            "offline, which is a few rules and no LLM, so that no key is needed; "
            "set GEMINI_API_KEY for Gemini"
        )
    return str(model)


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _show(evidence: Evidence, story: Story) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_column(style="dim")
    table.add_row(str(evidence.model_calls), "model calls", "workflow history, attempts")
    table.add_row(str(evidence.tool_runs), "tool runs", "workflow history, attempts")
    table.add_row(str(evidence.events), "events committed", "session store")
    table.add_row(str(evidence.duplicates), "duplicates", "session store")
    booked = f"the tool's ledger; begun {evidence.bookings_begun} times"
    table.add_row(str(evidence.bookings_done), "trips booked", booked)
    table.add_row(
        _takeover(evidence, story),
        "to takeover",
        "from SIGKILL to the tool's next start, workflow history",
    )
    tell("\nRecorded, and where")
    plain_console().print(table)
    if story.killed_at is None:
        tell("\nThe model booked no trip, so there was no tool to kill the worker in.")
    tell("\nLook at the workflow in the Temporal UI:")
    plain_console().print(Text(story.link, style="underline"), soft_wrap=True)


def _takeover(evidence: Evidence, story: Story) -> str:
    if evidence.taken_over is None or story.killed_at is None:
        return "-"
    return f"{evidence.taken_over - story.killed_at:.1f} s"


async def _let_look() -> None:
    """Keep the server up for as long as somebody may be looking."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        await read_line("\nPress Enter to end; the server ends, too. ")
