"""Where a command finds its apps, its store and its Temporal."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.app import App
from durable_adk.client.connect import connect
from durable_adk.embedded.runner import embedded_runner, embedded_task_queue
from durable_adk.embedded.shared import prepare_data_dir
from durable_adk.errors import AgentDefinitionError
from durable_adk.runners import Runner
from durable_adk.sessions.sql_session_service import DatabaseSessionService, SqliteSessionService
from durable_adk.settings import Settings
from durable_adk.targets import load_target
from durable_adk.worker import WorkerOptions

INTERRUPTED_AFTER = timedelta(seconds=1)
"""How long an embedded worker waits for a tool once the user wants to leave: the tool runs again
when the invocation is attached to, so waiting for it only costs patience."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """What the options and the environment say; `None` in an option leaves it to the latter."""

    address: str | None = None
    store: str | None = None
    task_queue: str | None = None
    data_dir: Path | None = None
    settings: Settings = field(default_factory=Settings)

    @property
    def folder(self) -> Path:
        """The data folder, made if missing."""
        return prepare_data_dir(self.data_dir or self.settings.data_dir)

    @property
    def store_url(self) -> str:
        """A database URL, or the path of a SQLite file."""
        return self.store or self.settings.store or str(self.folder / "sessions.db")

    def open_store(self) -> DatabaseSessionService:
        """The session store.

        Raises:
            InvalidRequestError: The database is not supported.
        """
        url = self.store_url
        if "://" in url:
            return DatabaseSessionService(url)
        return SqliteSessionService(Path(url).expanduser().absolute())

    def queue(self, app: App) -> str:
        """The task queue: the one chosen, else the app's own on the embedded server."""
        chosen = self.task_queue or self.settings.task_queue
        default = Settings.model_fields["task_queue"].default
        own = self.address is None and chosen == default
        return embedded_task_queue(app) if own else chosen

    @asynccontextmanager
    async def runner(self, app: App) -> AsyncGenerator[Runner]:
        """A runner on the Temporal at `address`, or on the embedded one, with a worker then.

        Raises:
            DurableAdkError: Something it needs is not there.
        """
        sessions = self.open_store()
        try:
            await sessions.prepare()
            if self.address is None:
                options = WorkerOptions(
                    task_queue=self.queue(app),
                    limits=self.settings.limits,
                    graceful_shutdown=INTERRUPTED_AFTER,
                )
                async with embedded_runner(
                    app, data_dir=self.folder, session_service=sessions, options=options
                ) as runner:
                    yield runner
            else:
                async with Runner(
                    app=app,
                    session_service=sessions,
                    client=await connect(self.address),
                    task_queue=self.queue(app),
                    auto_create_session=True,
                ) as runner:
                    yield runner
        finally:
            await sessions.close()


def load_app(target: str) -> App:
    """The app a target names; an agent alone becomes the app of its folder's or file's name.

    Raises:
        AgentDefinitionError: There is none.
    """
    loaded = load_target(target)
    if isinstance(loaded.value, App):
        return loaded.value
    if isinstance(loaded.value, BaseAgent):
        return App(name=loaded.name, root_agent=loaded.value)
    kind = type(loaded.value)
    raise AgentDefinitionError(
        f"{target}: what {loaded.source} defines is a {kind.__module__}.{kind.__qualname__}; "
        "import its class from durable_adk instead."
    )
