"""The connection for notices outlives what it runs in."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from durable_adk.sql.notifications import Notifications
from tests.support.waiting import PATIENCE


async def test_notices_outlive_a_loop_that_ends_before_it_looks() -> None:
    """I22: as that of a database that is closed and used again."""
    ended, connecting = asyncio.new_event_loop(), asyncio.Event()
    loops = [ended]

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        connecting.set()
        raise ConnectionRefusedError
        yield

    made = Notifications(lambda: loops[-1], connect)
    made.send("channel", "before")
    ended.close()
    loops.append(asyncio.get_running_loop())
    made.send("channel", "after")
    await asyncio.wait_for(connecting.wait(), PATIENCE)
    await made.close()
