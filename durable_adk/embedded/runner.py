"""A runner with a server, a store and a worker on this machine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from durable_adk.apps.app import App
from durable_adk.artifacts import BaseArtifactService
from durable_adk.auth.credential_service import BaseCredentialService
from durable_adk.embedded.shared import embedded_client, payload_storage, prepare_data_dir
from durable_adk.embedded.stores import Stores, folder_stores
from durable_adk.google_objects import from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.memory import BaseMemoryService
from durable_adk.partials import PartialChannel
from durable_adk.runners import Runner
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import DEFAULT_TASK_QUEUE, Settings
from durable_adk.storage.payload_driver import blobs_at
from durable_adk.storage.retention import sweep
from durable_adk.worker import WorkerOptions, worker

PAYLOADS_KEPT = timedelta(days=7)
"""Retention for closed invocations; the embedded server deletes their histories earlier."""


def embedded_task_queue(app_name: str) -> str:
    """Return an app's task queue; processes with different apps share an embedded server."""
    return f"{DEFAULT_TASK_QUEUE}-{app_name}"


@asynccontextmanager
async def embedded_runner(
    app: App | BaseNode,
    *,
    data_dir: Path | None = None,
    session_service: SessionLog | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    partials: PartialChannel | None = None,
    options: WorkerOptions | None = None,
) -> AsyncGenerator[Runner]:
    """Start a server, a store and a worker, and yield a runner that uses them.

    ::

        async with embedded_runner(root_agent) as runner:
            async for event in runner.run_async(user_id="me", session_id="s", new_message="Hi!"):
                print(event.author, event.text)

    Missing sessions are created. If the process is killed, its open invocations continue when the
    app is next embedded in the folder.

    Args:
        app: The app, or a root agent, whose name becomes the app's.
        data_dir: Folder of the files; processes with the same folder share a server. None:
            ``DURABLE_ADK_DATA_DIR``, else ``.durable-adk``.
        session_service: The session store, not closed here; None: SQLite in `data_dir`.
        artifact_service: The same for artifacts; None: files.
        memory_service: The same for memory; None: SQLite.
        credential_service: The same for credentials; None: files that only their owner may read.
        partials: The channel of partial events, not closed here; None: that of the settings.
        options: How the worker runs; None: the defaults, on the app's own task queue.

    Raises:
        TemporalUnavailableError: The server cannot be started.
        WorkerStuckError: User code blocked the worker; the body was cancelled.
    """
    app = _as_app(from_google_adk(app))
    folder = prepare_data_dir(data_dir or Settings().data_dir)
    options = options or WorkerOptions(task_queue=embedded_task_queue(app.name))
    kept = folder_stores(
        folder,
        session_service=session_service,
        artifact_service=artifact_service,
        memory_service=memory_service,
        credential_service=credential_service,
        partials=partials,
    )
    async with kept as stores, _served(app, folder, stores, options) as runner:
        yield runner


def _as_app(app: App | BaseNode) -> App:
    return app if isinstance(app, App) else App(root_agent=app)


@asynccontextmanager
async def _served(
    app: App, folder: Path, stores: Stores, options: WorkerOptions
) -> AsyncGenerator[Runner]:
    """Yield a runner, with the server and the worker that run its invocations."""
    async with embedded_client(folder) as client:
        if Settings().payloads is None:
            # Storage from the settings may be shared with other servers, whose open invocations
            # this server would consider closed.
            blobs = blobs_at(payload_storage(folder))
            await sweep(client, blobs, older_than=PAYLOADS_KEPT.total_seconds())
        serving = worker(client, apps=[app], options=options, **stores.arguments())
        runner = Runner(
            app=app,
            client=client,
            task_queue=options.task_queue,
            auto_create_session=True,
            **stores.arguments(),
        )
        async with serving, runner:
            yield runner
