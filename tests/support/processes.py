"""Workers and clients as processes that can be killed, and what they leave behind."""

import asyncio
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from durable_adk.client import workflow_id
from durable_adk.embedded.process import Process
from durable_adk.events import Event
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Webhooks
from harness.forked_worker import ForkedWorker
from tests.support import worker_main
from tests.support.apps import all_apps
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.preload import PRELOAD
from tests.support.worker_main import Order

ROOT = Path(__file__).parents[2]
SESSION = "s"
INVOCATION = "run"
"""The same in every test and in its control run, because event ids are derived from it (D5)."""


@dataclass(kw_only=True)
class Workplace:
    """A folder with a session store, and a task queue: the world of one test."""

    folder: Path
    client: Client
    address: str
    queue: str = field(default_factory=lambda: f"chaos-{uuid.uuid4().hex}")
    history: int = 4000
    """How many events a run of a workflow may have."""
    heartbeat: float = Order.heartbeat
    """Seconds until a step whose worker says nothing is another worker's."""
    lost: int = 10
    """How many workers a workflow task may lose in a row."""
    traced: bool = False
    """Whether its workers write their spans down, into `spans`."""
    webhooks: Webhooks | None = None
    """Whom its workers tell of invocations, if anybody."""
    deaths: int = 0
    """How often `restarted_worker` has found its worker dead."""

    @cached_property
    def traces(self) -> Traces:
        """What tools and models wrote down."""
        return Traces(self.folder)

    @cached_property
    def sessions(self) -> SqliteSessionService:
        """The client's own connections to the store."""
        return SqliteSessionService(self.folder / "sessions.db")

    @property
    def spans(self) -> Path:
        """The file of the spans; see `telemetry.read_spans`."""
        return self.folder / "spans"

    def runner(self, app: str) -> Runner:
        """A client of one app."""
        return Runner(
            app=all_apps(self.folder)[app],
            session_service=self.sessions,
            client=self.client,
            task_queue=self.queue,
            auto_create_session=True,
        )

    async def run(
        self, app: str, *, message: str | None = "go", **options: Any
    ) -> AsyncGenerator[Event, None]:
        """`Runner.run_async`, as the user that is named after the queue."""
        options = {"invocation_id": INVOCATION} | options
        async with self.runner(app) as runner:
            events = runner.run_async(
                user_id=self.queue, session_id=SESSION, new_message=message, **options
            )
            async with aclosing(events):
                async for event in events:
                    yield event

    async def all_of(self, app: str, **options: Any) -> list[Event]:
        """All events of `run`."""
        return [event async for event in self.run(app, **options)]

    def key(self, app: str) -> SessionKey:
        """The session all this happens in."""
        return SessionKey(app, self.queue, SESSION)

    def workflow(self, app: str, invocation_id: str = INVOCATION) -> WorkflowHandle[Any, Any]:
        """The workflow of an invocation."""
        return self.client.get_workflow_handle(workflow_id(self.key(app), invocation_id))

    async def log(self, app: str) -> list[Event]:
        """The session's events, as a fresh read gives them, numbered without gaps (I3)."""
        stored = await self.sessions.read_events(self.key(app))
        assert [item.seq for item in stored] == list(range(1, len(stored) + 1))
        return [item.event for item in stored]

    async def state(self, app: str) -> dict[str, Any]:
        """The session's stored state."""
        return (await self.sessions.read_state(self.key(app)))[1]

    async def start_client(self, app: str) -> Process:
        """A process that runs the invocation."""
        command = self._command("client_main", app, INVOCATION)
        return await Process.start(command, log=self.folder / "client.log", cwd=ROOT)

    async def start_worker(self, failpoint: str = "") -> ForkedWorker:
        """Start a worker that is ready; see `durable_adk.failpoints` for what may be armed."""
        worker = ForkedWorker(worker_main.main, self.address, self.folder, PRELOAD)
        order = Order(
            queue=self.queue,
            folder=self.folder,
            store=f"sqlite:///{self.folder}/sessions.db",
            failpoint=failpoint,
            history=self.history,
            heartbeat=self.heartbeat,
            lost=self.lost,
            spans=self.spans if self.traced else None,
            webhooks=self.webhooks,
        )
        try:
            # The failpoints are behind the start, so who dies before it was not killed by one.
            assert await worker.obey(order), self.logs
        except BaseException:
            worker.close()
            raise
        return worker

    @property
    def logs(self) -> str:
        """What the workers have logged."""
        return (self.folder / worker_main.LOG).read_text()

    @asynccontextmanager
    async def restarted_worker(self, failpoint: str = "") -> AsyncIterator[None]:
        """A worker that is started again whenever it dies."""
        first = await self.start_worker(failpoint)
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep(first, failpoint))
            yield
            keeper.cancel()

    async def _keep(self, worker: ForkedWorker, failpoint: str) -> None:
        while True:
            async with worker:
                await worker.end()
            self.deaths += 1
            worker = await self.start_worker(failpoint)

    def _command(self, program: str, *arguments: str) -> list[str | Path]:
        module = f"tests.support.{program}"
        return [sys.executable, "-m", module, self.address, self.queue, self.folder, *arguments]


@dataclass(frozen=True)
class Control:
    """What an undisturbed run, in process, yields and stores."""

    yielded: list[Event]
    stored: list[Event]
    state: dict[str, Any]


async def control_run(app: str, folder: Path) -> Control:
    """Run an app undisturbed; `folder` gets its traces."""
    Traces(folder).open_gate()
    async with AsyncExitStack() as stack:
        runner = await stack.enter_async_context(InMemoryRunner(app=chaos_apps(folder)[app]))
        await runner.session_service.create_session(app_name=app, user_id="u", session_id=SESSION)
        events = runner.run_async(
            user_id="u", session_id=SESSION, new_message="go", invocation_id=INVOCATION
        )
        yielded = [event async for event in events]
        session = await runner.session_service.get_session(
            app_name=app, user_id="u", session_id=SESSION
        )
    assert session is not None
    return Control(yielded, session.events, session.state)
