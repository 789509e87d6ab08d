"""A runner with all it needs, on this machine."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.app import App
from durable_adk.embedded.shared import connect_embedded, prepare_data_dir, shared_server
from durable_adk.runners import Runner
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.sql_session_service import SqliteSessionService
from durable_adk.settings import DEFAULT_TASK_QUEUE, Settings
from durable_adk.worker import WorkerOptions, worker


def embedded_task_queue(app: App) -> str:
    """One queue an app: processes with different apps share an embedded server."""
    return f"{DEFAULT_TASK_QUEUE}-{app.name}"


@asynccontextmanager
async def embedded_runner(
    app: App | BaseAgent,
    *,
    data_dir: Path | None = None,
    session_service: BaseSessionService | None = None,
    options: WorkerOptions | None = None,
) -> AsyncGenerator[Runner]:
    """Durable execution in one line: server, store and worker, and a runner that uses them.

    ::

        async with embedded_runner(root_agent) as runner:
            events = runner.run_async(user_id="me", session_id="one", new_message="Hello!")
            async for event in events:
                print(event.author, event.text)

    Sessions that are missing are created. What the process leaves unfinished, were it killed,
    goes on when this app is next embedded in the same folder.

    Args:
        app: The app, or a root agent: its name is the app's then.
        data_dir: Folder of the server's and the store's files; processes that use the same one
            share a server. None: ``DURABLE_ADK_DATA_DIR``, else ``.durable-adk`` here.
        session_service: The store, which stays open; None: SQLite in `data_dir`.
        options: How the worker runs; None: the defaults, on a task queue of the app's own.

    Raises:
        TemporalUnavailableError: The server cannot be started.
    """
    app = app if isinstance(app, App) else App(name=app.name, root_agent=app)
    folder = prepare_data_dir(data_dir or Settings().data_dir)
    options = options or WorkerOptions(task_queue=embedded_task_queue(app))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(shared_server(folder))
        client = await connect_embedded(server.address)
        if session_service is None:
            session_service = SqliteSessionService(folder / "sessions.db")
            stack.push_async_callback(session_service.close)
        await stack.enter_async_context(
            worker(client, apps=[app], session_service=session_service, options=options)
        )
        runner = Runner(
            app=app,
            session_service=session_service,
            client=client,
            task_queue=options.task_queue,
            auto_create_session=True,
        )
        yield await stack.enter_async_context(runner)
