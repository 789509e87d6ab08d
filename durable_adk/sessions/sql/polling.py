"""Hearing of other processes' commits to a SQLite file."""

import asyncio
from contextlib import closing, suppress

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.sqlite import SqliteStore

_INTERVAL = 0.02
"""Seconds between two looks at a file's version, which cost microseconds."""

_LINGER = 1.0
"""Seconds to go on without watches, as a caller that reads what is new will wait again."""


class Poll:
    """Wakes the watches whose session is not as they saw it, from one task in each event loop.

    However many watches a session has it is looked up once, and not at all while the file does not
    change.
    """

    def __init__(self, store: SqliteStore, changes: Changes) -> None:
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
        with closing(self._store.version()) as file:
            while left > 0:
                await asyncio.sleep(_INTERVAL)
                watches = self._changes.current()
                left = _LINGER if watches else left - _INTERVAL
                keys = {watch.key for watch in watches}
                try:
                    # Before the rows, so that a commit in between is seen the next time.
                    latest = file.read()
                    if latest != version or not keys <= known.keys():
                        known, version = await self._heads(keys), latest
                except StoreUnavailableError:
                    continue
                for watch in watches:
                    watch.compare(known[watch.key])

    async def _heads(self, keys: set[SessionKey]) -> dict[SessionKey, Head | None]:
        return await self._store.read(lambda tables: {key: tables.head(key) for key in keys})
