"""The Temporal server and the worker of a command."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from durable_adk.apps.app import App
from durable_adk.cli.connection import TARGETS, CliConnection
from durable_adk.cli.dev.state import apps_of_dev
from durable_adk.cli.target import load_target
from durable_adk.client.connect import connect, if_exists
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.client.invocations import Invocations
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.embedded.runner import embedded_runner, embedded_task_queue
from durable_adk.embedded.server import TemporalServer
from durable_adk.embedded.shared import (
    connect_embedded,
    embedded_client,
    payload_storage,
    prepare_data_dir,
)
from durable_adk.embedded.stores import Stores, folder_stores
from durable_adk.errors import AgentDefinitionError, InvalidRequestError, NoWorkerError
from durable_adk.google_objects import from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.retrying import retrying
from durable_adk.runners import Runner
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.worker import WorkerOptions, worker

_GRACEFUL_SHUTDOWN = timedelta(seconds=1)
"""How long the worker of an interrupted command waits for a tool. The tool runs again when a
command attaches to the invocation, so a longer wait would gain nothing."""
_WORKER_TIMEOUT = 2.5
"""Seconds; a worker may have lost its server for a moment."""
_WORKER_POLL = 0.2


def load_app(target: str) -> App:
    """Load the app that a target defines; an agent becomes an app named after its folder or file.

    So does a `Workflow` or another node.

    Raises:
        AgentDefinitionError: The target defines no app, no agent and no node.
    """
    loaded = load_target(target)
    value: object = from_google_adk(loaded.value)
    if isinstance(value, App):
        return value
    if isinstance(value, BaseNode):
        return App(name=loaded.name, root_agent=value)
    kind = type(value)
    raise AgentDefinitionError(
        f"{target}: the agent of {loaded.source} is an instance of {kind.__module__}."
        f"{kind.__qualname__}; assign one of durable_adk.agents or google.adk.agents, a Workflow, "
        "or an App."
    )


@dataclass(frozen=True, kw_only=True)
class ServerConnection(CliConnection):
    """The connection of a command that also needs Temporal."""

    @property
    def arguments(self) -> list[str]:
        """The options that connect another command to the same store and Temporal."""
        return [*(["--address", self.address] if self.address else []), *super().arguments]

    @property
    def folder(self) -> Path:
        """The data folder; it is created if missing."""
        return prepare_data_dir(self.data_folder)

    @property
    def embedded_payloads(self) -> Path:
        """The folder of an embedded server's large payloads, unless the settings name another."""
        return self.data_folder / "payloads"

    def queue(self, app_name: str) -> str:
        """Return the selected task queue, else the app's own one on the embedded server."""
        chosen = self.task_queue or self.settings.task_queue
        own = self.address is None and chosen == DEFAULT_TASK_QUEUE
        return embedded_task_queue(app_name) if own else chosen

    @asynccontextmanager
    async def stores(self) -> AsyncGenerator[Stores]:
        """Open all stores.

        Raises:
            InvalidRequestError: One of them cannot be used.
        """
        for url in self.databases[1:]:
            async with self.database(url) as other:
                await other.prepare()
        async with self.sessions() as sessions:
            kept = folder_stores(self.folder, settings=self.settings, session_service=sessions)
            async with kept as stores:
                yield stores

    @asynccontextmanager
    async def temporal(self) -> AsyncGenerator[Client]:
        """Connect to the Temporal at `address`, or to the data folder's, started if necessary.

        Raises:
            TemporalUnavailableError: It does not respond.
        """
        if self.address is not None:
            yield await connect(self.address)
            return
        async with embedded_client(self.folder) as client:
            yield client

    async def running(self) -> Client:
        """Connect to a running Temporal: at `address`, or the data folder's server.

        Raises:
            TemporalUnavailableError: None runs there.
        """
        if self.address is None and (found := await TemporalServer.find(self.data_folder)):
            return await connect_embedded(found.address, payload_storage(self.data_folder))
        return await connect(self.address)

    def record_target(self, app_name: str, target: str) -> None:
        """Record the target of an embedded server's app, for commands that answer its calls."""
        if self.address is None:
            path = Path(target).absolute()
            targets = self.targets | {app_name: str(path) if path.exists() else target}
            (self.folder / TARGETS).write_text(json.dumps(targets))

    async def queues(self) -> list[str]:
        """Return the selected task queue, else those of the embedded server's apps."""
        queue = self.task_queue or self.settings.task_queue
        if self.address or queue != DEFAULT_TASK_QUEUE:
            return [queue]
        if await TemporalServer.find(self.data_folder) is None:
            return [queue]
        return [embedded_task_queue(app) for app in self.targets] or [queue]

    @asynccontextmanager
    async def runner(self, app: App) -> AsyncGenerator[Runner]:
        """Yield a runner on the Temporal at `address`, or on the embedded one.

        The latter has a worker in this process, unless `dev` serves the app.

        Raises:
            DurableAdkError: A requirement is missing.
        """
        async with self.stores() as stores:
            queue = self.queue(app.name)
            if not self._is_served(app):
                embedded = embedded_runner(
                    app,
                    data_dir=self.folder,
                    options=self._worker_options(queue),
                    **stores.arguments(),
                )
                async with embedded as runner:
                    yield runner
                return
            async with Runner(
                app=app,
                client=await self.running(),
                task_queue=queue,
                auto_create_session=True,
                **stores.arguments(),
            ) as runner:
                yield runner

    @asynccontextmanager
    async def invocation_client(
        self, record: InvocationRecord, *, app: App | None, needs_worker: bool = True
    ) -> AsyncGenerator[InvocationClient]:
        """Yield a client of an invocation in the store, without needing its agents' code.

        Args:
            record: The invocation.
            app: An app to serve in this process in the meantime, on an embedded server.
            needs_worker: Whether to fail if no worker polls the task queue.

        Raises:
            NoWorkerError: No worker polls its task queue.
            InvalidRequestError: This Temporal does not run it.
            TemporalUnavailableError: Temporal does not respond.
        """
        async with AsyncExitStack() as stack:
            stores = await stack.enter_async_context(self.stores())
            client = await stack.enter_async_context(self.temporal())
            queue = await _task_queue(client, record)
            invocations = Invocations(client, queue)
            if app is not None and not self._is_served(app):
                options = self._worker_options(queue)
                serving = worker(client, apps=[app], options=options, **stores.arguments())
                await stack.enter_async_context(serving)
            elif needs_worker:
                await await_worker(invocations, record.invocation_id)
            backend = TemporalBackend(invocations, stores.session_service)
            stack.push_async_callback(backend.close)
            yield InvocationClient(
                sessions=stores.session_service,
                backend=backend,
                credentials=stores.credential_service,
            )

    def _is_served(self, app: App) -> bool:
        """Return whether others serve the app: the workers of a Temporal at `address`, or `dev`."""
        return self.address is not None or app.name in apps_of_dev(self.folder)

    def _worker_options(self, task_queue: str) -> WorkerOptions:
        """Return options for a worker that serves only while a command runs."""
        return WorkerOptions(
            task_queue=task_queue,
            limits=self.settings.limits,
            graceful_shutdown=_GRACEFUL_SHUTDOWN,
            webhooks=self.settings.webhooks_of_worker(),
        )


async def _task_queue(client: Client, record: InvocationRecord) -> str:
    """Return the task queue of an invocation's workflow.

    Call this first: if another Temporal is connected, it does not have the workflow, and the
    invocation would be closed as abandoned.
    """
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
    if lease_owner is None:
        raise InvalidRequestError(
            f"Invocation {record.invocation_id!r} runs in another process, without Temporal; "
            "answer it in that process."
        )
    description = await if_exists(client.get_workflow_handle(lease_owner.workflow_id).describe())
    if description is None or description.raw_info.first_run_id != lease_owner.first_run_id:
        raise InvalidRequestError(
            f"The Temporal at {client.service_client.config.target_host} (namespace "
            f"{client.namespace}) does not run invocation {record.invocation_id!r}; select the "
            "right one with --address or --data-dir."
        )
    return description.task_queue


async def await_worker(
    invocations: Invocations, invocation_id: str, *, seconds: float = _WORKER_TIMEOUT
) -> None:
    """Wait until a worker polls the task queue, so that no message is left in the queue.

    Args:
        invocations: The client for the task queue.
        invocation_id: For the error message.
        seconds: How long to wait.

    Raises:
        NoWorkerError: No worker polls within that time.
    """
    check = retrying(invocations.check_worker, seconds, pause=_WORKER_POLL, on=NoWorkerError)
    try:
        await check(invocation_id)
    except NoWorkerError:
        raise NoWorkerError(
            f"No worker polls task queue {invocations.task_queue!r}, so nothing was sent. "
            "Run the agent in this command with --target, or start `durable-adk dev` or "
            "`durable-adk worker`, then try again."
        ) from None
