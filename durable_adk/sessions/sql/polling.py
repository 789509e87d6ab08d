"""Detects other processes' commits to a SQLite file."""

import asyncio
from contextlib import closing, suppress

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.watches import Changes
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.sqlite import SqliteStore

_INTERVAL = 0.02
"""Seconds between two reads of the file's version, each of which takes microseconds."""

_LINGER = 1.0
"""Seconds to keep polling without watches, because a caller usually reads and then waits again."""


class Poll:
    """Wakes the watches of changed sessions, from one task in each event loop.

    Each session is read once per change of the file, regardless of its number of watches.
    """

    def __init__(self, store: SqliteStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start polling in the current loop unless it runs there; it ends by itself."""
        loop = asyncio.get_running_loop()
        task = self._tasks.get(loop)
        if task is None or task.done():
            self._tasks = {one: t for one, t in self._tasks.items() if not one.is_closed()}
            self._tasks[loop] = loop.create_task(self._run())

    def stop(self) -> None:
        """Stop polling in all loops."""
        tasks, self._tasks = self._tasks, {}
        for loop, task in tasks.items():
            with suppress(RuntimeError):  # the loop is closed, which ended the task
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
                    # Read the version before the rows, so that the next round sees a commit that
                    # falls in between.
                    latest = file.read()
                    if latest != version or not keys <= known.keys():
                        known, version = await self._heads(keys), latest
                except StoreUnavailableError:
                    continue
                for watch in watches:
                    watch.compare(known[watch.key])

    async def _heads(self, keys: set[SessionKey]) -> dict[SessionKey, Head | None]:
        return await self._store.read(lambda tables: {key: tables.head(key) for key in keys})
