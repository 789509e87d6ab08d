"""A store, a worker and the doctor who looks at both."""

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from durable_adk.apps import App
from durable_adk.client import workflow_id
from durable_adk.events import Event
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Finding
from durable_adk.ops.doctor.sources import Sources
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.commands import Terminal
from tests.support.dumps import Dump, dump


@dataclass
class Clinic:
    """One patient: a session store on a shared Temporal, whose user nobody else has."""

    folder: Path
    client: Client
    address: str
    user: str = field(default_factory=lambda: f"patient-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        self.file = self.folder / "sessions.db"
        self.store = SqliteSessionService(self.file)
        self.traces = Traces(self.folder)
        self.apps: dict[str, App] = chaos_apps(self.folder)
        self.limits = Limits()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker runs."""
        options = WorkerOptions(task_queue=self.user, limits=self.limits)
        apps = list(self.apps.values())
        async with worker(self.client, apps=apps, session_service=self.store, options=options):
            yield

    async def run(
        self, app: str, invocation_id: str, session: str = "s", **options: Any
    ) -> list[Event]:
        """Send a message and follow it to its end, or to where it pauses."""
        async with Runner(
            app=self.apps[app],
            session_service=self.store,
            client=self.client,
            task_queue=self.user,
            auto_create_session=True,
        ) as runner:
            events = runner.run_async(
                user_id=self.user,
                session_id=session,
                new_message="go",
                invocation_id=invocation_id,
                **options,
            )
            return [event async for event in events]

    def key(self, app: str, session: str = "s") -> SessionKey:
        """A session of the patient."""
        return SessionKey(app, self.user, session)

    def workflow(
        self, app: str, invocation_id: str, session: str = "s"
    ) -> WorkflowHandle[Any, Any]:
        """An invocation's workflow."""
        name = workflow_id(self.key(app, session), invocation_id)
        return self.client.get_workflow_handle(name)

    def sources(self, **options: Any) -> Sources:
        """What the doctor is shown."""
        return Sources(client=self.client, sessions=self.store, user=self.user, **options)

    async def findings(self, *, busy: bool = False, **options: Any) -> list[Finding]:
        """What the doctor finds; looking changes nothing, unless others are writing (`busy`)."""
        before = self.dump()
        cases = await diagnose(self.sources(**options))
        assert busy or self.dump() == before
        return [case.finding for case in cases]

    async def mend(self, **options: Any) -> None:
        """Do what the doctor says."""
        for case in await diagnose(self.sources(**options)):
            if case.remedy is not None:
                await case.remedy()

    def doctor(self, *options: str, stdin: str = "") -> tuple[int, str]:
        """The command, as the user types it; its exit code and what it prints."""
        terminal = Terminal(self.folder)
        places = ["--address", self.address, "--store", str(self.file), "--user", self.user]
        done = terminal.run("doctor", *places, *options, stdin=stdin)
        terminal.close()
        assert "Error" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    def found(self, *options: str) -> list[dict[str, Any]]:
        """What the command prints for programs."""
        return [json.loads(line) for line in self.doctor("--json", *options)[1].splitlines()]

    def dump(self) -> Dump:
        """All that is stored."""
        return dump(self.file)

    def sql(self, statement: str, *values: object) -> None:
        """Do to the store what no code of ours does."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement, values)
