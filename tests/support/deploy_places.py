"""A deploy: a worker with an app ends, one with the next release of it takes over."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from google.genai import types
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError
from temporalio.worker import Replayer

from durable_adk.apps import App
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.client.invocations import Invocations
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.wire.converter import data_converter
from durable_adk.wire.messages import InvocationRequest, workflow_id
from durable_adk.worker import WorkerOptions, worker
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner
from tests.support.scripts import USER, ensure_session, gist, state, stored
from tests.support.waiting import PATIENCE, until

KEY = SessionKey("app", "u", "s")
AT_ONCE = timedelta(0)


@dataclass
class Place:
    """A task queue and a store, which stay when the workers change."""

    client: Client
    folder: Path
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of the workers."""
    queue: str = field(default_factory=lambda: f"deploy-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        self.sessions = SqliteSessionService(self.folder / f"{self.queue}.db")
        self.invocation_id = uuid.uuid4().hex

    @classmethod
    @asynccontextmanager
    async def opened(cls, client: Client, folder: Path, **options: Any) -> AsyncGenerator[Self]:
        """One with a store of its own."""
        place = cls(client, folder, options)
        try:
            yield place
        finally:
            await place.sessions.close()

    @asynccontextmanager
    async def worker(
        self, app: App, grace: timedelta = AT_ONCE, **options: Any
    ) -> AsyncGenerator[Runner]:
        """A release, and a runner for it."""
        chosen = WorkerOptions(
            task_queue=self.queue, graceful_shutdown=grace, **{**self.options, **options}
        )
        async with (
            worker(self.client, apps=[app], session_service=self.sessions, options=chosen),
            self.runner(app) as runner,
        ):
            yield runner

    @asynccontextmanager
    async def runner(self, app: App) -> AsyncGenerator[Runner]:
        """A runner; the store stays open when it is closed."""
        yield Runner(
            app=app, session_service=self.sessions, client=self.client, task_queue=self.queue
        )

    async def start(
        self, runner: Runner, invocation_id: str | None = None, *, session: str = "s"
    ) -> None:
        """Send a message, and leave."""
        await ensure_session(runner)
        request = InvocationRequest(
            app="app",
            user="u",
            session=session,
            message="go",
            invocation_id=invocation_id or self.invocation_id,
        )
        await Invocations(self.client, self.queue).start(request)

    async def approve(self, runner: Runner) -> None:
        """Approve what waits, and leave."""
        (pending,) = await runner.pending(**USER)
        await self.confirm(runner, pending)

    async def confirm(self, runner: Runner, pending: Any) -> None:
        """Approve something, whether it waits or not."""
        response = types.FunctionResponse(
            id=pending.call_id, name=pending.name, response={"confirmed": True}
        )
        part = types.Part(function_response=response)
        message = types.Content(role="user", parts=[part])
        async for _ in runner.run_async(**USER, new_message=message):
            break

    async def waits(self, runner: Runner) -> None:
        """Until somebody is asked."""
        await until(lambda: runner.pending(**USER))

    async def end(self, invocation_id: str | None = None, *, session: str = "s") -> str:
        """How it has ended."""
        async with asyncio.timeout(PATIENCE):
            result = await self.handle(invocation_id, session=session).result()
        return result["status"]

    async def status(self) -> str:
        """How far the store says it is, once its workflow is closed."""
        with suppress(WorkflowFailureError):
            await self.end()
        record = await self.sessions.get_invocation(KEY, self.invocation_id)
        return record.status if record else "unknown"

    def handle(self, invocation_id: str | None = None, *, session: str = "s") -> Any:
        """The invocation's workflow."""
        name = workflow_id(SessionKey("app", "u", session), invocation_id or self.invocation_id)
        return self.client.get_workflow_handle(name)

    async def log(self, runner: Runner) -> list[str]:
        """What the session says, in short."""
        return [_brief(event) for event in await stored(runner)]

    async def marks(self, runner: Runner) -> list[str]:
        """What has left its name in the state."""
        return sorted(await state(runner))

    async def replay(self, *apps: App) -> None:
        """Replay every history of the queue over each of the releases.

        Raises:
            RuntimeError: One does not replay.
        """
        for app in apps:
            serve(self.queue, AppRegistry([app]))
            for history in await self.histories():
                await replayer().replay_workflow(history)

    async def histories(self) -> Sequence[Any]:
        """Of every run of the queue's workflows."""
        runs = [run async for run in self.client.list_workflows(f"TaskQueue = '{self.queue}'")]
        handles = [self.client.get_workflow_handle(run.id, run_id=run.run_id) for run in runs]
        return [await handle.fetch_history() for handle in handles]


def _brief(event: Event) -> str:
    failed = any("error" in (answer.response or {}) for answer in event.get_function_responses())
    return gist(event).replace(" response ", " error of ") if failed else gist(event)


def replayer() -> Replayer:
    """With the package's converter; the sandbox guards every replay at the end of the tests."""
    return Replayer(
        workflows=[InvocationWorkflow],
        data_converter=data_converter,
        workflow_runner=workflow_runner(sandboxed=False),
    )


async def set_current(
    client: Client, deployment: str, build: str, *, workerless: bool = False
) -> None:
    """Make a version of workers current, as an operator does, once the server knows of them.

    Args:
        client: The client.
        deployment: The name of the deployment.
        build: The id of the build.
        workerless: Whether no worker has to be there.
    """
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace="default",
        deployment_name=deployment,
        build_id=build,
        identity="test",
        allow_no_pollers=workerless,
        ignore_missing_task_queues=workerless,
    )

    async def is_set() -> bool:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError:  # the server knows of none of its workers yet
            return False
        return True

    await until(is_set)
