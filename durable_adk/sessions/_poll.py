"""Hearing of other processes' commits."""

import asyncio
from contextlib import ExitStack, closing, suppress

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._head import Head
from durable_adk.sessions._postgres import PostgresStore
from durable_adk.sessions._sqlite import SqliteStore
from durable_adk.sessions.session import SessionKey

_FILE_INTERVAL = 0.02
"""Seconds between two looks at a file's version, which cost microseconds."""

_QUERY_INTERVAL = 0.05
"""Seconds between two queries of another database."""

_LINGER = 1.0
"""Seconds to go on without watches, as a caller that reads what is new will wait again."""


class Poll:
    """Wakes the watches whose session is not as they saw it, from one task in each event loop.

    However many watches a session has it is looked up once, and not at all while a SQLite file does
    not change.
    """

    def __init__(self, store: SqliteStore | PostgresStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def start(self) -> None:
        """See to it that it runs in this loop; it ends by itself."""
        loop = asyncio.get_running_loop()
        task = self._tasks.get(loop)
        if task is None or task.done():
            self._tasks = {one: t for one, t in self._tasks.items() if not one.is_closed()}
            self._tasks[loop] = loop.create_task(self._run())

    def stop(self) -> None:
        """End it in all loops."""
        tasks, self._tasks = self._tasks, {}
        for loop, task in tasks.items():
            with suppress(RuntimeError):  # its loop has been closed, which ended it
                loop.call_soon_threadsafe(task.cancel)

    async def _run(self) -> None:
        known: dict[SessionKey, Head | None] = {}
        version: int | None = None
        left = _LINGER
        with ExitStack() as stack:
            file = None
            if isinstance(self._store, SqliteStore):
                file = stack.enter_context(closing(self._store.version()))
            interval = _FILE_INTERVAL if file else _QUERY_INTERVAL
            while left > 0:
                await asyncio.sleep(interval)
                watches = self._changes.current()
                left = _LINGER if watches else left - interval
                keys = {watch.key for watch in watches}
                try:
                    # Before the rows, so that a commit in between is seen the next time.
                    latest = file.read() if file else None
                    if latest is None or latest != version or not keys <= known.keys():
                        known, version = await self._heads(keys), latest
                except StoreUnavailableError:
                    continue
                for watch in watches:
                    watch.compare(known[watch.key])

    async def _heads(self, keys: set[SessionKey]) -> dict[SessionKey, Head | None]:
        return await self._store.read(lambda tables: {key: tables.head(key) for key in keys})
