"""Detects other processes' commits to a SQLite file."""

import asyncio
from collections.abc import Collection
from contextlib import closing, suppress

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.watches import Changes, Watch
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.sqlite import DataVersion, SqliteStore

_INTERVAL = 0.02
"""Seconds between reads of the file's version, each of which takes microseconds."""
_REST = 4
"""Minimum ratio of the time between reads of all watched sessions to the duration of one."""
_LONGEST = 0.5
"""Maximum seconds between two rounds."""
_LINGER = 1.0
"""Seconds of polling without watches, because a caller usually reads and then waits again."""
_PATIENCE = 10.0
"""Seconds after which a waiter makes sure that the poll is running."""


class Poll:
    """Wakes the watches of changed sessions, from one task in each event loop.

    The watched sessions are read together, once for each change of the file; without a change, no
    statement is run, however many there are.
    """

    def __init__(self, store: SqliteStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._rounds: dict[asyncio.AbstractEventLoop, _Rounds] = {}

    def follow(self, watch: Watch) -> None:
        """Poll in the current loop for a watch that has just looked; it ends by itself."""
        loop = asyncio.get_running_loop()
        rounds = self._rounds.get(loop)
        if rounds is None or rounds.task.done():
            self._rounds = {one: r for one, r in self._rounds.items() if not one.is_closed()}
            rounds = self._rounds[loop] = _Rounds(self._store, self._changes)
        rounds.looked.add(watch)

    def patience(self, watch: Watch) -> float:  # noqa: ARG002  # as for the other store
        """Return the seconds to wait before `check`."""
        return _PATIENCE

    async def check(self, watch: Watch) -> None:
        """Restart polling if it has ended, e.g. because another user of the store has closed it."""
        self.follow(watch)

    def stop(self) -> None:
        """Stop polling in all loops."""
        stopped, self._rounds = self._rounds, {}
        for loop, rounds in stopped.items():
            with suppress(RuntimeError):  # the loop is closed, which ended the task
                loop.call_soon_threadsafe(rounds.task.cancel)


class _Rounds:
    """Polls in one event loop."""

    def __init__(self, store: SqliteStore, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._heads: dict[SessionKey, Head] = {}
        self._read: set[SessionKey] = set()
        self._version: int | None = None
        self.looked: set[Watch] = set()
        """Watches to compare although the file has not changed."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        left, pause = _LINGER, _INTERVAL
        with closing(self._store.version()) as file:
            while left > 0:
                await asyncio.sleep(pause)
                left = _LINGER if self._changes.watched() else left - pause
                began = loop.time()
                with suppress(StoreUnavailableError):
                    await self._round(file)
                pause = min(max(_INTERVAL, (loop.time() - began) * _REST), _LONGEST)

    async def _round(self, file: DataVersion) -> None:
        # Read the version before the rows, so that the next round detects a commit in between.
        version = file.read()
        if version != self._version:
            watches = self._changes.current()
            keys = {watch.key for watch in watches}
            self._heads = await self._heads_of(keys)
            self._read, self._version = keys, version
        elif self.looked:
            watches = list(self.looked)
            new = {watch.key for watch in watches} - self._read
            self._heads |= await self._heads_of(new)
            self._read |= new
        else:
            return
        for watch in watches:
            if watch.key in self._read:
                watch.compare(self._heads)
        self.looked.difference_update(watches)

    async def _heads_of(self, keys: Collection[SessionKey]) -> dict[SessionKey, Head]:
        if not keys:
            return {}
        return await self._store.read(lambda tables: tables.heads_of(keys))
