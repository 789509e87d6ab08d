"""Hearing of other processes' commits."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack, closing
from pathlib import Path

from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions._changes import Changes
from durable_adk.sessions._head import Head
from durable_adk.sessions._sqlite import DataVersion
from durable_adk.sessions.session import SessionKey

_FILE_INTERVAL = 0.02
"""Seconds between two looks at a file's version, which cost microseconds."""

_QUERY_INTERVAL = 0.05
"""Seconds between two queries of another database."""

_LINGER = 1.0
"""Seconds to go on without watches, as a caller that reads what is new will wait again."""


async def poll(
    changes: Changes,
    heads_of: Callable[[Collection[SessionKey]], Awaitable[dict[SessionKey, Head | None]]],
    path: Path | None,
) -> None:
    """Wake the watches whose session is not as they saw it; ends when there are none for a while.

    However many watches there are, it is one query at a time, and none while a SQLite file at
    `path` does not change.
    """
    known: dict[SessionKey, Head | None] = {}
    version: int | None = None
    with ExitStack() as stack:
        file = stack.enter_context(closing(DataVersion(path))) if path else None
        interval = _FILE_INTERVAL if file else _QUERY_INTERVAL
        left = _LINGER
        while left > 0:
            await asyncio.sleep(interval)
            watches = changes.current()
            left = _LINGER if watches else left - interval
            keys = {watch.key for watch in watches}
            try:
                # Before the rows, so that a commit in between is seen the next time.
                latest = file.read() if file else None
                if latest is None or latest != version or not keys <= known.keys():
                    known, version = await heads_of(keys), latest
            except (StoreUnavailableError, sqlite3.OperationalError):
                continue
            for watch in watches:
                watch.compare(known[watch.key])
