"""The session store and the Temporal that a command works with."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client

from durable_adk.apps.app import App
from durable_adk.client.connect import configured_address, connect, if_exists
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.client.invocations import Invocations
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.embedded.runner import embedded_runner, embedded_task_queue
from durable_adk.embedded.shared import embedded_client, prepare_data_dir
from durable_adk.embedded.stores import Stores, folder_stores
from durable_adk.errors import InvalidRequestError, NoWorkerError
from durable_adk.retrying import retrying
from durable_adk.runners import Runner
from durable_adk.sessions.database_session_service import (
    DatabaseSessionService,
    SqliteSessionService,
)
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.sql.database_url import shown
from durable_adk.settings import DEFAULT_TASK_QUEUE, Settings
from durable_adk.worker import WorkerOptions, worker

_GRACEFUL_SHUTDOWN = timedelta(seconds=1)
"""How long the worker of an interrupted command waits for a tool. The tool runs again when the
invocation is attached to, so a longer wait would gain nothing."""
_WORKER_TIMEOUT = 3.0
"""Seconds; a worker may just have lost its server for a moment."""
_WORKER_POLL = 0.2


def _from_profile(address: str | None) -> str | None:
    """The address given, else that of the user's Temporal profile.

    So all commands and the worker use the same Temporal. A command that fell back to the embedded
    server might erase a store whose histories are on another one.
    """
    try:
        return address or configured_address()
    except InvalidRequestError as error:
        raise typer.BadParameter(error.message) from error


@dataclass(frozen=True, kw_only=True)
class CliConnection:
    """What the options and the environment select; an option that is None leaves it to the latter.

    Commands list the options that they have, see `durable_adk.cli.execution.command`.
    """

    address: Annotated[
        str | None,
        typer.Option(
            envvar="TEMPORAL_ADDRESS",
            help="host:port of a Temporal server. Default: the address of your Temporal profile, "
            "else an embedded server.",
            show_default=False,
            callback=_from_profile,
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            help="Session store: a SQLite file, or an SQLAlchemy URL. "
            "Default: sessions.db in the data folder.",
            show_default=False,
        ),
    ] = None
    task_queue: Annotated[
        str | None, typer.Option(help="The task queue of the app's workers.", show_default=False)
    ] = None
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the embedded server and of all stores. Default: .durable-adk",
            show_default=False,
        ),
    ] = None
    settings: Settings = field(default_factory=Settings)

    @property
    def folder(self) -> Path:
        """The data folder; it is created if missing."""
        return prepare_data_dir(self._folder)

    @property
    def _folder(self) -> Path:
        return (self.data_dir or self.settings.data_dir).expanduser().absolute()

    @property
    def embedded_payloads(self) -> Path:
        """The folder of an embedded server's large payloads, unless the settings name another."""
        return self._folder / "payloads"

    @property
    def store_url(self) -> str:
        """A database URL, or the path of a SQLite file."""
        return self.store or self.settings.store or str(self._folder / "sessions.db")

    @property
    def databases(self) -> list[str]:
        """`store_url`, then other databases that the settings name; all have the same tables."""
        named = (self.settings.memory, self.settings.credentials)
        return list(
            dict.fromkeys([self.store_url, *(one for one in named if one and "://" in one)])
        )

    def queue(self, app_name: str) -> str:
        """The task queue that was chosen, else the app's own one on the embedded server."""
        chosen = self.task_queue or self.settings.task_queue
        own = self.address is None and chosen == DEFAULT_TASK_QUEUE
        return embedded_task_queue(app_name) if own else chosen

    @property
    def arguments(self) -> list[str]:
        """The options that connect another command to the same store and Temporal."""
        store = self.store and without_password(self.store_url)
        named = {"--address": self.address, "--store": store, "--data-dir": self.data_dir}
        return [text for name, value in named.items() if value for text in (name, str(value))]

    @asynccontextmanager
    async def sessions(self, *, existing: bool = False) -> AsyncGenerator[DatabaseSessionService]:
        """Open the session store, with its tables.

        Args:
            existing: Refuse to create a store.

        Raises:
            InvalidRequestError: There is none, or it cannot be used.
        """
        if existing:
            _check_exists(self.store_url)
        async with self.database(self.store_url) as sessions:
            await sessions.prepare()
            yield sessions

    @asynccontextmanager
    async def database(self, url: str) -> AsyncGenerator[DatabaseSessionService]:
        """Open one of `databases`, without looking at its tables.

        Raises:
            InvalidRequestError: The database is not supported.
        """
        remote = "://" in url
        sessions = DatabaseSessionService(url) if remote else SqliteSessionService(_path(url))
        try:
            yield sessions
        finally:
            await sessions.close()

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
            TemporalUnavailableError: It does not answer.
        """
        if self.address is not None:
            yield await connect(self.address)
            return
        async with embedded_client(self.folder) as client:
            yield client

    @asynccontextmanager
    async def runner(self, app: App) -> AsyncGenerator[Runner]:
        """A runner on the Temporal at `address`, or on the embedded one together with a worker.

        Raises:
            DurableAdkError: Something it needs is missing.
        """
        async with self.stores() as stores:
            queue = self.queue(app.name)
            if self.address is None:
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
                client=await connect(self.address),
                task_queue=queue,
                auto_create_session=True,
                **stores.arguments(),
            ) as runner:
                yield runner

    @asynccontextmanager
    async def invocation_client(
        self, record: InvocationRecord, *, app: App | None, needs_worker: bool = True
    ) -> AsyncGenerator[InvocationClient]:
        """A client of an invocation in the store; the code of its agents is not needed.

        Args:
            record: The invocation.
            app: Served by this process meanwhile, on an embedded server.
            needs_worker: Refuse if no worker polls its task queue.

        Raises:
            NoWorkerError: No worker polls its task queue.
            InvalidRequestError: This Temporal does not run it.
            TemporalUnavailableError: Temporal does not answer.
        """
        async with AsyncExitStack() as stack:
            stores = await stack.enter_async_context(self.stores())
            client = await stack.enter_async_context(self.temporal())
            queue = await _task_queue(client, record)
            invocations = Invocations(client, queue)
            if app is not None and self.address is None:
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

    def _worker_options(self, task_queue: str) -> WorkerOptions:
        """How a worker runs that serves only while a command does."""
        return WorkerOptions(
            task_queue=task_queue,
            limits=self.settings.limits,
            graceful_shutdown=_GRACEFUL_SHUTDOWN,
        )


def _path(url: str) -> Path:
    return Path(url).expanduser().absolute()


def _check_exists(url: str) -> None:
    """Raise InvalidRequestError for a SQLite file that does not exist."""
    if "://" not in url and not _path(url).is_file():
        raise InvalidRequestError(
            f"There is no session store at {_path(url)}; run this command in the folder that the "
            "agent was run in, or name the store with --store or --data-dir."
        )


def without_password(url: str) -> str:
    """A database URL or a path, as it may be shown."""
    return shown(url) if "://" in url else url


async def _task_queue(client: Client, record: InvocationRecord) -> str:
    """The task queue of an invocation's workflow.

    It is looked up before anything else: another Temporal does not have the workflow, and the
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
    """Wait until a worker polls the task queue, so that nothing is sent that would stay there.

    Args:
        invocations: Of the task queue.
        invocation_id: For the error message.
        seconds: How long to wait.

    Raises:
        NoWorkerError: None does in that time.
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
