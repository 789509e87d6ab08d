"""Where a command finds its apps, its store and its Temporal."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.app import App
from durable_adk.cli.target import load_target
from durable_adk.client.connect import connect
from durable_adk.embedded.runner import embedded_runner, embedded_task_queue
from durable_adk.embedded.shared import embedded_client, prepare_data_dir
from durable_adk.embedded.stores import Stores, folder_stores
from durable_adk.errors import AgentDefinitionError, InvalidRequestError
from durable_adk.runners import Runner
from durable_adk.sessions.database_url import shown
from durable_adk.sessions.sql_session_service import DatabaseSessionService, SqliteSessionService
from durable_adk.settings import Settings
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
        return prepare_data_dir(self._folder)

    @property
    def _folder(self) -> Path:
        return (self.data_dir or self.settings.data_dir).expanduser().absolute()

    @property
    def embedded_payloads(self) -> Path:
        """Where an embedded server's large payloads are, if the settings name no place."""
        return self._folder / "payloads"

    @property
    def store_url(self) -> str:
        """A database URL, or the path of a SQLite file."""
        return self.store or self.settings.store or str(self._folder / "sessions.db")

    @property
    def store_shown(self) -> str:
        """The same for people: no password is in it."""
        return place_shown(self.store_url)

    @property
    def databases(self) -> list[str]:
        """`store_url`, and those that the settings name for something else; all have all tables."""
        named = (self.settings.memory, self.settings.credentials)
        return list(
            dict.fromkeys([self.store_url, *(one for one in named if one and "://" in one)])
        )

    def open_store(self, url: str | None = None) -> DatabaseSessionService:
        """The session store, or another one of `databases`.

        Raises:
            InvalidRequestError: The database is not supported.
        """
        url = url or self.store_url
        if "://" in url:
            return DatabaseSessionService(url)
        return SqliteSessionService(Path(url).expanduser().absolute())

    def queue(self, app: App) -> str:
        """The task queue: the one chosen, else the app's own on the embedded server."""
        chosen = self.task_queue or self.settings.task_queue
        default = Settings.model_fields["task_queue"].default
        own = self.address is None and chosen == default
        return embedded_task_queue(app) if own else chosen

    @property
    def options(self) -> list[str]:
        """The options that lead another command to the same places."""
        store = self.store and self.store_shown
        named = {"--address": self.address, "--store": store, "--data-dir": self.data_dir}
        return [text for name, value in named.items() if value for text in (name, str(value))]

    @asynccontextmanager
    async def sessions(self, *, existing: bool = False) -> AsyncGenerator[DatabaseSessionService]:
        """The session store, ready to be used.

        Args:
            existing: Refuse to make one where there is none.

        Raises:
            InvalidRequestError: There is none, or it cannot be used.
        """
        if existing:
            self._check_store()
        async with self.unprepared_sessions() as sessions:
            await sessions.prepare()
            yield sessions

    @asynccontextmanager
    async def unprepared_sessions(
        self, url: str | None = None
    ) -> AsyncGenerator[DatabaseSessionService]:
        """The session store, or another one of `databases`, whatever its tables are.

        Raises:
            InvalidRequestError: The database is not supported.
        """
        sessions = self.open_store(url)
        try:
            yield sessions
        finally:
            await sessions.close()

    @asynccontextmanager
    async def stores(self) -> AsyncGenerator[Stores]:
        """All stores, ready to be used.

        Raises:
            InvalidRequestError: One of them cannot be used.
        """
        for url in self.databases[1:]:
            async with self.unprepared_sessions(url) as other:
                await other.prepare()
        async with self.sessions() as sessions:
            kept = folder_stores(self.folder, settings=self.settings, session_service=sessions)
            async with kept as stores:
                yield stores

    @asynccontextmanager
    async def temporal(self) -> AsyncGenerator[Client]:
        """A client of the Temporal at `address`, or of the data folder's, which runs meanwhile.

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
        """A runner on the Temporal at `address`, or on the embedded one, with a worker then.

        Raises:
            DurableAdkError: Something it needs is not there.
        """
        async with self.stores() as stores:
            if self.address is None:
                kept = stores.arguments()
                options = self.worker_options(self.queue(app))
                async with embedded_runner(
                    app, data_dir=self.folder, options=options, **kept
                ) as runner:
                    yield runner
                return
            async with Runner(
                app=app,
                client=await connect(self.address),
                task_queue=self.queue(app),
                auto_create_session=True,
                **stores.arguments(),
            ) as runner:
                yield runner

    def worker_options(self, task_queue: str) -> WorkerOptions:
        """How a worker runs that serves only while a command does."""
        return WorkerOptions(
            task_queue=task_queue,
            limits=self.settings.limits,
            graceful_shutdown=INTERRUPTED_AFTER,
        )

    def _check_store(self) -> None:
        url = self.store_url
        path = Path(url).expanduser().absolute()
        if "://" not in url and not path.is_file():
            raise InvalidRequestError(
                f"There is no session store at {path}; go to the folder that the "
                "agent was run in, or name its store with --store, or --data-dir."
            )


def place_shown(url: str) -> str:
    """A database URL, or a path, for people: no password is in it."""
    return shown(url) if "://" in url else url


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
